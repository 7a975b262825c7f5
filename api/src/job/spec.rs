//! The spec of a TrainingJob: the fields that users write.

use std::collections::BTreeMap;

use garde::Validate;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Checkpoint, Cleanup, Deadlines, JobSecret, Network, PodCleanup, Restart, RestartScope, Role,
    Success, SuccessPolicy, TaskGroup, TrainingJobStatus,
};
use crate::framework::{self, Framework};
use crate::names;
use crate::rules;
use crate::topology::Closeness;

/// A gang of pods that run all together or not at all.
///
/// Trellis never writes defaults into the spec. The compiler applies them, so the object in the
/// cluster stays equal to the one in git.
#[derive(CustomResource, KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "trellis.dev",
    version = "v1alpha1",
    kind = "TrainingJob",
    plural = "trainingjobs",
    shortname = "tj",
    category = "trellis",
    category = "all",
    namespaced,
    status = "TrainingJobStatus",
    derive = "PartialEq",
    doc = "A gang of pods that run all together or not at all.",
    validation = rules::JOB_NAME.to_cel_rule(),
    validation = rules::POD_NAME.to_cel_rule(),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Queue", type_ = "string", json_path = ".status.queue"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.ready"),
    printcolumn(name = "Attempt", type_ = "integer", json_path = ".status.attempt"),
    printcolumn(name = "Restarts", type_ = "integer", json_path = ".status.restarts"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Stage", type_ = "integer", json_path = ".status.stage.number", priority = "1"),
    printcolumn(name = "GPUs", type_ = "integer", json_path = ".status.gpus", priority = "1"),
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.nodes", priority = "1"),
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[x_kube(
    validation = rules::ONE_COORDINATOR.to_cel_rule(),
    validation = rules::SOME_WORKER.to_cel_rule(),
    validation = rules::ROLE_OF_FRAMEWORK.to_cel_rule(),
    validation = rules::POD_TOTAL.to_cel_rule(),
    validation = rules::RESERVED_ENV.to_cel_rule(),
    validation = rules::RULE_GROUPS.to_cel_rule(),
    validation = rules::SLICE_SCOPE.to_cel_rule(),
    validation = rules::OUTSIDE_GANG.to_cel_rule(),
    validation = rules::SOME_GANG.to_cel_rule(),
    validation = rules::DEPENDS_ON_GANG.to_cel_rule(),
)]
pub struct TrainingJobSpec {
    /// Framework whose environment the operator injects into the pods. Absent: None.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub framework: Option<Framework>,
    /// Name of the TrainingQueue. Absent: the default queue of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::queue_name)))]
    #[schemars(length(max = 63))]
    #[x_kube(validation = rules::QUEUE_NAME.to_cel_rule())]
    pub queue_name: Option<String>,
    /// Name of a PriorityClass. Absent: the cluster's global default, else 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::priority_class)))]
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::PRIORITY_CLASS.to_cel_rule(), validation = rules::SYSTEM_PRIORITY.to_cel_rule())]
    pub priority_class_name: Option<String>,
    /// Protection of the gang from preemption. Absent: Preemptible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemptibility: Option<Preemptibility>,
    /// Seconds after placement during which the job cannot be preempted. Its queue may limit them.
    /// Absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::min_runtime)))]
    #[x_kube(validation = rules::MIN_RUNTIME.to_cel_rule())]
    pub min_runtime_seconds: Option<i64>,
    /// True: the operator stops the gang, which then holds no resources or quota. Absent: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Manager of the job, as a path below a domain, such as `kueue.x-k8s.io/multikueue`. Trellis
    /// ignores a job with another manager. Absent: `trellis.dev/operator`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::managed_by)))]
    #[schemars(length(max = 63))]
    #[x_kube(validation = rules::MANAGED_BY.to_cel_rule())]
    pub managed_by: Option<String>,
    /// Name of the RuntimeProfile, whose settings the platform adds to the pods (docs/profiles.md).
    /// Absent: the cluster's default profile, if one exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::profile_name)))]
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::PROFILE_NAME.to_cel_rule())]
    pub profile: Option<String>,
    /// The groups of identical pods. They form one gang, except for groups with `membership:
    /// BestEffort` and for pods of an elastic group above `minReplicas`.
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[garde(
        dive,
        custom(rules::group_count),
        custom(rules::unique_groups),
        custom(rules::one_coordinator),
        custom(rules::some_worker),
        custom(rules::role_of_framework(self.framework())),
        custom(framework::check_groups(self.framework())),
        custom(rules::pod_total),
        custom(rules::outside_gang),
        custom(rules::some_gang),
        custom(rules::depends_on_earlier),
        custom(rules::depends_on_gang),
        custom(rules::depends_on_stage(self)),
        custom(rules::same_flavor)
    )]
    pub task_groups: Vec<TaskGroup>,
    /// Choice among the nodes with room. Pack: few nodes, with the least fragmentation of usable
    /// capacity; Spread: as many nodes as possible. Absent: Pack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementPolicy>,
    /// Required or preferred closeness of all pods of the job. `slices` and `balanced` apply to the
    /// pods of the world, in the order of their ranks. Absent: any nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive, custom(rules::slices_of_job(self)))]
    pub topology: Option<Closeness>,
    /// Reaction to a failed pod. Absent: the gang restarts, at most 3 times.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive, custom(rules::rule_groups(&self.task_groups)), custom(rules::slice_scope(&self.task_groups)))]
    pub restart: Option<Restart>,
    /// Limits on time, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub deadlines: Option<Deadlines>,
    /// Checkpoints: how the pods report them, and the time that pods have to write one before they
    /// are killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub checkpoint: Option<Checkpoint>,
    /// Condition under which the job is complete. Absent: all pods have succeeded, or only rank 0
    /// with framework MPI or Ray or a group of role Server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<Success>,
    /// Removal of the job's pods and other children after its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub cleanup: Option<Cleanup>,
    /// Seconds from the job's end until the operator deletes the TrainingJob and its children, as
    /// in batch/v1. A job with a tracking mark of Argo CD or Flux stays, since it would be created and
    /// run again; only its children are deleted. Absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::ttl)))]
    #[x_kube(validation = rules::TTL.to_cel_rule())]
    pub ttl_seconds_after_finished: Option<i64>,
    /// Secrets that the pods need. Each must be known, allowed and present before the job is placed
    /// (docs/secrets.md). A Secret that task groups name and that is not listed here is a Secret of
    /// the job's namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[garde(length(max = 16), custom(rules::unique_secrets), dive)]
    pub secrets: Vec<JobSecret>,
    /// ServiceAccount of the pods. Absent: the namespace's default, without a mounted token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[garde(inner(custom(rules::object_name)))]
    #[x_kube(validation = rules::OBJECT_NAME.to_cel_rule())]
    pub service_account_name: Option<String>,
    /// User and group ids of the pods. Absent: those of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub security_context: Option<SecurityContext>,
    /// Network peers of the pods other than the job's own pods and DNS: destinations and sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub network: Option<Network>,
    /// Labels and annotations of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub pod_metadata: Option<PodMetadata>,
}

