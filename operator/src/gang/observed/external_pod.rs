//! A pod that another controller has made and that Trellis is to place: an external pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use trellis_api::names;
use trellis_scheduler::Resources;

use super::judged::JudgedSpec;
use super::pod_view::{PodPhase, PodView, phase};
use super::slim::SlimPod;
use crate::gang::request;

/// Label of the pods of an Indexed Job, also of a StatefulSet: their number.
const INDEXES: [&str; 2] = [
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
];

/// Seconds that an external pod is given to stop at most, as a job's: room that other gangs wait
/// for must become free.
const LONGEST_GRACE: i64 = 3_600;

/// Seconds that a pod is given to stop. The API server takes a negative grace for one second.
fn grace(own: Option<i64>) -> u32 {
    let seconds = match own.unwrap_or(30) {
        i64::MIN..0 => 1,
        seconds => seconds.min(LONGEST_GRACE),
    };
    u32::try_from(seconds).unwrap_or(0)
}

/// True of a pod that was deleted with a longer grace than Trellis gives: that is cut.
pub(crate) fn stops_too_late(meta: &ObjectMeta) -> bool {
    let given = meta.deletion_grace_period_seconds;
    meta.deletion_timestamp.is_some() && given.is_some_and(|given| given > LONGEST_GRACE)
}

/// Pods of one group, by name.
pub type ExternalPods = BTreeMap<String, Arc<ExternalPod>>;

/// Names of ResourceFlavors, by resource.
pub type Flavors = BTreeMap<String, String>;

/// By what a pod was bound: it bears that from then on, and users cannot write it.
#[derive(Clone, Copy, Debug)]
pub struct BoundBy<'a> {
    /// Hash of the plan.
    pub plan: &'a str,
    /// The queue in which it counts.
    pub queue: &'a str,
    /// The PodGroup whose gang it is part of.
    pub with: Option<&'a str>,
    /// The flavors that it is given there.
    pub flavors: &'a Flavors,
}

/// A pod that another controller has made, as far as Trellis reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalPod {
    /// Its uid.
    pub uid: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its number, where its controller counts.
    pub index: Option<u32>,
    /// Its node.
    pub node: Option<String>,
    /// Hash of the plan that bound it.
    pub plan: Option<String>,
    /// The queue in which it counts, if it was Trellis that bound it.
    pub queue: Option<String>,
    /// The annotations are believed: users could not write them, or a plan or this process says so.
    pub is_believed: bool,
    /// The PodGroup whose gang it was bound as part of.
    pub with: Option<String>,
    /// The flavors that it was given there, by resource.
    pub flavors: Flavors,
    /// How it does.
    pub phase: PodPhase,
    /// True from the deletion's start until it is gone.
    pub deleting: bool,
    /// It is being deleted with more than the longest grace.
    pub stops_too_late: bool,
    /// What it holds of its node, or is to hold.
    pub request: Resources,
    /// The part of its spec that policies judge.
    pub judged: JudgedSpec,
    /// Its priority.
    pub priority: i32,
    /// The ServiceAccount that it runs as.
    pub service_account: Option<String>,
    /// Seconds that it is given to stop, at most an hour.
    pub grace: u32,
    /// Seconds that it may run.
    pub active_seconds: Option<i64>,
    /// Why it has no node, as its condition PodScheduled says.
    pub told: Option<(String, String)>,
    /// All of its spec, while it has no node. An error: it does not decode.
    pub spec: Option<Result<Arc<PodSpec>, String>>,
}

impl ExternalPod {
    /// What is known of a pod. None: it is a TrainingJob's, or another scheduler's.
    #[must_use]
    pub fn of(pod: &SlimPod) -> Option<Self> {
        let is_ours = pod.spec.scheduler_name.as_deref() == Some(names::SCHEDULER);
        if !is_ours || PodView::of(pod).is_some() {
            return None;
        }
        let meta = &pod.metadata;
        let labels = meta.labels.clone().unwrap_or_default();
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|a| a.get(key));
        let mut conditions = pod.status.conditions.iter();
        let told = conditions.find(|c| c.type_ == "PodScheduled" && c.status == "False");
        let spec = pod.spec.to_be_placed.as_ref().map(|raw| {
            let spec: Result<PodSpec, _> = serde_json::from_str(raw.get());
            spec.map(Arc::new).map_err(|error| error.to_string())
        });
        Some(Self {
            uid: meta.uid.clone().unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            index: INDEXES
                .iter()
                .find_map(|key| labels.get(*key)?.parse().ok()),
            labels,
            node: pod.spec.node_name.clone(),
            plan: annotation(names::PLAN).cloned(),
            queue: annotation(names::PLACED_IN).cloned(),
            is_believed: true,
            with: annotation(names::PLACED_WITH).cloned(),
            flavors: flavors(annotation(names::FLAVORS)),
            phase: phase(pod),
            deleting: meta.deletion_timestamp.is_some(),
            stops_too_late: stops_too_late(meta),
            request: request::of_pod(pod),
            judged: JudgedSpec::of(&pod.spec),
            priority: pod.spec.priority.unwrap_or(0),
            service_account: pod.spec.service_account_name.clone(),
            grace: grace(pod.spec.termination_grace_period_seconds),
            active_seconds: pod.spec.active_deadline_seconds,
            told: told.map(|c| {
                let words = |word: &Option<String>| word.clone().unwrap_or_default();
                (words(&c.reason), words(&c.message))
            }),
            spec,
        })
    }

    /// Name of its PodGroup, if it is to be in one.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        let group = self.labels.get(names::POD_GROUP).map(String::as_str);
        group.filter(|group| !group.is_empty())
    }

    /// Names of its scheduling gates.
    pub fn gates(&self) -> impl Iterator<Item = &str> {
        let spec = self.spec.as_ref().and_then(|spec| spec.as_ref().ok());
        let gates = spec.and_then(|spec| spec.scheduling_gates.as_ref());
        gates.into_iter().flatten().map(|gate| gate.name.as_str())
    }

    /// It holds its node.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.node.is_some() && !self.phase.is_over()
    }

    /// It holds its node, and Trellis gave it that: the queue in which it counts. One that its user
    /// or another scheduler has bound counts in none, whatever it names: nobody has asked whether
    /// it may.
    #[must_use]
    pub fn counts_in(&self) -> Option<&str> {
        let is_ours = self.is_believed && self.is_bound();
        self.queue.as_deref().filter(|_| is_ours)
    }

    /// The same of one that was bound as part of the gang that it names.
    #[must_use]
    pub fn counts_with_its_gang(&self) -> Option<&str> {
        self.counts_in()
            .filter(|_| self.with.as_deref() == self.group())
    }

    /// Its annotations say the same of where it counts.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        let said = |pod: &Self| {
            let place = (pod.plan.clone(), pod.queue.clone(), pod.with.clone());
            (pod.uid.clone(), place, pod.flavors.clone())
        };
        said(self) == said(other)
    }

    /// A deletion of ours would end it sooner than it ends now.
    #[must_use]
    pub fn can_be_deleted(&self) -> bool {
        !self.deleting || self.stops_too_late
    }

    /// It has no node, and is to have one.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.node.is_none() && !self.phase.is_over() && !self.deleting
    }
}

/// What the annotation says. One that does not read says nothing: then it is charged to the first
/// flavor of its queue that its node is of.
fn flavors(annotation: Option<&String>) -> Flavors {
    let read = annotation.and_then(|text| serde_json::from_str(text).ok());
    read.unwrap_or_default()
}
