//! The first step: reads everything that the job depends on. The reads come from the caches, which
//! are complete before the first reconciliation.

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
use trellis_gang::requirements::claims;
use trellis_gang::requirements::volumes::VolumeRequirements;
use trellis_gang::{GangExplanation, JobHold, lookup};
use trellis_policies::cedar::{Policies, Requester};
use trellis_policies::quota::QuotaPolicies;

use super::ephemeral_claims::{self, ClaimNodeRequest};

/// A job and everything that it depends on.
pub(super) struct JobContext {
    /// The job, with the task groups of its current stage.
    pub(super) job: Arc<TrainingJob>,
    /// The job with the task groups of all stages, as it is stored.
    pub(super) job_with_all_stages: Arc<TrainingJob>,
    /// Labels of its namespace. None if the watch has not shown the namespace yet.
    pub(super) namespace_labels: Option<BTreeMap<String, String>>,
    /// True if its namespace is terminating, so that no object can be created in it.
    pub(super) namespace_terminating: bool,
    /// Its queue, or why it has none.
    pub(super) queue: Result<Arc<TrainingQueue>, JobHold>,
    /// Amounts per GPU of its queue and the queues above it. A placed job keeps the amounts with
    /// which it was placed.
    pub(super) queue_resources: QueueResources,
    /// The queue in which it was placed, if the queue exists.
    pub(super) placed_in: Option<Arc<TrainingQueue>>,
    /// Its PriorityClass and priority, or why it has none.
    pub(super) priority: Result<(Option<String>, i32), JobHold>,
    /// True if its PriorityClass does not preempt.
    pub(super) never_preempts: bool,
    /// Its RuntimeProfile, if it has one, or why the profile cannot be used.
    pub(super) profile: Result<Option<Arc<HashedProfile>>, JobHold>,
    /// The active policies. None if they are not loaded yet.
    pub(super) policies: Option<Arc<Policies>>,
    /// Quota policies, and their version.
    pub(super) quotas: (u64, Arc<QuotaPolicies>),
    /// Requester of the job, if known.
    pub(super) requester: Option<Requester>,
    /// The stamp of the job, if it is not trusted.
    pub(super) untrusted_stamp: Option<UntrustedStamp>,
    /// Services of its namespace that the job names.
    pub(super) services: BTreeMap<String, Service>,
    /// Nodes that the volumes of its claims allow, or why the claims cannot be used.
    pub(super) volumes: Result<VolumeRequirements, JobHold>,
    /// The PodGroup of its name, if it exists.
    pub(super) pod_group: Option<Arc<PodGroup>>,
    /// Pods of its name.
    pub(super) pods: Arc<JobPods>,
    /// Ephemeral claims of its pods that need the pod's node.
    pub(super) claims_needing_node: Vec<ClaimNodeRequest>,
    /// The scheduler's explanation for a waiting gang.
    pub(super) explanation: Option<GangExplanation>,
}

/// A requester stamp that is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UntrustedStamp {
    /// Requester that the stamp names.
    pub(super) requester: Requester,
    /// Why the stamp is not trusted.
    pub(super) reason: String,
}

impl JobContext {
    /// Marks the requester as not trusted.
    pub(super) fn distrust_requester(&mut self, reason: String) {
        self.untrusted_stamp = self
            .requester
            .take()
            .map(|requester| UntrustedStamp { requester, reason });
    }

