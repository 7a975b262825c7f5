//! A compiled task group: its pods, one at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerPort, Pod, Toleration};
use trellis_api::job::TaskGroup;
use trellis_api::quantity::Amount;
use trellis_api::{ComputeResources, Quantity, names};

use crate::compile_input::CompileInput;
use crate::environment::PodIdentity;
use crate::hash::Hasher;
use crate::pod::{self, SharedPodParts, TemplateLayers};
use crate::{Demand, demand, framework, ports, resources};

/// The node that one pod goes to, and the plan or leader term behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PodPlacement<'a> {
    /// The attempt of the job, from 1.
    pub attempt: i64,
    /// The round of the attempt: 0 for the pods that come with its plan.
    pub round: i64,
    /// Hash of the plan that placed the pod.
    pub plan: &'a str,
    /// Term of the leader that creates the pod, of one that no plan names.
    pub epoch: Option<i64>,
    /// Name of the node.
    pub node: &'a str,
    /// Tolerations from the flavors that the group is assigned, beside those of the job.
    pub tolerations: &'a [Toleration],
    /// Further annotations, over those of the job.
    pub annotations: &'a BTreeMap<String, String>,
}

impl PodPlacement<'_> {
    /// No placement. Hashes are computed for it, and fields that all pods of a group share are read
    /// from it.
    pub const UNPLACED: PodPlacement<'static> = PodPlacement {
        attempt: 0,
        round: 0,
        plan: "",
        epoch: None,
        node: "",
        tolerations: &[],
        annotations: &BTreeMap::new(),
    };
}

/// Identical pods of a job, distinguished by an index.
#[derive(Clone, Debug)]
pub struct CompiledGroup {
    source: Arc<CompileInput>,
    /// Which of the spec's task groups it is.
    index: usize,
    compute: ComputeResources,
    first_rank: u32,
    hash: String,
}

impl CompiledGroup {
    /// The groups of a job, in the order of its spec.
    pub(crate) fn compile_groups(source: &Arc<CompileInput>) -> Vec<Self> {
        let gang = source.gang_facts();
        let groups = source.job.groups().enumerate();
        groups
            .map(|(at, (group, compute))| {
                let mut compiled = Self {
                    source: source.clone(),
                    index: at,
                    compute: compute.clone(),
                    first_rank: gang.first_rank(group),
                    hash: String::new(),
                };
                // The first pod bears all that the group's pods have in common, the
                // group's first rank among it.
                compiled.hash = Hasher::default()
                    .feed(&compiled.pod(0, &PodPlacement::UNPLACED))
                    .feed(&compiled.replicas())
                    .finish();
                compiled
            })
            .collect()
    }

    #[allow(
        clippy::indexing_slicing,
        reason = "made by `all` alone, of the groups that the source has and keeps"
    )]
    fn task_group(&self) -> &TaskGroup {
        &self.source.groups()[self.index]
    }

    /// Name of the task group.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.task_group().name
    }

    /// Number of pods.
    #[must_use]
    pub fn replicas(&self) -> u32 {
        self.task_group().replicas()
    }

    /// Its pods that are part of the gang: those with the lowest indexes.
    #[must_use]
    pub fn gang_size(&self) -> u32 {
        self.task_group().gang_size()
    }

    /// Rank of the group's first pod; its other pods follow by index.
    #[must_use]
    pub fn first_rank(&self) -> u32 {
        self.first_rank
    }

    /// CPU and memory of the main container of each pod, and the objects that state them.
    #[must_use]
    pub fn compute(&self) -> &ComputeResources {
        &self.compute
    }

    /// The request of one pod, by resource name: as it was written or resolved, where
    /// other containers add nothing to it.
    #[must_use]
    pub fn resources(&self) -> BTreeMap<String, Quantity> {
        let written = resources::group_requests(self.task_group(), &self.compute);
        if !self.layers().has_template() {
            return written;
        }
        let as_written = |name: &String, amount: Amount| {
            let own = written
                .get(name)
                .filter(|own| resources::amount_of(own) == amount);
            own.cloned()
                .unwrap_or_else(|| Quantity::new(amount.to_string()))
        };
        let request = self.pod_builder().template.request().into_iter();
        request
            .map(|(name, amount)| {
                let quantity = as_written(&name, amount);
                (name, quantity)
            })
            .collect()
    }

    /// Resources that one pod requests, by name and exact: CPU in cores, memory and disk in bytes,
    /// devices in pieces.
    #[must_use]
    pub fn request(&self) -> BTreeMap<String, Amount> {
        let resources = self.resources().into_iter();
        resources
            .map(|(name, quantity)| (name, resources::amount_of(&quantity)))
            .collect()
    }

    fn layers(&self) -> TemplateLayers<'_> {
        self.source.layers(self.index)
    }

    /// Name and hostname of a pod, `<job>-<group>-<index>`.
    #[must_use]
    pub fn pod_name(&self, index: u32) -> String {
        names::pod_name(self.source.job.job().name(), self.name(), index)
    }

    /// Everything that the pods of the group share, for callers that make many of them.
    #[must_use]
    pub fn pod_builder(&self) -> PodBuilder<'_> {
        PodBuilder {
            group: self,
            template: SharedPodParts::new(
                &self.source.gang_facts(),
                self.task_group(),
                &self.compute,
                self.layers(),
                &self.source.surroundings,
            ),
        }
    }

    /// The pod of an index from 0 to [`Self::replicas`], placed.
    #[must_use]
    pub fn pod(&self, index: u32, placement: &PodPlacement<'_>) -> Pod {
        self.pod_builder().pod(index, placement)
    }

    /// The labels that each pod bears, beside its index and its attempt.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        pod::pod_labels(self.source.job.job(), self.task_group(), self.layers())
    }

    /// Hash of the group's pods: 16 characters, the same for every attempt and node.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Everything that each pod makes use of.
    pub(crate) fn demands(&self) -> BTreeSet<Demand> {
        let pod = self.pod(0, &PodPlacement::UNPLACED);
        let mut demands = pod
            .spec
            .as_ref()
            .map(demand::pod_demands)
            .unwrap_or_default();
        demands.retain(|demand| !framework::is_own_object(self.source.job.job(), demand));
        demands
    }

    /// Names of the variables that the job's framework sets in the main container.
    #[must_use]
    pub fn framework_variables(&self) -> BTreeSet<String> {
        let injection = framework::inject(&self.source.gang_facts(), self.task_group());
        let names = injection.variables.into_iter();
        names.map(|variable| variable.name.into()).collect()
    }

    /// The ports that each pod listens on.
    pub(crate) fn ports(&self) -> Vec<ContainerPort> {
        let group = self.task_group();
        let injection = framework::inject(&self.source.gang_facts(), group);
        ports::container_ports(group, &injection.ports)
    }
}

/// The pods of a group. Each is built from their common part.
#[derive(Debug)]
pub struct PodBuilder<'a> {
    group: &'a CompiledGroup,
    template: SharedPodParts,
}

impl<'a> PodBuilder<'a> {
    /// The group that they are of.
    #[must_use]
    pub fn group(&self) -> &'a CompiledGroup {
        self.group
    }

    /// The pod of an index from 0 to [`CompiledGroup::replicas`], placed.
    #[must_use]
    pub fn pod(&self, index: u32, placement: &PodPlacement<'_>) -> Pod {
        let identity = PodIdentity {
            index,
            rank: self.group.first_rank.saturating_add(index),
            attempt: placement.attempt,
        };
        let name = self.group.pod_name(index);
        self.template.pod(name, identity, placement)
    }
}
