//! A gang that fits is placed.
//!
//! The rule must never report a gang that Trellis may not place. It therefore leaves out every
//! gang, node and moment that it does not understand, and reports a gang only if it has found a
//! place for all pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::job::{JobPhase, TaskGroup, TrainingJobStatus};
use trellis_api::pod_group::{Plan, PodGroupMember, PodGroupPhase, PodGroupStatus};
use trellis_api::queue::{DEFAULT_FLAVOR, StopPolicy};
use trellis_api::{PodGroup, Reason, TrainingJob, TrainingQueue};

use super::Judge;
use super::lasting::{LastingViolations, Violation};
use super::over_quota::measure_usage;
use crate::clock::Moment;
use crate::cluster::{Cluster, JobUid, Previous, owner_uid};
use crate::finding::{ObjectRef, Rule};
use crate::history::{ObjectName, ObjectVersion, Version};
use crate::judged_kinds::JudgedKind as _;
use crate::nodes;
use crate::pods::PodFacts as _;
use crate::quota::{FlavorResource, Usage};
use crate::resources::{Amounts, add, millis, pod_requests};
use crate::verifier::{Findings, Step};

/// Healthy time in which Trellis places a gang that fits.
const REACTION_TIME: SignedDuration = SignedDuration::from_secs(30);
/// Time between two counts of the free capacity.
const SAMPLE_INTERVAL: SignedDuration = SignedDuration::from_secs(2);
/// Reasons of a waiting gang that a count can refute.
const REFUTABLE_REASONS: [Reason; 6] = [
    Reason::Queued,
    Reason::QuotaExceeded,
    Reason::ExceedsQuota,
    Reason::InsufficientCapacity,
    Reason::Fragmented,
    Reason::ExceedsCluster,
];

/// Gangs that fit and wait.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Nodes that Trellis has chosen for a gang since they last changed. No sign that this crate does
    /// not know keeps gangs away from them.
    proven_nodes: BTreeSet<String>,
    stalled: LastingViolations<JobUid>,
    last_sample: Option<Moment>,
}

impl Judge for Progress {
    fn observe(&mut self, step: &Step<'_>, _findings: &mut Findings) {
        match (&step.change.object, step.previous) {
            (ObjectVersion::Node(version), Previous::Node(before)) => {
                let now = version.stored();
                let is_same = now.zip(before.as_ref());
                let is_same = is_same.is_some_and(|(now, before)| !nodes::has_changed(before, now));
                if !is_same && let Some(name) = &version.object().metadata.name {
                    self.proven_nodes.remove(name);
                }
            }
            (ObjectVersion::Group(Version::Stored(group)), Previous::Group(before)) => {
                // A later pod of the plan proves nothing: Trellis completes a gang that is partly
                // created, even if a node has become unhealthy.
                let had_plan = before.as_ref().and_then(|before| plan_of(before));
                if !step.change.is_listed
                    && let Some(plan) = plan_of(group)
                    && had_plan.is_none_or(|before| before.hash != plan.hash)
                {
                    let nodes = plan.assignments.iter().map(|next| next.node.clone());
                    self.proven_nodes.extend(nodes);
                }
            }
            _ => {}
        }
    }

    fn check(&mut self, cluster: &Cluster, now: Moment, findings: &mut Findings) {
        let is_recent = self
            .last_sample
            .is_some_and(|last| now.time.duration_since(last.time) < SAMPLE_INTERVAL);
        if is_recent {
            return;
        }
        self.last_sample = Some(now);
        let stalled = find_stalled_gangs(cluster, &self.proven_nodes, now.time);
        self.stalled.retain(|uid| stalled.contains_key(uid));
        for (uid, violation) in stalled {
            self.stalled.set(uid, Some(violation), now);
        }
        self.stalled
            .report_overdue(Rule::Progress, cluster, now, findings);
    }
}

/// A gang that waits for its place.
struct WaitingGang<'a> {
    uid: JobUid,
    job: &'a TrainingJob,
    group: &'a PodGroup,
    queue: &'a TrainingQueue,
}