/// Choice among the nodes with room. Pack: few nodes, with the least fragmentation of usable
/// capacity; Spread: as many nodes as possible. Absent: Pack.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PlacementPolicy {
    /// Few nodes, chosen so that the least usable capacity is fragmented.
    #[default]
    Pack,
    /// As many nodes as possible, those with the most free capacity first.
    Spread,
}

/// Protection of a gang from preemption. Preemptible: the gang may be a victim;
/// ProtectedWithinQuota: it is no victim while the protected gangs of its queue together stay
/// within the queue's nominal quota. A drain of the queue evicts both. Absent: Preemptible.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Preemptibility {
    /// The gang may be a victim.
    #[default]
    Preemptible,
    /// The gang is no victim while the protected gangs of its queue together stay within the
    /// queue's nominal quota.
    ProtectedWithinQuota,
}

impl Preemptibility {
    /// True if the gang may always be a victim.
    #[must_use]
    pub fn is_preemptible(self) -> bool {
        self == Self::Preemptible
    }
}

/// User and group ids of the pods.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct SecurityContext {
    /// User id of every process. An id above 0 sets runAsNonRoot; 0 is a privilege that policies
    /// must grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::user_id)))]
    #[x_kube(validation = rules::USER_ID.to_cel_rule())]
    pub run_as_user: Option<i64>,
    /// Group id that owns the mounted volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::user_id)))]
    #[x_kube(validation = rules::USER_ID.to_cel_rule())]
    pub fs_group: Option<i64>,
}

/// Labels and annotations of the pods.
#[derive(KubeSchema, Validate, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct PodMetadata {
    /// Labels. Keys below `trellis.dev/` and below Kubernetes' own domains are reserved.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    #[garde(custom(rules::metadata_keys), custom(rules::label_values))]
    #[x_kube(validation = rules::METADATA_KEYS.to_cel_rule(), validation = rules::RESERVED_KEYS.to_cel_rule(), validation = rules::LABEL_VALUES.to_cel_rule())]
    pub labels: BTreeMap<String, String>,
    /// Annotations. The same keys are reserved as for labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    #[garde(custom(rules::metadata_keys))]
    #[x_kube(validation = rules::METADATA_KEYS.to_cel_rule(), validation = rules::RESERVED_KEYS.to_cel_rule())]
    pub annotations: BTreeMap<String, String>,
}

impl TrainingJobSpec {
    /// Returns the framework, by default None.
    #[must_use]
    pub fn framework(&self) -> Framework {
        self.framework.unwrap_or_default()
    }

