//! The first step: all the reads. They come from the caches, which are complete before the first
//! reconciliation.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use trellis_api::job::{JobProfile, TrainingJobStatus};
use trellis_api::pod_group::{Plan, PodGroupPhase, PodGroupStatus};
use trellis_api::{PodGroup, QueueResources, TrainingJob, TrainingQueue};
use trellis_cache::Cache;
use trellis_cache::policy::stamped_requester;
use trellis_cache::watch::JobPods;
use trellis_compiler::HashedProfile;
use trellis_dispatch::is_owned;
use trellis_gang::key::Key;
use trellis_gang::observed::PodView;
use trellis_gang::volumes::VolumeRequirements;
use trellis_gang::{GangExplanation, JobHold, claims, lookup};
use trellis_policies::cedar::{Policies, Requester};
use trellis_policies::quota::QuotaPolicies;

use super::ephemeral_claims::{self, ClaimNodeRequest};

/// A job with everything that it depends on.
pub(super) struct JobContext {
    /// The job, with the task groups of its current stage.
    pub(super) job: Arc<TrainingJob>,
    /// The job as it is in the cluster, with the task groups of all stages.
    pub(super) job_with_all_stages: Arc<TrainingJob>,
    /// Labels of its namespace. None: the watch has not shown it, which does not mean that it has
    /// none.
    pub(super) namespace_labels: Option<BTreeMap<String, String>>,
    /// Its namespace is terminating, and no object can be created in it.
    pub(super) namespace_terminating: bool,
    /// Its queue, or why it has none.
    pub(super) queue: Result<Arc<TrainingQueue>, JobHold>,
    /// Amounts per GPU that its queue and the queues above it state. A placed job keeps those with
    /// which it was placed.
    pub(super) queue_resources: QueueResources,
    /// The queue in which it was placed, if that exists.
    pub(super) placed_in: Option<Arc<TrainingQueue>>,
    /// Its PriorityClass and priority, or why it has none.
    pub(super) priority: Result<(Option<String>, i32), JobHold>,
    /// Its PriorityClass does not preempt.
    pub(super) never_preempts: bool,
    /// Its RuntimeProfile, if it has one, or why the one that it should have is missing.
    pub(super) profile: Result<Option<Arc<HashedProfile>>, JobHold>,
    /// Policies in force. None: they have not been read yet.
    pub(super) policies: Option<Arc<Policies>>,
    /// Quota policies, and their version.
    pub(super) quotas: (u64, Arc<QuotaPolicies>),
    /// Requester of the job, if known.
    pub(super) requester: Option<Requester>,
    /// Why the job's stamp is not trusted.
    pub(super) untrusted_stamp: Option<UntrustedStamp>,
    /// Services of its namespace that the job names.
    pub(super) services: BTreeMap<String, Service>,
    /// Nodes that the volumes of its claims allow, or why there are none.
    pub(super) volumes: Result<VolumeRequirements, JobHold>,
    /// The PodGroup of its name, if that exists.
    pub(super) pod_group: Option<Arc<PodGroup>>,
    /// Pods of its name.
    pub(super) pods: Arc<JobPods>,
    /// Ephemeral claims of its pods that need the pod's node.
    pub(super) claims_needing_node: Vec<ClaimNodeRequest>,
    /// Why it waits.
    pub(super) explanation: Option<GangExplanation>,
}

/// A stamp that is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UntrustedStamp {
    /// Requester that the stamp names.
    pub(super) requester: Requester,
    /// Why the stamp is not trusted.
    pub(super) reason: String,
}

impl JobContext {
    /// Marks the requester as not trusted.
    pub(super) fn distrust_requester(&mut self, why: String) {
        self.untrusted_stamp = self.requester.take().map(|named| UntrustedStamp {
            requester: named,
            reason: why,
        });
    }

