//! The first step: all the reads. They come from what the watches have shown,
//! which is complete before the first reconcile.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use trellis_api::job::{JobProfile, TrainingJobStatus};
use trellis_api::pod_group::{Plan, PodGroupPhase, PodGroupStatus};
use trellis_api::{PodGroup, QueueResources, TrainingJob, TrainingQueue};
use trellis_compiler::Profile;
use trellis_policies::cedar::{Policies, Requester};
use trellis_policies::quota::QuotaPolicies;

use super::ephemeral::{self, Ask};
use crate::cache::Cache;
use crate::cache::policy::requester;
use crate::cache::watch::Pods;
use crate::dispatch::is_owned;
use crate::gang::Certificate;
use crate::gang::Held;
use crate::gang::claims;
use crate::gang::key::Key;
use crate::gang::lookup;
use crate::gang::observed::PodView;
use crate::gang::volumes::Volumes;

/// A job and what belongs to it.
pub(super) struct Surrounded {
    /// The job, with the task groups of the stage that it is at.
    pub(super) job: Arc<TrainingJob>,
    /// The job as it stands in the cluster, with those of all stages.
    pub(super) whole: Arc<TrainingJob>,
    /// Labels of its namespace. None: the watch has not shown it, and an absent label says nothing.
    pub(super) namespace_labels: Option<BTreeMap<String, String>>,
    /// Its namespace is going: nothing can be created in it any more.
    pub(super) namespace_terminating: bool,
    /// Its queue, by name, or why there is none.
    pub(super) queue: Result<Arc<TrainingQueue>, Held>,
    /// The amounts for each GPU that its queue and the queues above it state; while it has its
    /// place, those that it was placed with.
    pub(super) queue_resources: QueueResources,
    /// The queue that it was placed in, if that is there.
    pub(super) placed_in: Option<Arc<TrainingQueue>>,
    /// Its PriorityClass, by name, and the priority, or why there is none.
    pub(super) priority: Result<(Option<String>, i32), Held>,
    /// By its PriorityClass it waits without having others leave.
    pub(super) never_preempts: bool,
    /// Its RuntimeProfile, if it has one, or why it has not the one that it should.
    pub(super) profile: Result<Option<Arc<Profile>>, Held>,
    /// The policies that decide. None: they have not been read yet.
    pub(super) policies: Option<Arc<Policies>>,
    /// The quota policies, and their version.
    pub(super) quotas: (u64, Arc<QuotaPolicies>),
    /// Who submitted it, if that is known.
    pub(super) requester: Option<Requester>,
    /// Why the stamp that it bears says nothing of that.
    pub(super) doubt: Option<Doubt>,
    /// The Services of its namespace that it names.
    pub(super) services: BTreeMap<String, Service>,
    /// Where the volumes of the claims are that it mounts, or why it has none.
    pub(super) volumes: Result<Volumes, Held>,
    /// Its PodGroup, if one of that name is there.
    pub(super) pod_group: Option<Arc<PodGroup>>,
    /// Pods of its name.
    pub(super) pods: Arc<Pods>,
    /// Claims of its pods' own that wait to be told where their pod is.
    pub(super) asks: Vec<Ask>,
    /// Why it waits.
    pub(super) certificate: Option<Certificate>,
}

/// A stamp that is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    /// Whom it names.
    pub(super) named: Requester,
    /// Why it is not believed.
    pub(super) why: String,
}

impl Surrounded {
    /// Who submitted it is not known after all.
    pub(super) fn doubt(&mut self, why: String) {
        self.doubt = self.requester.take().map(|named| Doubt { named, why });
    }