    /// True if the user has suspended the job.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.suspend.unwrap_or(false)
    }

    /// Returns the manager of the job, if it is not Trellis.
    #[must_use]
    pub fn external_manager(&self) -> Option<&str> {
        let manager = self.managed_by.as_deref();
        manager.filter(|manager| *manager != names::OPERATOR)
    }

    /// Returns the placement policy, by default Pack.
    #[must_use]
    pub fn placement(&self) -> PlacementPolicy {
        self.placement.unwrap_or_default()
    }

    /// True if the job may be a victim of preemption.
    #[must_use]
    pub fn is_preemptible(&self) -> bool {
        self.preemptibility.unwrap_or_default().is_preemptible()
    }

    /// Number of pods of the whole job.
    #[must_use]
    pub fn pod_count(&self) -> u32 {
        self.task_groups
            .iter()
            .fold(0_u32, |sum, g| sum.saturating_add(g.replicas()))
    }

    /// Number of pods that are placed all together or not at all.
    #[must_use]
    pub fn gang_size(&self) -> u32 {
        self.task_groups
            .iter()
            .fold(0_u32, |sum, g| sum.saturating_add(g.gang_size()))
    }

    /// Returns true if a failure in a slice of the group restarts that slice alone. Then each slice
    /// is a world of its own: a replica group.
    #[must_use]
    pub fn has_replica_groups(&self, group: &TaskGroup) -> bool {
        let scope = self.restart.as_ref().and_then(|restart| restart.scope);
        let is_slice = |scope| scope == RestartScope::Slice;
        group.has_slices() && scope.map_or(group.min_replicas.is_some(), is_slice)
    }

    /// Number of pods with a rank in the world: all except evaluators and groups outside the gang.
    /// An elastic group counts with its `replicas`, the largest number of its pods.
    #[must_use]
    pub fn world_size(&self) -> u32 {
        let world = self.task_groups.iter().filter(|g| g.is_in_world());
        world.fold(0_u32, |sum, g| sum.saturating_add(g.replicas()))
    }

    /// Returns the groups with ranks in the world, in the order of their ranks.
    pub fn world_groups(&self) -> impl Iterator<Item = &TaskGroup> {
        let groups = self.groups_by_rank().into_iter();
        groups.filter(|group| group.is_in_world())
    }

    /// True if slices or an even split count the pods of all groups of the world together.
    #[must_use]
    pub fn splits_world(&self) -> bool {
        self.topology.as_ref().is_some_and(Closeness::splits)
    }

    /// Returns the number of ranks in a slice of the job, for each layer, coarse to fine. Empty: the
    /// job has no slices; its task groups may have some.
    #[must_use]
    pub fn slice_sizes(&self) -> Vec<u32> {
        let topology = self.topology.as_ref();
        topology.map_or_else(Vec::new, |topology| topology.slice_sizes(self.world_size()))
    }

    /// Returns the group of the job's leader, if its framework gives it a Service of its own.
    #[must_use]
    pub fn leader_with_service(&self) -> Option<&TaskGroup> {
        let leader = self.framework().spec().leader?;
        let mut groups = self.task_groups.iter();
        groups.find(|group| leader.has_service && group.role() == leader.role)
    }

    /// Returns the names of the job's Services: the headless one, and the leader's if its framework
    /// gives it one.
    pub fn service_names(&self, job: &str) -> impl DoubleEndedIterator<Item = String> {
        let leader = self.leader_with_service();
        let leader = leader.map(|group| names::leader_service_name(job, &group.name));
        std::iter::once(job.to_owned()).chain(leader)
    }

    /// Returns the task group of this name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&TaskGroup> {
        self.task_groups.iter().find(|group| group.name == name)
    }

    /// Returns the topology level whose domain must contain all pods of a group. The flag is true
    /// if the group requires the level itself, which is then finer than the level of the job.
    #[must_use]
    pub fn required_level(&self, group: &str) -> Option<(&str, bool)> {
        let of_group = self.group(group).and_then(|group| group.topology.as_ref());
        let own = of_group.and_then(|topology| topology.required.as_deref());
        let of_job = self.topology.as_ref();
        let whole = of_job.and_then(|topology| topology.required.as_deref());
        own.map(|level| (level, true))
            .or_else(|| Some((whole?, false)))
    }

    /// Returns the success policy. The default is Leader if the job has pods that never end by
    /// themselves: servers, or workers of MPI and Ray. Otherwise it is All.
    #[must_use]
    pub fn success_policy(&self) -> SuccessPolicy {
        let given = self.success.as_ref().and_then(|s| s.policy);
        let mut roles = self.task_groups.iter().map(TaskGroup::role);
        given.unwrap_or_else(|| {
            let has_leader = self.framework().spec().leader.is_some();
            if has_leader || roles.any(|role| role == Role::Server) {
                SuccessPolicy::Leader
            } else {
                SuccessPolicy::All
            }
        })
    }

    /// True if finished pods of a complete job stay, with their logs.
    #[must_use]
    pub fn keeps_finished_pods(&self) -> bool {
        let cleanup = self.cleanup.as_ref();
        let pods = cleanup.and_then(|cleanup| cleanup.pods_on_success);
        pods.unwrap_or_default() == PodCleanup::Keep
    }

    /// Number of GPUs of the whole job, over all GPU resources.
    #[must_use]
    pub fn gpu_count(&self) -> u32 {
        self.task_groups.iter().fold(0_u32, |sum, g| {
            sum.saturating_add(g.gpus().saturating_mul(g.replicas()))
        })
    }
}