    /// Uid of the job.
    pub(super) fn uid(&self) -> &str {
        self.job.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Namespace of the job.
    pub(super) fn namespace(&self) -> &str {
        self.job.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Number of the current attempt, or of the next one before it starts.
    pub(super) fn attempt(&self) -> i64 {
        let status = self.job.status.as_ref();
        status.and_then(|status| status.attempt).unwrap_or(1)
    }

    /// Current stage, from 1.
    pub(super) fn stage(&self) -> u32 {
        stage(&self.job)
    }

    /// The profile that the job's status names.
    pub(super) fn status_profile(&self) -> Option<&JobProfile> {
        self.job.status.as_ref()?.profile.as_ref()
    }

    /// The PodGroup of the job, if it is known.
    pub(super) fn own_group(&self) -> Option<&PodGroup> {
        find_own_group(self.pod_group.as_deref(), self.uid())
    }

    /// The journal. None: it is empty, or the job's PodGroup is not known.
    pub(super) fn journal(&self) -> Option<&PodGroupStatus> {
        self.own_group()?.status.as_ref()
    }

    /// The plan of the place that the gang has or is getting.
    pub(super) fn placed_plan(&self) -> Option<&Plan> {
        self.own_group().and_then(placed_plan_of)
    }

    /// True if the current attempt has its place or is getting it.
    pub(super) fn is_placed(&self) -> bool {
        self.placed_plan()
            .is_some_and(|plan| plan.attempt == self.attempt())
    }

    /// True if pods of this attempt are being created, or their claims are being bound.
    pub(super) fn is_committing(&self) -> bool {
        let phase = self.journal().and_then(|journal| journal.phase);
        self.is_placed() && phase == Some(PodGroupPhase::Committing)
    }

    /// Nodes that its volumes allow. If they are not known: no node.
    pub(super) fn volumes_or_nowhere(&self) -> VolumeRequirements {
        let profile = self.profile.as_ref().ok().and_then(|p| p.as_deref());
        let nowhere = |_: &JobHold| {
            claims::unreachable_volumes(&self.job.spec, profile.map(HashedProfile::spec))
        };
        self.volumes.as_ref().cloned().unwrap_or_else(nowhere)
    }

    /// True if the journal has a place for this attempt, even if victims have to leave it first.
    pub(super) fn is_planned(&self) -> bool {
        let plan = self.journal().and_then(|journal| journal.plan.as_ref());
        plan.is_some_and(|plan| plan.attempt == self.attempt())
    }

    /// True if pods of the job exist, or may exist at any moment.
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

/// Reads everything on which the job depends.
pub(super) fn read_job(
    cache: &Cache,
    key: &Key,
    whole: Arc<TrainingJob>,
    certificate: Option<GangExplanation>,
) -> JobContext {
    let job = with_current_stage(&whole);
    let namespace = cache.namespaces.get(&Key::new("", &key.namespace));
    let namespace_terminating = namespace
        .as_ref()
        .is_some_and(|n| n.metadata.deletion_timestamp.is_some());
    let namespace_labels = cache.namespace_labels(&key.namespace);
    let services = lookup::network_rule_services(&job.spec)
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
    let (pod_group, pods) = read_gang(cache, key);
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    let place = find_own_group(pod_group.as_deref(), uid).and_then(placed_plan_of);
    let profile = cache.profiles.find_for_job(&job.spec);
    let is_placed = place.is_some_and(|plan| {
        let attempt = job.status.as_ref().and_then(|status| status.attempt);
        plan.attempt == attempt.unwrap_or(1)
    });
    let own = claims::ephemeral_volumes(
        &whole.spec,
        profile.as_ref().ok().and_then(|p| p.as_deref()),
    );
    let queue = find_queue(cache, key, &job, namespace_labels.as_ref(), place);
    let placed = place.filter(|_| is_placed);
    let storage = cache.storage(&key.namespace);
    let (pods, asks) = ephemeral_claims::check_claims(&storage, uid, &own, pods);
    JobContext {
        claims_needing_node: asks,
        queue_resources: find_queue_resources(cache, queue.as_deref().ok(), placed),
        queue,
        placed_in: place.and_then(|plan| cache.queues.get(&Key::new("", plan.queue.as_deref()?))),
        priority: find_priority(cache, &job, place),
        never_preempts: never_preempts(cache, &job),
        volumes: find_volumes(
            cache,
            &whole,
            profile.as_ref().ok(),
            &key.namespace,
            is_placed,
        ),
        profile,
        policies: cache.policies.active(),
        quotas: cache.quotas.active(),
        requester: stamped_requester(&job.metadata),
        untrusted_stamp: None,
        namespace_labels,
        namespace_terminating,
        services,
        pod_group,
        pods,
        explanation: certificate,
        job,
        job_with_all_stages: whole,
    }
}

/// Current stage of a job, from 1.
fn stage(job: &TrainingJob) -> u32 {
    let status = job.status.as_ref();
    status.map_or(1, TrainingJobStatus::stage_number)
}

/// The job with the task groups of its current stage.
fn with_current_stage(whole: &Arc<TrainingJob>) -> Arc<TrainingJob> {
    match whole.spec.for_stage(stage(whole)) {
        Cow::Borrowed(_) => whole.clone(),
        Cow::Owned(spec) => Arc::new(TrainingJob {
            metadata: whole.metadata.clone(),
            spec,
            status: whole.status.clone(),
        }),
    }
}

/// The PodGroup, if the job of that uid owns it.
fn find_own_group<'a>(group: Option<&'a PodGroup>, uid: &str) -> Option<&'a PodGroup> {
    group.filter(|g| is_owned(*g, uid))
}

/// The plan of the place that the gang has or is getting.
fn placed_plan_of(group: &PodGroup) -> Option<&Plan> {
    let journal = group.status.as_ref()?;
    let has_it = matches!(
        journal.phase?,
        PodGroupPhase::Committing | PodGroupPhase::Placed
    );
    journal.plan.as_ref().filter(|_| has_it)
}

/// Reads the journal and the pods as of one moment. Otherwise a pod's deletion, or its absence,
/// could be compared with an older or newer journal.
fn read_gang(cache: &Cache, key: &Key) -> (Option<Arc<PodGroup>>, Arc<JobPods>) {
    loop {
        let before = cache.pod_groups.get(key);
        let pods = cache.pods.pods_of_job(key);
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

/// A placed gang without a named queue stays in the queue where it was placed, even if the default
/// changes.
fn find_queue(
    cache: &Cache,
    key: &Key,
    job: &TrainingJob,
    labels: Option<&BTreeMap<String, String>>,
    place: Option<&Plan>,
) -> Result<Arc<TrainingQueue>, JobHold> {
    let labels = labels.ok_or_else(|| lookup::unknown_namespace(&key.namespace))?;
    let get = |name: &str| cache.queues.get(&Key::new("", name));
    let placed_in = || place.and_then(|plan| plan.queue.as_deref());
    let name = job.spec.queue_name.as_deref().or_else(placed_in);
    lookup::resolve_queue(name, labels, get, || cache.queues.all())
}

fn find_queue_resources(
    cache: &Cache,
    queue: Option<&TrainingQueue>,
    placed: Option<&Plan>,
) -> QueueResources {
    if let Some(plan) = placed {
        return lookup::placed_resources(plan);
    }
    let get = |name: &str| cache.queues.get(&Key::new("", name));
    queue.map_or_else(QueueResources::default, |queue| {
        lookup::find_queue_resources(queue, get)
    })
}

fn find_volumes(
    cache: &Cache,
    job: &TrainingJob,
    profile: Option<&Option<Arc<HashedProfile>>>,
    namespace: &str,
    is_placed: bool,
) -> Result<VolumeRequirements, JobHold> {
    let profile = profile.and_then(|profile| profile.as_deref());
    claims::find_volumes(
        &job.spec,
        stage(job),
        profile.map(HashedProfile::spec),
        &cache.storage(namespace),
        is_placed,
    )
}

fn never_preempts(cache: &Cache, job: &TrainingJob) -> bool {
    let named = |name: &str| cache.priority_classes.get(&Key::new("", name));
    lookup::job_never_preempts(&job.spec, named, || cache.priority_classes.all())
}

fn find_priority(
    cache: &Cache,
    job: &TrainingJob,
    place: Option<&Plan>,
) -> Result<(Option<String>, i32), JobHold> {
    if let Some(priority) = place.and_then(|plan| plan.priority) {
        return Ok((job.spec.priority_class_name.clone(), priority));
    }
    let named = |name: &str| cache.priority_classes.get(&Key::new("", name));
    lookup::find_priority(&job.spec, named, || cache.priority_classes.all())
}