fn find_stalled_gangs(
    cluster: &Cluster,
    proven_nodes: &BTreeSet<String>,
    now: Timestamp,
) -> BTreeMap<JobUid, Violation> {
    let waiting: Vec<WaitingGang<'_>> = cluster
        .jobs
        .values()
        .filter_map(|job| find_waiting_gang(cluster, job, now))
        .collect();
    // Usually no gang waits. Pods of other controllers may have any constraint.
    let waits_for_place = |pod: &Arc<k8s_openapi::api::core::v1::Pod>| {
        pod.wants_trellis() && pod.node().is_none() && pod.job_uid().is_none()
    };
    if waiting.is_empty()
        || [TrainingJob::PLURAL, PodGroup::PLURAL, TrainingQueue::PLURAL]
            .iter()
            .any(|kind| cluster.has_unread(kind))
        || cluster.pods().any(waits_for_place)
    {
        return BTreeMap::new();
    }
    let usage = measure_usage(cluster);
    let free = find_free_nodes(cluster, proven_nodes);
    let mut stalled = BTreeMap::new();
    for gang in &waiting {
        if is_head(cluster, gang)
            && has_quota(gang, &usage)
            && let Some(nodes) =
                find_place(gang, &free, |node| may_be_promised(cluster, gang, node))
        {
            let violation = Violation {
                object: ObjectRef::new("TrainingJob", &gang.job.metadata),
                message: format!(
                    "it is the head of its queue and has quota, its pods fit on {nodes} nodes, and it is not placed"
                ),
                allowed: REACTION_TIME,
            };
            stalled.insert(gang.uid.clone(), violation);
        }
    }
    stalled
}

/// Returns a job whose gang waits, and whose constraints a plain count knows.
fn find_waiting_gang<'a>(
    cluster: &'a Cluster,
    job: &'a TrainingJob,
    now: Timestamp,
) -> Option<WaitingGang<'a>> {
    let uid = JobUid(job.metadata.uid.clone()?);
    let status = job.status.as_ref()?;
    let group = cluster.group_of_job(&uid)?;
    let waits = is_waiting(job, status, now)
        && journal_is_empty(group.status.as_ref(), now)
        && cluster.pods_of_job(&uid).next().is_none()
        && !cluster.is_terminating(job.metadata.namespace.as_deref()?);
    if !waits || !has_known_constraints(job, status, group) {
        return None;
    }
    let queue = ObjectName::cluster_wide(status.queue.as_deref()?);
    let queue = cluster.queues.get(&queue)?;
    Some(WaitingGang {
        uid,
        job,
        group,
        queue,
    })
}

fn is_waiting(job: &TrainingJob, status: &TrainingJobStatus, now: Timestamp) -> bool {
    let is_before = status.retry_time.as_ref().is_some_and(|at| at.0 > now);
    status.phase == Some(JobPhase::Queued)
        && status.observed_generation == job.metadata.generation
        && status
            .reason
            .is_some_and(|reason| REFUTABLE_REASONS.contains(&reason))
        && status.excluded_nodes.is_empty()
        && !is_before
        && !job.spec.is_suspended()
        && job.spec.external_manager().is_none()
        && job.metadata.deletion_timestamp.is_none()
}

fn plan_of(group: &PodGroup) -> Option<&Plan> {
    group.status.as_ref()?.plan.as_ref()
}

fn journal_is_empty(journal: Option<&PodGroupStatus>, now: Timestamp) -> bool {
    journal.is_none_or(|journal| {
        let is_before = journal.retry_time.as_ref().is_some_and(|at| at.0 > now);
        journal.phase.unwrap_or_default() == PodGroupPhase::Pending
            && journal.plan.is_none()
            && !is_before
    })
}

/// Returns true if a plain count knows all constraints of the gang.
fn has_known_constraints(job: &TrainingJob, status: &TrainingJobStatus, group: &PodGroup) -> bool {
    let is_plain = |group: &TaskGroup| {
        group.topology.is_none()
            && group.affinity.is_none()
            && group.pod_template.is_none()
            && group.flavors.is_empty()
            && group.mounts.is_empty()
            && group.depends_on.is_empty()
            && group.min_replicas.is_none()
            && group.is_in_gang()
    };
    let names: BTreeSet<&str> = job
        .spec
        .task_groups
        .iter()
        .map(|group| group.name.as_str())
        .collect();
    let members: BTreeSet<&str> = group
        .spec
        .groups
        .iter()
        .map(|member| member.name.as_str())
        .collect();
    job.spec.topology.is_none()
        && group.spec.topology.is_none()
        && job.spec.profile.is_none()
        && status.profile.is_none()
        && job.spec.task_groups.iter().all(is_plain)
        && names == members
}