    /// Uid of the job.
    pub(super) fn uid(&self) -> &str {
        self.job.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Namespace of the job.
    pub(super) fn namespace(&self) -> &str {
        self.job.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The attempt that the job is at, or about to make.
    pub(super) fn attempt(&self) -> i64 {
        let status = self.job.status.as_ref();
        status.and_then(|status| status.attempt).unwrap_or(1)
    }

    /// The stage that it is at, from 1.
    pub(super) fn stage(&self) -> u32 {
        stage(&self.job)
    }

    /// The profile that its status names.
    pub(super) fn told_profile(&self) -> Option<&JobProfile> {
        self.job.status.as_ref()?.profile.as_ref()
    }

    /// Its PodGroup, if one is known.
    pub(super) fn own_group(&self) -> Option<&PodGroup> {
        own_group(self.pod_group.as_deref(), self.uid())
    }

    /// The journal. None: nothing stands in it yet, or no PodGroup of the job's is known.
    pub(super) fn journal(&self) -> Option<&PodGroupStatus> {
        self.own_group()?.status.as_ref()
    }

    /// The plan of the place that the gang has, or is getting.
    pub(super) fn place(&self) -> Option<&Plan> {
        self.own_group().and_then(place)
    }

    /// True if the attempt of now has its place, or is getting it.
    pub(super) fn is_placed(&self) -> bool {
        self.place()
            .is_some_and(|plan| plan.attempt == self.attempt())
    }

    /// True if pods of this attempt are being created, and its claims bound before.
    pub(super) fn is_committing(&self) -> bool {
        let phase = self.journal().and_then(|journal| journal.phase);
        self.is_placed() && phase == Some(PodGroupPhase::Committing)
    }

    /// Where the volumes are that it mounts. Where nobody can say, no node will do.
    pub(super) fn volumes_or_nowhere(&self) -> Volumes {
        let profile = self.profile.as_ref().ok().and_then(|p| p.as_deref());
        let nowhere = |_: &Held| claims::nowhere(&self.job.spec, profile.map(Profile::spec));
        self.volumes.as_ref().cloned().unwrap_or_else(nowhere)
    }

    /// True if a place of this attempt is written down, though others may have to leave it first.
    pub(super) fn is_planned(&self) -> bool {
        let plan = self.journal().and_then(|journal| journal.plan.as_ref());
        plan.is_some_and(|plan| plan.attempt == self.attempt())
    }

    /// True if pods of the job are there, or may be at any moment.
    pub(super) fn has_pods(&self) -> bool {
        let phase = self.journal().and_then(|journal| journal.phase);
        let holds = phase.is_some_and(|phase| phase != PodGroupPhase::Pending);
        let status = self.job.status.as_ref();
        let of_now = |pod: &PodView| {
            let is_left = |status: &TrainingJobStatus| status.is_of_earlier_stage(pod.attempt);
            !(pod.phase.is_over() && status.is_some_and(is_left))
        };
        let mut own = self.pods.values().filter(|pod| pod.job_uid == self.uid());
        holds || own.any(of_now)
    }
}

/// Reads everything that the job's fate depends on.
pub(super) fn job(cache: &Cache, key: &Key, whole: Arc<TrainingJob>) -> Surrounded {
    let job = of_its_stage(&whole);
    let namespace = cache.namespaces.get(&Key::new("", &key.namespace));
    let namespace_terminating = namespace
        .as_ref()
        .is_some_and(|n| n.metadata.deletion_timestamp.is_some());
    let namespace_labels = cache.namespace_labels(&key.namespace);
    let services = lookup::services(&job.spec)
        .filter_map(|name| {
            let service = cache.services.get(&Key::new(&key.namespace, name))?;
            let service = Service {
                metadata: service.metadata.clone(),
                spec: Some(service.spec.clone()),
                status: None,
            };
            Some((name.to_owned(), service))
        })
        .collect();
    let (pod_group, pods) = gang(cache, key);
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    let place = own_group(pod_group.as_deref(), uid).and_then(place);
    let profile = cache.profiles.of(&job.spec).map_err(Held::from);
    let is_placed = place.is_some_and(|plan| {
        let attempt = job.status.as_ref().and_then(|status| status.attempt);
        plan.attempt == attempt.unwrap_or(1)
    });
    let own = claims::ephemeral(
        &whole.spec,
        profile.as_ref().ok().and_then(|p| p.as_deref()),
    );
    let queue = queue(cache, key, &job, namespace_labels.as_ref(), place);
    let placed = place.filter(|_| is_placed);
    let storage = cache.storage(&key.namespace);
    let (pods, asks) = ephemeral::look(&storage, uid, &own, pods);
    Surrounded {
        asks,
        queue_resources: queue_resources(cache, queue.as_deref().ok(), placed),
        queue,
        placed_in: place.and_then(|plan| cache.queues.get(&Key::new("", plan.queue.as_deref()?))),
        priority: priority(cache, &job, place),
        never_preempts: never_preempts(cache, &job),
        volumes: volumes(
            cache,
            &whole,
            profile.as_ref().ok(),
            &key.namespace,
            is_placed,
        ),
        profile,
        policies: cache.policies.active(),
        quotas: cache.quotas.active(),
        requester: requester(&job.metadata),
        doubt: None,
        namespace_labels,
        namespace_terminating,
        services,
        pod_group,
        pods,
        certificate: None,
        job,
        whole,
    }
}

/// The stage that a job is at, from 1.
fn stage(job: &TrainingJob) -> u32 {
    let status = job.status.as_ref();
    status.map_or(1, TrainingJobStatus::stage_number)
}

/// The job with the task groups of the stage that it is at.
fn of_its_stage(whole: &Arc<TrainingJob>) -> Arc<TrainingJob> {
    match whole.spec.of_stage(stage(whole)) {
        Cow::Borrowed(_) => whole.clone(),
        Cow::Owned(spec) => Arc::new(TrainingJob {
            metadata: whole.metadata.clone(),
            spec,
            status: whole.status.clone(),
        }),
    }
}

/// The PodGroup, if it is the job's of that uid.
fn own_group<'a>(group: Option<&'a PodGroup>, uid: &str) -> Option<&'a PodGroup> {
    group.filter(|g| is_owned(*g, uid))
}

