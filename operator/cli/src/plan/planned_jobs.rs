//! Places all jobs together.
//! The engine decides as in the operator, and nothing is written.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::{PodGroup, Reason, TrainingJob};
use trellis_compiler::CompiledJob;
use trellis_gang::engine::AttemptState;
use trellis_gang::key::Key;
use trellis_gang::observed::AntiAffinityIndex;
use trellis_gang::placement_levels::placement_levels;
use trellis_gang::requirements::closed_domains::TargetGang;
use trellis_gang::requirements::flavors::{FlavorTolerations, GangPlacement};
use trellis_gang::requirements::{device_allocation, volumes};
use trellis_gang::{JobHold, engine};
use trellis_scheduler::{
    Decision, Engine, FlavorName, Gang, GangId, LabelDomain, Placement, ProvisioningObstacle,
    WaitDetail, WaitExplanation, WaitReason, describe_new_nodes,
};

use super::claim_bindings;
use super::engine_setup::build_engine;
use super::existing_job::{
    check_ended, current_plan, current_stage, next_attempt, pending_job, submission_time,
};
use super::job_preparation::prepare_job;
use super::namespace_quotas::NamespaceQuotas;
use super::plan_requester::PlanRequester;
use super::planned_job::PlannedJob;
use super::snapshot::ClusterSnapshot;

/// Plans all jobs together.
/// Jobs that hold nodes keep them. The engine places the other jobs in the order of the queue.
pub(super) fn plan_jobs(
    jobs: Vec<TrainingJob>,
    mut snapshot: ClusterSnapshot,
    requester_source: &PlanRequester,
) -> Vec<PlannedJob> {
    snapshot.queues_or_default();
    let mut flavors = FlavorTolerations::default();
    for (name, flavor) in &snapshot.flavors {
        flavors.apply(FlavorName::new(name.as_str()), &flavor.spec);
    }
    let mut repulsions = AntiAffinityIndex::default();
    for (key, pod) in &snapshot.pods {
        repulsions.apply(key, pod);
    }
    let mut submission = SubmissionTimes::from_snapshot(&snapshot);
    let mut planned = Vec::with_capacity(jobs.len());
    let mut waiting = Vec::new();
    let mut to_place: BTreeSet<Key> = jobs.iter().map(|j| Key::from_meta(&j.metadata)).collect();
    let all = to_place.clone();
    for job in jobs {
        let key = Key::from_meta(&job.metadata);
        let existing = snapshot.jobs.get(&key);
        let submitted = submission.time_for(existing);
        let attempt = next_attempt(existing);
        let requester = requester_source.requester_of(&job, existing);
        let later = later_groups(&job, current_stage(existing));
        let (compiled, inputs) = prepare_job(job, existing, requester.as_ref(), &snapshot);
        let not_decided = JobHold::waiting(Reason::Queued, "not planned".to_owned());
        let mut jobs_ahead_count = 0;
        let mut place = Err(inputs.clone().err().unwrap_or(not_decided));
        if let (Some(compiled), Ok(inputs)) = (&compiled, &inputs) {
            if let Some(current) = current_place(&key, compiled, &snapshot) {
                to_place.remove(&key);
                place = Ok(current);
            } else {
                let ticket = AttemptState {
                    submitted,
                    never_preempts: snapshot.never_preempts(compiled.job().spec()),
                    volumes: inputs.volumes.clone(),
                    closed_domains: excluded_domains(compiled, &snapshot, &repulsions),
                    denied_flavors: inputs.denied_node_orders.clone(),
                    ..AttemptState::default()
                };
                jobs_ahead_count = count_jobs_ahead(compiled, submitted, &snapshot, &all);
                waiting.push(Gang {
                    draws: inputs.limits.to_draws(),
                    ..engine::gang_from_job(compiled, &ticket, &BTreeMap::new())
                });
            }
        }
        planned.push(PlannedJob {
            key,
            compiled,
            later_groups: later,
            attempt,
            place,
            levels: Vec::new(),
            victims: Vec::new(),
            claims: Vec::new(),
            inputs: inputs.unwrap_or_default(),
            jobs_ahead: jobs_ahead_count,
            has_ended: check_ended(existing).is_some(),
        });
    }
    let now = snapshot
        .read_at
        .map_or(submission.last_time, |now| now.max(submission.last_time));
    let mut engine = build_engine(&mut snapshot, &to_place, now);
    for gang in &waiting {
        engine.apply_gang(gang.clone());
    }
    let mut quotas = NamespaceQuotas::from_snapshot(&snapshot, &to_place);
    // A gang that may not start releases its nodes, and the engine tries other gangs there.
    while decide_once(
        (&mut engine, &flavors, &snapshot),
        now,
        &mut quotas,
        &mut planned,
    ) {}
    claim_bindings::bind_claims(&mut planned, &mut snapshot);
    measure_levels(&mut planned, &snapshot);
    planned
}