/// Returns true if no other waiting gang of the queue may come first.
fn is_head(cluster: &Cluster, gang: &WaitingGang<'_>) -> bool {
    let stop = gang.queue.spec.stop_policy.unwrap_or_default();
    if stop != StopPolicy::None || gang.queue.spec.parent_name.is_some() {
        return false;
    }
    let queued = |job: &TrainingJob| {
        let status = job.status.as_ref();
        status.and_then(|status| status.queued_time.as_ref().map(|time| time.0))
    };
    let Some(own) = queued(gang.job) else {
        return false;
    };
    let may_come_first = |other: &TrainingJob| {
        let name = ObjectName::from_metadata(&other.metadata);
        let priority = cluster.groups.get(&name).map(|group| group.spec.priority());
        let is_behind = priority.is_some_and(|priority| priority <= gang.group.spec.priority())
            && queued(other).is_some_and(|other| other > own);
        !is_behind
    };
    let name = gang.queue.metadata.name.as_deref();
    let mut rivals = cluster.jobs.values().filter(|other| {
        let in_queue = other
            .status
            .as_ref()
            .and_then(|status| status.queue.as_deref());
        other.metadata.uid != gang.job.metadata.uid
            && is_rival(cluster, other)
            && (in_queue.is_none() || in_queue == name)
    });
    !rivals.any(|other| may_come_first(other))
}

/// Returns true if the job may take a place, or hold one for pods that do not exist now.
fn is_rival(cluster: &Cluster, job: &TrainingJob) -> bool {
    let status = job.status.as_ref();
    let has_surplus = job.spec.gang_size() < job.spec.pod_count();
    if status.is_some_and(TrainingJobStatus::has_ended) || job.spec.external_manager().is_some() {
        return false;
    }
    let phase = status.and_then(|status| status.phase);
    let waits_for_pods = status.is_some_and(|status| status.internal.awaited_pods.is_some());
    let name = ObjectName::from_metadata(&job.metadata);
    let journal = cluster
        .groups
        .get(&name)
        .and_then(|group| group.status.as_ref());
    let is_placed = journal.is_some_and(|journal| journal.phase == Some(PodGroupPhase::Placed));
    phase != Some(JobPhase::Running) || has_surplus || waits_for_pods || !is_placed
}

/// Returns true if the queue has no quota, or enough of it in the flavor of all nodes.
fn has_quota(gang: &WaitingGang<'_>, usage: &Usage) -> bool {
    let Some(queue) = gang.queue.metadata.name.clone() else {
        return false;
    };
    let quotas = &gang.queue.spec.resource_groups;
    if quotas.is_empty() {
        return true;
    }
    let mut wanted = Amounts::new();
    for member in &gang.group.spec.groups {
        for (resource, amount) in &member.resources {
            let Some(one) = millis(amount) else {
                return false;
            };
            let all = Amounts::from([(resource.clone(), one.saturating_mul(member.count))]);
            add(&mut wanted, &all);
        }
    }
    wanted.into_iter().all(|(resource, amount)| {
        let mut groups = quotas.iter();
        let group = groups.find(|group| group.covered_resources.contains(&resource));
        let Some([flavor]) = group.map(|group| group.flavors.as_slice()) else {
            return false;
        };
        let mut resources = flavor.resources.iter();
        let nominal = resources
            .find(|quota| quota.name == resource)
            .and_then(|quota| quota.nominal_quota.as_ref())
            .and_then(millis);
        let key = FlavorResource {
            flavor: flavor.name.clone(),
            resource,
        };
        let used = usage.get(&(queue.clone(), key)).copied().unwrap_or(0);
        flavor.name == DEFAULT_FLAVOR
            && nominal.is_some_and(|nominal| used.saturating_add(amount) <= nominal)
    })
}

/// The free capacity of a node.
struct FreeNode<'a> {
    node: &'a Node,
    free: Amounts,
}