/// The plan of the place that the gang has, or is getting.
fn place(group: &PodGroup) -> Option<&Plan> {
    let journal = group.status.as_ref()?;
    let has_it = matches!(
        journal.phase?,
        PodGroupPhase::Committing | PodGroupPhase::Placed
    );
    journal.plan.as_ref().filter(|_| has_it)
}

/// The journal and the pods as of one moment: pods that go are the journal's
/// doing only if it says so, and those that it names are there only once they are.
fn gang(cache: &Cache, key: &Key) -> (Option<Arc<PodGroup>>, Arc<Pods>) {
    loop {
        let before = cache.pod_groups.get(key);
        let pods = cache.pods.of(key);
        let after = cache.pod_groups.get(key);
        let same = match (&before, &after) {
            (Some(before), Some(after)) => Arc::ptr_eq(before, after),
            (before, after) => before.is_none() && after.is_none(),
        };
        if same {
            return (before, pods);
        }
    }
}

/// Whose default changes while the gang has its place is counted where it was placed.
fn queue(
    cache: &Cache,
    key: &Key,
    job: &TrainingJob,
    labels: Option<&BTreeMap<String, String>>,
    place: Option<&Plan>,
) -> Result<Arc<TrainingQueue>, Held> {
    let labels = labels.ok_or_else(|| lookup::unseen_namespace(&key.namespace))?;
    let get = |name: &str| cache.queues.get(&Key::new("", name));
    let placed_in = || place.and_then(|plan| plan.queue.as_deref());
    let name = job.spec.queue_name.as_deref().or_else(placed_in);
    lookup::queue(name, labels, get, || cache.queues.all()).map_err(Held::from)
}

fn queue_resources(
    cache: &Cache,
    queue: Option<&TrainingQueue>,
    placed: Option<&Plan>,
) -> QueueResources {
    if let Some(plan) = placed {
        return lookup::placed_resources(plan);
    }
    let get = |name: &str| cache.queues.get(&Key::new("", name));
    queue.map_or_else(QueueResources::default, |queue| {
        lookup::queue_resources(queue, get)
    })
}

fn volumes(
    cache: &Cache,
    job: &TrainingJob,
    profile: Option<&Option<Arc<Profile>>>,
    namespace: &str,
    is_placed: bool,
) -> Result<Volumes, Held> {
    let profile = profile.and_then(|profile| profile.as_deref());
    let found = claims::find(
        &job.spec,
        stage(job),
        profile.map(Profile::spec),
        &cache.storage(namespace),
        is_placed,
    );
    found.map_err(Held::from)
}

fn never_preempts(cache: &Cache, job: &TrainingJob) -> bool {
    let named = |name: &str| cache.priority_classes.get(&Key::new("", name));
    lookup::job_never_preempts(&job.spec, named, || cache.priority_classes.all())
}

fn priority(
    cache: &Cache,
    job: &TrainingJob,
    place: Option<&Plan>,
) -> Result<(Option<String>, i32), Held> {
    if let Some(priority) = place.and_then(|plan| plan.priority) {
        return Ok((job.spec.priority_class_name.clone(), priority));
    }
    let named = |name: &str| cache.priority_classes.get(&Key::new("", name));
    lookup::priority(&job.spec, named, || cache.priority_classes.all()).map_err(Held::from)
}