/// Measures how the ranks of each placed job follow the topology.
fn measure_levels(planned: &mut [PlannedJob], snapshot: &ClusterSnapshot) {
    let topologies = snapshot.topologies.iter();
    let topologies =
        topologies.map(|(name, topology)| engine::to_engine_topology(name, &topology.spec));
    let topologies: Vec<_> = topologies.collect();
    for job in planned {
        if let (Ok(place), Some(compiled)) = (&job.place, &job.compiled) {
            let spec = compiled.job().spec();
            let find_node = |name: &str| snapshot.nodes.get(name);
            job.levels = placement_levels(spec, &place.placement, &topologies, find_node);
        }
    }
}

/// Returns the task groups of the stages after `stage`, with their stage numbers.
fn later_groups(job: &TrainingJob, stage: u32) -> Vec<(u32, String)> {
    let groups = job.spec.task_groups.iter().map(|group| group.name.clone());
    let stages = job.spec.group_stages().into_iter().zip(groups);
    let mut later: Vec<_> = stages.filter(|(own_stage, _)| *own_stage > stage).collect();
    // The sort is stable: the groups of one stage keep the order of the spec.
    later.sort_by_key(|(own_stage, _)| *own_stage);
    later
}

/// Runs one scheduling cycle.
/// Returns true if a gang was placed and has released its nodes again.
fn decide_once(
    (engine, flavors, snapshot): (&mut Engine, &FlavorTolerations, &ClusterSnapshot),
    now: Timestamp,
    quotas: &mut NamespaceQuotas,
    planned: &mut [PlannedJob],
) -> bool {
    let mut has_released = false;
    for decision in engine.cycle(engine::to_engine_time(now)) {
        let mut preempted = Vec::new();
        let (id, place) = match decision {
            Decision::Place {
                gang, placement, ..
            } => {
                let place = engine_place(engine, flavors, &gang, placement);
                (gang, Ok(place))
            }
            Decision::Preempt {
                gang,
                placement,
                victims,
            } => {
                preempted = victims;
                let place = engine_place(engine, flavors, &gang, placement);
                (gang, Ok(place))
            }
            Decision::Wait {
                gang: id,
                explanation,
            } => {
                let classes: Vec<_> = snapshot.device_classes.values().collect();
                let nodes = || snapshot.nodes.values().collect();
                let (mut reason, mut message) =
                    device_allocation::explain_wait(engine, &id, &explanation, &classes, nodes);
                if let WaitDetail::Provisioning { nodes, .. } = explanation.detail.as_ref() {
                    // The plan orders nothing: the queue has no delay before an order.
                    message = format!("the job would start with {}", describe_new_nodes(nodes));
                }
                let job = planned.iter().find(|p| p.key == engine::job_key(&id));
                if let Some(job) = job {
                    let claim = volumes::explain_one_node(&job.inputs.volumes, reason);
                    message.extend(claim.map(|cause| format!("; {cause}")));
                    if would_order_nodes(&explanation)
                        && let Some(compiled) = &job.compiled
                        && let Err(hold) = quotas.check_gang(&job.key, compiled)
                    {
                        (reason, message) = (hold.reason, hold.message);
                    }
                }
                let new_hold = if explanation.detail.is_refusal() {
                    JobHold::refused
                } else {
                    JobHold::waiting
                };
                (id, Err(new_hold(reason, message)))
            }
            // These decisions do not concern planned jobs, or the job is pending with its own
            // reason.
            Decision::Drain { .. }
            | Decision::Reserve { .. }
            | Decision::Provision(_)
            | Decision::EndProvisioning { .. } => continue,
        };
        let key = engine::job_key(&id);
        let Some(job) = planned.iter_mut().find(|p| p.key == key) else {
            continue;
        };
        let starts = match (&place, &job.compiled) {
            (Ok(_), Some(compiled)) => quotas.start_gang(&key, compiled),
            _ => Ok(()),
        };
        if starts.is_err() {
            engine.delete_gang(&id);
            has_released = true;
        }
        job.place = starts.and(place);
        job.victims = preempted;
    }
    has_released
}

