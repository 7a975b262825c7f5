//! External pods that Trellis is to place: their requests for queue and priority, and the objects
//! that they name. Policies do not check their privileges: the API server's own admission (Pod
//! Security) has accepted the pods, and would for any other scheduler.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::PodSpec;
use trellis_api::QueueSpec;
use trellis_compiler::{Demand, demands_of_pod};

use super::evaluation::{RequestDecision, UndecidedReason};
use super::job_decision::{JobDecision, NotAuthorized, combine_refusals, not_synced_error};
use super::job_requests::{self, DescribedRequest};
use super::request::{JobAttributes, JobItself, JobName, PolicyRequest, RequestingNamespace};
use super::set::Policies;
use crate::authorize::{refuse_system_class, refuse_system_priority};
use crate::selects;

/// Facts of external pods that are placed together.
#[derive(Clone, Copy, Debug)]
pub struct ExternalPodsFacts<'a> {
    /// Their namespace.
    pub namespace: &'a str,
    /// Its labels.
    pub namespace_labels: &'a BTreeMap<String, String>,
    /// Name of their PodGroup, or of the pod that is in none: the job, to policies.
    pub name: &'a str,
    /// The labels of that object.
    pub labels: &'a BTreeMap<String, String>,
    /// Name of their queue.
    pub queue: &'a str,
    /// That queue.
    pub queue_spec: &'a QueueSpec,
    /// The PriorityClass of their PodGroup, if it names one.
    pub priority_class: Option<&'a str>,
    /// Their priority.
    pub priority: i32,
    /// Devices of all of them.
    pub gpus: i64,
    /// Number of pods.
    pub pods: i64,
    /// Longest running time, in seconds. None: no limit.
    pub runtime_seconds: Option<i64>,
}

/// Proof that policies allow some pods to be placed. Only [`ExternalPodsQuery::decide`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizedExternalPods {
    set_hash: String,
    version: String,
}

impl AuthorizedExternalPods {
    /// Hash of the policies that allowed it ([`Policies::hash`]).
    #[must_use]
    pub fn set_hash(&self) -> &str {
        &self.set_hash
    }

    /// Version of the policies that allow it ([`Policies::version`]).
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// Everything about external pods that policies look at. If it and [`Policies::version`] are
/// unchanged, so is the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalPodsQuery {
    namespace: String,
    namespace_labels: BTreeMap<String, String>,
    name: String,
    labels: BTreeMap<String, String>,
    priority_class: Option<String>,
    priority: i32,
    gpus: i64,
    pods: i64,
    runtime_seconds: Option<i64>,
    requests: Vec<PolicyRequest>,
}

impl ExternalPodsQuery {
    /// Collects the requests of these pods.
    pub fn new<'p>(
        asking: &ExternalPodsFacts<'_>,
        specs: impl IntoIterator<Item = &'p PodSpec>,
    ) -> Self {
        Self {
            namespace: asking.namespace.to_owned(),
            namespace_labels: asking.namespace_labels.clone(),
            name: asking.name.to_owned(),
            labels: asking.labels.clone(),
            priority_class: asking.priority_class.map(str::to_owned),
            priority: asking.priority,
            gpus: asking.gpus,
            pods: asking.pods,
            runtime_seconds: asking.runtime_seconds,
            requests: collect_requests(asking, specs),
        }
    }

    /// Decides whether policies allow the external pods. Without `policies`, that is before they
    /// have been read, nothing is allowed. No policy can grant priorities that are reserved for the
    /// system.
    ///
    /// # Errors
    /// Lists every denied or undecided request.
    pub fn decide(
        &self,
        policies: Option<&Policies>,
    ) -> Result<AuthorizedExternalPods, NotAuthorized> {
        let subject = RequestingNamespace {
            namespace: &self.namespace,
            labels: &self.namespace_labels,
        };
        let about = JobAttributes {
            job: &self.name,
            labels: &self.labels,
            requester: None,
            gpus: self.gpus,
            pods: self.pods,
            framework: "None",
            priority: self.priority.into(),
            runtime_seconds: self.runtime_seconds,
            profile: None,
            attempt: 1,
        };
        let decisions = match policies {
            Some(policies) => policies.decide(&subject, &about, &self.requests),
            None => vec![
                RequestDecision::from_undecided(UndecidedReason::NotSynced);
                self.requests.len()
            ],
        };
        let class = self.priority_class.as_deref();
        let mut refusals: Vec<_> = class.and_then(refuse_system_class).into_iter().collect();
        refusals.extend(refuse_system_priority(self.priority));
        let demanded = self.requests.iter().map(|request| DescribedRequest {
            descriptions: vec![request.describe(&JobName {
                namespace: &self.namespace,
                name: &self.name,
            })],
            remedy: request.remedy(),
            request: request.clone(),
        });
        let decision = JobDecision {
            set_hash: policies.map(|policies| policies.hash().to_owned()),
            decisions: demanded.zip(decisions).collect(),
        };
        combine_refusals(&decision, refusals)?;
        let policies = policies.ok_or_else(not_synced_error)?;
        Ok(AuthorizedExternalPods {
            set_hash: policies.hash().to_owned(),
            version: policies.version(&self.namespace),
        })
    }
}

/// Each thing once. The flavors are all that the queue offers: any may be chosen.
fn collect_requests<'p>(
    asking: &ExternalPodsFacts<'_>,
    specs: impl IntoIterator<Item = &'p PodSpec>,
) -> Vec<PolicyRequest> {
    let mut demands: BTreeSet<Demand> = specs.into_iter().flat_map(demands_of_pod).collect();
    demands.insert(Demand::UseQueue(asking.queue.to_owned()));
    let class = asking.priority_class.map(str::to_owned);
    demands.extend(class.map(Demand::UsePriorityClass));
    let selector = asking.queue_spec.namespace_selector.as_ref();
    let selected = selects(selector, asking.namespace_labels);
    let mut requests: BTreeSet<PolicyRequest> = demands
        .iter()
        .map(|demand| job_requests::build_request(demand, asking.namespace, |_| selected))
        .collect();
    requests.insert(PolicyRequest::Submit(JobItself));
    let offered = asking.queue_spec.resource_groups.iter();
    let offered = offered.flat_map(|group| group.flavors.iter().map(|f| f.name.clone()));
    requests.extend(offered.map(PolicyRequest::UseFlavor));
    requests.into_iter().collect()
}