/// Returns the nodes that are proven, with what their pods leave free. A node on which a plan has
/// pods that do not exist now is left out.
fn find_free_nodes<'a>(cluster: &'a Cluster, proven: &BTreeSet<String>) -> Vec<FreeNode<'a>> {
    let promised = find_promised_nodes(cluster);
    let nodes = proven
        .iter()
        .filter(|name| !promised.contains(name.as_str()));
    let free = nodes.filter_map(|name| {
        let node = cluster.nodes.get(&ObjectName::cluster_wide(name))?;
        let mut free = nodes::allocatable(node);
        for (_, pod) in cluster.pods_on_node(name).filter(|(_, pod)| !pod.is_over()) {
            for (resource, amount) in pod_requests(pod) {
                let left = free.entry(resource).or_default();
                *left = left.saturating_sub(amount);
            }
        }
        Some(FreeNode { node, free })
    });
    free.collect()
}

/// Returns the nodes that a plan keeps for pods that do not run there now.
fn find_promised_nodes(cluster: &Cluster) -> BTreeSet<&str> {
    let mut promised = BTreeSet::new();
    for group in cluster.groups.values() {
        let journal = group.status.as_ref();
        let Some(plan) = journal.and_then(|journal| journal.plan.as_ref()) else {
            continue;
        };
        let is_placed = journal.is_some_and(|journal| journal.phase == Some(PodGroupPhase::Placed));
        let has_ended =
            journal.is_some_and(|journal| journal.phase == Some(PodGroupPhase::Finished));
        if has_ended {
            continue;
        }
        let mut missing: BTreeMap<&str, i64> = BTreeMap::new();
        for assignment in &plan.assignments {
            let count = missing.entry(&assignment.node).or_default();
            *count = count.saturating_add(assignment.count);
        }
        let pods = owner_uid(group).filter(|_| is_placed);
        for (_, pod) in pods.iter().flat_map(|uid| cluster.pods_of_job(uid)) {
            if pod.is_live()
                && pod.plan() == Some(plan.hash.as_str())
                && let Some(count) = pod.node().and_then(|node| missing.get_mut(node))
            {
                *count = count.saturating_sub(1);
            }
        }
        let nodes = missing.into_iter().filter(|(_, count)| *count > 0);
        promised.extend(nodes.map(|(node, _)| node));
    }
    promised
}

/// Returns true if another gang may have been promised room on the node.
fn may_be_promised(cluster: &Cluster, gang: &WaitingGang<'_>, node: &Node) -> bool {
    let mut rivals = cluster
        .jobs
        .values()
        .filter(|other| other.metadata.uid != gang.job.metadata.uid && is_rival(cluster, other));
    rivals.any(|other| {
        let mut groups = other.spec.task_groups.iter();
        groups.any(|group| nodes::has_labels(node, &group.node_selector))
    })
}

/// Places the pods of a gang one by one, each on the first node with room. Returns the number of
/// nodes. None: it finds no place, although there may be one.
fn find_place(
    gang: &WaitingGang<'_>,
    free: &[FreeNode<'_>],
    may_be_promised: impl Fn(&Node) -> bool,
) -> Option<usize> {
    let mut left: Vec<(&Node, Amounts)> = free
        .iter()
        .filter(|free| !may_be_promised(free.node))
        .map(|free| (free.node, free.free.clone()))
        .collect();
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for member in &gang.group.spec.groups {
        let mut groups = gang.job.spec.task_groups.iter();
        let group = groups.find(|group| group.name == member.name)?;
        let requests = member_requests(member)?;
        let gpus = [group.gpu_resource()];
        let tolerated: &[&str] = if group.gpus() > 0 { &gpus } else { &[] };
        for _ in 0..member.count {
            let fits = |(node, free): &&mut (&Node, Amounts)| {
                nodes::is_open(node, tolerated)
                    && nodes::has_labels(node, &group.node_selector)
                    && requests.iter().all(|(resource, amount)| {
                        free.get(resource).is_some_and(|free| free >= amount)
                    })
            };
            let (node, free) = left.iter_mut().find(fits)?;
            for (resource, amount) in &requests {
                let free = free.entry(resource.clone()).or_default();
                *free = free.saturating_sub(*amount);
            }
            used.extend(node.metadata.name.as_deref());
        }
    }
    Some(used.len())
}

fn member_requests(member: &PodGroupMember) -> Option<Amounts> {
    let mut requests = Amounts::from([("pods".to_owned(), 1000)]);
    for (resource, amount) in &member.resources {
        requests.insert(resource.clone(), millis(amount)?);
    }
    Some(requests)
}