/// Returns true if nodes are ordered for the gang, or will be.
fn would_order_nodes(explanation: &WaitExplanation) -> bool {
    explanation.reason == WaitReason::Provisioning
        || matches!(
            explanation.provisioning_obstacle.as_deref(),
            Some(ProvisioningObstacle::Delay { .. })
        )
}

/// Converts the engine's placement, and adds the tolerations of its flavors.
fn engine_place(
    engine: &Engine,
    flavors: &FlavorTolerations,
    gang: &GangId,
    placement: Placement,
) -> GangPlacement {
    GangPlacement {
        placement,
        groups: flavors.plan_groups(&engine.flavors(gang).unwrap_or_default()),
        // Only the journal needs these fields, and a plan writes none.
        limits: Vec::new(),
        requester: None,
        quota_version: 0,
    }
}

/// Returns the current placement of a job.
/// The job keeps it if its request is unchanged.
fn current_place(
    key: &Key,
    compiled: &CompiledJob,
    snapshot: &ClusterSnapshot,
) -> Option<GangPlacement> {
    let group = snapshot.pod_groups.get(key)?;
    let plan = current_plan(group).filter(|_| group.spec == compiled.pod_group().spec)?;
    Some(GangPlacement {
        placement: engine::placement_from_plan(plan),
        groups: plan.groups.clone(),
        limits: plan.limits.clone(),
        requester: plan.requester.clone(),
        quota_version: 0,
    })
}

/// Counts the jobs ahead in the same queue that are not planned.
/// In a strict queue the plan considers them, so the count is 0.
fn count_jobs_ahead(
    job: &CompiledJob,
    submitted_at: Timestamp,
    snapshot: &ClusterSnapshot,
    planned: &BTreeSet<Key>,
) -> usize {
    if snapshot.is_strict_queue(job.queue()) {
        return 0;
    }
    let goes_first = |(key, group): &(&Key, &PodGroup)| {
        let since = pending_job(snapshot, key, group).map(submission_time);
        since.is_some_and(|since| {
            let (other_priority, own_priority) = (group.spec.priority(), job.priority());
            other_priority > own_priority
                || (other_priority == own_priority && since <= Some(submitted_at))
        })
    };
    let groups = snapshot
        .pod_groups
        .iter()
        .filter(|(key, group)| !planned.contains(*key) && group.spec.queue_name == job.queue());
    groups.filter(goes_first).count()
}

/// Submission times.
/// Existing jobs keep theirs; new jobs follow after them, one after another.
struct SubmissionTimes {
    last_time: Timestamp,
}

impl SubmissionTimes {
    fn from_snapshot(snapshot: &ClusterSnapshot) -> Self {
        let times = snapshot.jobs.values().filter_map(submission_time);
        Self {
            last_time: times.max().unwrap_or(Timestamp::UNIX_EPOCH),
        }
    }

    fn time_for(&mut self, existing: Option<&TrainingJob>) -> Timestamp {
        existing.and_then(submission_time).unwrap_or_else(|| {
            let next = self.last_time.saturating_add(SignedDuration::from_secs(1));
            self.last_time = next.unwrap_or(self.last_time);
            self.last_time
        })
    }
}

/// Returns the domains that the job's pods must avoid.
/// The anti-affinity of existing pods forbids them.
fn excluded_domains(
    job: &CompiledJob,
    snapshot: &ClusterSnapshot,
    repulsions: &AntiAffinityIndex,
) -> BTreeMap<String, BTreeSet<LabelDomain>> {
    let namespace = snapshot.namespace_labels(job.job().namespace());
    let label = |node: &str, key: &str| {
        let labels = snapshot.nodes.get(node)?.metadata.labels.as_ref()?;
        labels.get(key).cloned()
    };
    TargetGang::new(job, &namespace, &BTreeMap::new()).closed_domains(repulsions, label)
}
