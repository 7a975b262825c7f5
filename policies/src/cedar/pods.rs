//! Pods that others have made, and that are to be placed: what they ask of Trellis, and what they
//! make use of by name. Their privileges are not asked about: the API server's own admission
//! (Pod Security) has let them in, and would for any other scheduler.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::PodSpec;
use trellis_api::QueueSpec;
use trellis_compiler::{Demand, demands_of_pod};

use super::ask::Ask;
use super::decision::{Decision, Undecided};
use super::demands::{self, Demanded};
use super::door::{JobDecision, NotAuthorized, judge, not_synced};
use super::set::Policies;
use super::subject::{About, Subject};
use crate::authorize::{may_have_priority, may_use_class};
use crate::selects;

/// Pods that are placed together, and what is known of them.
#[derive(Clone, Copy, Debug)]
pub struct PodsAsking<'a> {
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
    /// How many they are.
    pub pods: i64,
    /// Longest running time, in seconds. None: no limit.
    pub runtime_seconds: Option<i64>,
}

/// That policies allow some pods to be placed. Only [`authorize_pods`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizedPods {
    set: String,
    version: String,
}

impl AuthorizedPods {
    /// Hash of the policies that allowed it ([`Policies::hash`]).
    #[must_use]
    pub fn set(&self) -> &str {
        &self.set
    }

    /// Version of the policies that allow it ([`Policies::version`]).
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// Decides by policies on pods that others have made. Without `policies`, which is before they have
/// been read, nothing is allowed; and no policy can grant priorities of the cluster's own parts.
///
/// # Errors
/// With everything that is denied or could not be decided.
pub fn authorize_pods<'p>(
    policies: Option<&Policies>,
    asking: &PodsAsking<'_>,
    specs: impl IntoIterator<Item = &'p PodSpec>,
) -> Result<AuthorizedPods, NotAuthorized> {
    let asks = asks(asking, specs);
    let subject = Subject {
        namespace: asking.namespace,
        labels: asking.namespace_labels,
    };
    let about = About {
        job: asking.name,
        labels: asking.labels,
        requester: None,
        gpus: asking.gpus,
        pods: asking.pods,
        framework: "None",
        priority: asking.priority.into(),
        runtime_seconds: asking.runtime_seconds,
        profile: None,
        attempt: 1,
    };
    let decisions = match policies {
        Some(policies) => policies.decide(&subject, &about, &asks),
        None => vec![Decision::undecided(Undecided::NotSynced); asks.len()],
    };
    let mut refusals = Vec::new();
    for ask in &asks {
        if let Ask::UsePriorityClass(class) = ask {
            refusals.extend(may_use_class(class));
        }
    }
    refusals.extend(may_have_priority(asking.priority));
    let demanded = asks.into_iter().map(|ask| Demanded {
        words: vec![demands::words(&ask, asking.namespace, asking.name)],
        remedy: demands::remedy(&ask),
        ask,
    });
    let decision = JobDecision {
        set: policies.map(|policies| policies.hash().to_owned()),
        decided: demanded.zip(decisions).collect(),
    };
    judge(&decision, refusals)?;
    let policies = policies.ok_or_else(not_synced)?;
    Ok(AuthorizedPods {
        set: policies.hash().to_owned(),
        version: policies.version(asking.namespace),
    })
}

/// Each thing once. The flavors are all that the queue offers: any may be chosen.
fn asks<'p>(asking: &PodsAsking<'_>, specs: impl IntoIterator<Item = &'p PodSpec>) -> Vec<Ask> {
    let mut demands: BTreeSet<Demand> = specs.into_iter().flat_map(demands_of_pod).collect();
    demands.insert(Demand::UseQueue(asking.queue.to_owned()));
    let class = asking.priority_class.map(str::to_owned);
    demands.extend(class.map(Demand::UsePriorityClass));
    let selector = asking.queue_spec.namespace_selector.as_ref();
    let selected = selects(selector, asking.namespace_labels);
    let mut asks: BTreeSet<Ask> = demands
        .iter()
        .map(|demand| demands::asked_by(demand, asking.namespace, |_| selected))
        .collect();
    asks.insert(Ask::Submit);
    let offered = asking.queue_spec.resource_groups.iter();
    let offered = offered.flat_map(|group| group.flavors.iter().map(|f| f.name.clone()));
    asks.extend(offered.map(Ask::UseFlavor));
    asks.into_iter().collect()
}
