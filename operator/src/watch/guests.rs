//! Pods that others have made and that are to be placed by Trellis: guests.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use parking_lot::RwLock;
use trellis_api::names;
use trellis_scheduler::Resources;

use super::judged::JudgedSpec;
use super::pod_view::{PodPhase, PodView, phase};
use super::pods::warn_of_change;
use super::slim::SlimPod;
use crate::key::Key;
use crate::scheduling::request;

/// Label of the pods of an Indexed Job, also of a StatefulSet: their number.
const INDEXES: [&str; 2] = [
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
];

/// Seconds that an external pod is given to stop at most, as a job's: room that other gangs wait for
/// must become free.
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
pub(super) fn stops_too_late(meta: &ObjectMeta) -> bool {
    let given = meta.deletion_grace_period_seconds;
    meta.deletion_timestamp.is_some() && given.is_some_and(|given| given > LONGEST_GRACE)
}

/// Pods of one group, by name.
pub type Guests = BTreeMap<String, Arc<GuestPod>>;

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

/// One pod that somebody else has made.
#[derive(Clone, Debug, PartialEq)]
pub struct GuestPod {
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

impl GuestPod {
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
    fn says_the_same(&self, other: &Self) -> bool {
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

/// The guests.
#[derive(Debug, Default)]
pub struct GuestIndex {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    pods: HashMap<Key, Arc<GuestPod>>,
    /// The resource version of each as the watch has shown it last.
    versions: HashMap<Key, String>,
    /// Names of the pods that name a PodGroup, by its key.
    groups: HashMap<Key, BTreeSet<String>>,
}

impl Inner {
    fn take(&mut self, key: &Key) -> Option<Arc<GuestPod>> {
        let before = self.pods.remove(key)?;
        if let Some(group) = before.group() {
            let group = Key::new(&key.namespace, group);
            if let Some(names) = self.groups.get_mut(&group) {
                names.remove(&*key.name);
                if names.is_empty() {
                    self.groups.remove(&group);
                }
            }
        }
        Some(before)
    }

    fn insert(&mut self, key: &Key, pod: GuestPod) {
        if let Some(group) = pod.group() {
            let group = Key::new(&key.namespace, group);
            let names = self.groups.entry(group).or_default();
            names.insert(key.name.to_string());
        }
        self.pods.insert(key.clone(), Arc::new(pod));
    }
}

impl GuestIndex {
    /// Takes a pod as the watch shows it. Gives it as it was and as it is, if anything of it that
    /// matters is another.
    ///
    /// `believes`: whether what the pod says of where it counts is to be believed, and whether it has
    /// not said it before.
    pub fn apply(
        &self,
        key: &Key,
        pod: &SlimPod,
        believes: impl FnOnce(&GuestPod, bool) -> bool,
    ) -> Option<[Option<Arc<GuestPod>>; 2]> {
        let mut now = GuestPod::of(pod);
        let known = self.get(key);
        if let Some(now) = now.as_mut().filter(|now| now.queue.is_some()) {
            let known = known.as_deref().filter(|known| known.says_the_same(now));
            now.is_believed =
                known.is_some_and(|known| known.is_believed) || believes(now, known.is_none());
        }
        let mut inner = self.inner.write();
        match pod
            .metadata
            .resource_version
            .as_ref()
            .filter(|_| now.is_some())
        {
            Some(version) => inner.versions.insert(key.clone(), version.clone()),
            None => inner.versions.remove(key),
        };
        let before = inner.pods.get(key).cloned();
        if let (Some(before), Some(now)) = (&before, &mut now)
            && before.uid == now.uid
        {
            // Nothing takes these back: the watch is behind the answers to our writes.
            now.deleting |= before.deleting;
            // Until it is bound its user may change it: policies are asked again then.
            if before.is_bound() && now.judged.follow(&before.judged) {
                warn_of_change(key, &now.judged);
            }
            if now.node.is_none() && before.node.is_some() {
                now.node.clone_from(&before.node);
                now.plan.clone_from(&before.plan);
                now.queue.clone_from(&before.queue);
                now.is_believed = before.is_believed;
                now.with.clone_from(&before.with);
                now.flavors.clone_from(&before.flavors);
            }
        }
        if before.as_deref() == now.as_ref() {
            return None;
        }
        let told = now.as_ref().map(|now| now.told.clone());
        // What we have told it ourselves is no news to its gang.
        let is_told = before.as_deref().zip(told).is_some_and(|(before, told)| {
            let before = GuestPod {
                told,
                ..before.clone()
            };
            Some(&before) == now.as_ref()
        });
        inner.take(key);
        if let Some(now) = now {
            inner.insert(key, now);
        }
        let now = inner.pods.get(key).cloned();
        (!is_told).then_some([before, now])
    }

    /// A pod is bound: the API server has said so. `tell` what that means for its node, if it is
    /// there still: whatever becomes of it is told afterwards.
    pub fn bound(
        &self,
        key: &Key,
        uid: &str,
        node: &str,
        by: BoundBy<'_>,
        tell: impl FnOnce(&GuestPod),
    ) {
        self.change(key, uid, |pod| {
            if pod.node.is_some() {
                // The watch was faster.
                pod.is_believed |=
                    pod.plan.as_deref() == Some(by.plan) && pod.queue.as_deref() == Some(by.queue);
                return;
            }
            pod.is_believed = true;
            pod.node = Some(node.to_owned());
            pod.plan = Some(by.plan.to_owned());
            pod.queue = Some(by.queue.to_owned());
            pod.with = by.with.map(str::to_owned);
            pod.flavors.clone_from(by.flavors);
            if pod.is_bound() {
                tell(pod);
            }
        });
    }

    /// The watch shows a pod without its node that the API server has said is bound.
    #[must_use]
    pub fn is_bound_since(&self, key: &Key, shown: &SlimPod) -> bool {
        let inner = self.inner.read();
        let known = inner.pods.get(key).filter(|pod| pod.is_bound());
        shown.spec.node_name.is_none()
            && known.is_some_and(|pod| shown.metadata.uid.as_ref() == Some(&pod.uid))
    }

    /// Decides of all pods whether what they say of where they count is believed.
    pub fn settle(&self, believes: impl Fn(&Key, &GuestPod) -> bool) {
        let mut inner = self.inner.write();
        for (key, pod) in &mut inner.pods {
            let is_believed = pod.queue.is_none() || believes(key, pod);
            if pod.is_believed != is_believed {
                Arc::make_mut(pod).is_believed = is_believed;
            }
        }
    }

    /// A delete or an eviction of a pod was accepted.
    pub fn deleting(&self, key: &Key, uid: &str) {
        self.change(key, uid, |pod| pod.deleting = true);
    }

    fn change(&self, key: &Key, uid: &str, change: impl FnOnce(&mut GuestPod)) {
        let mut inner = self.inner.write();
        if let Some(pod) = inner.pods.get_mut(key).filter(|pod| pod.uid == uid) {
            change(Arc::make_mut(pod));
        }
    }

    /// Forgets a pod. Gives what it was. Another of that name stays.
    pub fn delete(&self, key: &Key, uid: &str) -> Option<Arc<GuestPod>> {
        let mut inner = self.inner.write();
        inner.pods.get(key).filter(|pod| pod.uid == uid)?;
        inner.versions.remove(key);
        inner.take(key)
    }

    /// The guest of that name.
    #[must_use]
    pub fn get(&self, pod: &Key) -> Option<Arc<GuestPod>> {
        self.inner.read().pods.get(pod).cloned()
    }

    /// The resource version at which the watch has shown this incarnation of a pod last, with
    /// this spec. None: it shows another.
    #[must_use]
    pub fn version_with(&self, pod: &Key, uid: &str, judged: &JudgedSpec) -> Option<String> {
        let inner = self.inner.read();
        let there = inner.pods.get(pod).filter(|there| there.uid == uid)?;
        let version = inner.versions.get(pod);
        version.filter(|_| there.judged.is_like(judged)).cloned()
    }

    /// The pods that name the PodGroup.
    #[must_use]
    pub fn of_group(&self, group: &Key) -> Guests {
        let inner = self.inner.read();
        let names = inner.groups.get(group).into_iter().flatten();
        names
            .filter_map(|name| {
                let pod = inner.pods.get(&Key::new(&group.namespace, name))?;
                Some((name.clone(), pod.clone()))
            })
            .collect()
    }

    /// True if there are pods that name the PodGroup.
    #[must_use]
    pub fn name_group(&self, group: &Key) -> bool {
        self.inner.read().groups.contains_key(group)
    }

    /// All guests, by their keys.
    #[must_use]
    pub fn all(&self) -> Vec<(Key, Arc<GuestPod>)> {
        self.all_of(|_, _| true)
    }

    /// Those of which this holds, which must not ask for others of them.
    #[must_use]
    pub fn all_of(&self, mut of: impl FnMut(&Key, &GuestPod) -> bool) -> Vec<(Key, Arc<GuestPod>)> {
        let inner = self.inner.read();
        let all = inner.pods.iter().filter(|(key, pod)| of(key, pod));
        all.map(|(key, pod)| (key.clone(), pod.clone())).collect()
    }
}

#[cfg(test)]
mod tests;