    /// Returns the uid of the job.
    pub(super) fn uid(&self) -> &str {
        self.job.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns the namespace of the job.
    pub(super) fn namespace(&self) -> &str {
        self.job.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the number of the current attempt, or of the next attempt before it starts.
    pub(super) fn attempt(&self) -> i64 {
        let status = self.job.status.as_ref();
        status.and_then(|status| status.attempt).unwrap_or(1)
    }

    /// Returns the number of the current stage, from 1.
    pub(super) fn stage(&self) -> u32 {
        stage(&self.job)
    }

    /// Returns the profile in the job's status.
    pub(super) fn status_profile(&self) -> Option<&JobProfile> {
        self.job.status.as_ref()?.profile.as_ref()
    }

    /// Returns the PodGroup of the job, if it exists and the job owns it.
    pub(super) fn own_group(&self) -> Option<&PodGroup> {
        find_own_group(self.pod_group.as_deref(), self.uid())
    }

    /// Returns the journal. None if it is empty, or if the job owns no PodGroup.
    pub(super) fn journal(&self) -> Option<&PodGroupStatus> {
        self.own_group()?.status.as_ref()
    }

    /// Returns the plan of a gang that is placed or under commit.
    pub(super) fn placed_plan(&self) -> Option<&Plan> {
        self.own_group().and_then(placed_plan_of)
    }

    /// Returns true if the current attempt is placed or under commit.
    pub(super) fn is_placed(&self) -> bool {
        self.placed_plan()
            .is_some_and(|plan| plan.attempt == self.attempt())
    }

    /// Returns true if pods of this attempt are being created, or their claims are being bound.
    pub(super) fn is_committing(&self) -> bool {
        let phase = self.journal().and_then(|journal| journal.phase);
        self.is_placed() && phase == Some(PodGroupPhase::Committing)
    }

    /// Returns the nodes that its volumes allow. No node if they are not known.
    pub(super) fn volumes_or_nowhere(&self) -> VolumeRequirements {
        let profile = self.profile.as_ref().ok().and_then(|p| p.as_deref());
        let nowhere = |_: &JobHold| {
            claims::unreachable_volumes(&self.job.spec, profile.map(HashedProfile::spec))
        };
        self.volumes.as_ref().cloned().unwrap_or_else(nowhere)
    }

    /// Returns true if the journal has a plan for this attempt, even if its victims have not left
    /// yet.
    pub(super) fn is_planned(&self) -> bool {
        let plan = self.journal().and_then(|journal| journal.plan.as_ref());
        plan.is_some_and(|plan| plan.attempt == self.attempt())
    }

    /// Returns true if pods of the job exist or may be created at any moment.
    pub(super) fn has_pods(&self) -> bool {
        let phase = self.journal().and_then(|journal| journal.phase);
        let holds = phase.is_some_and(|phase| phase != PodGroupPhase::Pending);
        let status = self.job.status.as_ref();
        let is_current = |pod: &PodView| {
            let is_left = |status: &TrainingJobStatus| status.is_of_earlier_stage(pod.attempt);
            !(pod.phase.is_over() && status.is_some_and(is_left))
        };
        let mut own_pods = self.pods.values().filter(|pod| pod.job_uid == self.uid());
        holds || own_pods.any(is_current)
    }
}

/// Reads everything that the job depends on.
pub(super) fn read_job(
    cache: &Cache,
    key: &Key,
    full_job: Arc<TrainingJob>,
    explanation: Option<GangExplanation>,
) -> JobContext {
    let job = with_current_stage(&full_job);
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
    let volumes_by_group = claims::ephemeral_volumes(
        &full_job.spec,
        profile.as_ref().ok().and_then(|p| p.as_deref()),
    );
    let queue = find_queue(cache, key, &job, namespace_labels.as_ref(), place);
    let placed = place.filter(|_| is_placed);
    let storage = cache.storage(&key.namespace);
    let (pods, node_requests) =
        ephemeral_claims::check_claims(&storage, uid, &volumes_by_group, pods);
    JobContext {
        claims_needing_node: node_requests,
        queue_resources: find_queue_resources(cache, queue.as_deref().ok(), placed),
        queue,
        placed_in: place.and_then(|plan| cache.queues.get(&Key::new("", plan.queue.as_deref()?))),
        priority: find_priority(cache, &job, place),
        never_preempts: never_preempts(cache, &job),
        volumes: find_volumes(
            cache,
            &full_job,
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
        explanation,
        job,
        job_with_all_stages: full_job,
    }
}

/// Returns the number of the current stage of a job, from 1.
fn stage(job: &TrainingJob) -> u32 {
    let status = job.status.as_ref();
    status.map_or(1, TrainingJobStatus::stage_number)
}

/// Returns the job with the task groups of its current stage.
fn with_current_stage(full_job: &Arc<TrainingJob>) -> Arc<TrainingJob> {
    match full_job.spec.for_stage(stage(full_job)) {
        Cow::Borrowed(_) => full_job.clone(),
        Cow::Owned(spec) => Arc::new(TrainingJob {
            metadata: full_job.metadata.clone(),
            spec,
            status: full_job.status.clone(),
        }),
    }
}

/// Returns the PodGroup, if the job of that uid owns it.
fn find_own_group<'a>(group: Option<&'a PodGroup>, uid: &str) -> Option<&'a PodGroup> {
    group.filter(|g| is_owned(*g, uid))
}

/// Returns the plan of a gang that is placed or under commit.
fn placed_plan_of(group: &PodGroup) -> Option<&Plan> {
    let journal = group.status.as_ref()?;
    let has_it = matches!(
        journal.phase?,
        PodGroupPhase::Committing | PodGroupPhase::Placed
    );
    journal.plan.as_ref().filter(|_| has_it)
}

/// Reads the journal and the pods of the same moment. Otherwise a deleted or missing pod could be
/// compared with an older or newer journal.
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

/// Returns the queue of the job. A placed gang without a named queue stays in the queue where it
/// was placed, even if the default changes.
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
    let get = |name: &str| cache.priority_classes.get(&Key::new("", name));
    lookup::job_never_preempts(&job.spec, get, || cache.priority_classes.all())
}

fn find_priority(
    cache: &Cache,
    job: &TrainingJob,
    place: Option<&Plan>,
) -> Result<(Option<String>, i32), JobHold> {
    if let Some(priority) = place.and_then(|plan| plan.priority) {
        return Ok((job.spec.priority_class_name.clone(), priority));
    }
    let get = |name: &str| cache.priority_classes.get(&Key::new("", name));
    lookup::find_priority(&job.spec, get, || cache.priority_classes.all())
}
