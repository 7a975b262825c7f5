//! Places all jobs together.
//! The engine decides as in the operator, and nothing is written.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::{PodGroup, TrainingJob};
use trellis_compiler::CompiledJob;
use trellis_gang::engine;
use trellis_gang::engine::AttemptState;
use trellis_gang::key::Key;
use trellis_gang::observed::AntiAffinityIndex;
use trellis_gang::requirements::closed_domains::TargetGang;
use trellis_gang::requirements::device_allocation;
use trellis_gang::requirements::flavors::FlavorTolerations;
use trellis_plan::{PlacementFacts, PlannedJob, current_place, later_groups, place_jobs};
use trellis_scheduler::{FlavorName, Gang, LabelDomain};

use super::claim_bindings;
use super::engine_setup::build_engine;
use super::existing_job::{current_stage, has_ended, next_attempt, pending_job, submission_time};
use super::job_preparation::prepare_job;
use super::namespace_quotas::read_quotas;
use super::plan_requester::PlanRequester;
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
        let mut notes = Vec::new();
        let mut place = Err(inputs.clone().err().unwrap_or_else(PlannedJob::undecided));
        if let (Some(compiled), Ok(inputs)) = (&compiled, &inputs) {
            let group = snapshot.pod_groups.get(&key);
            if let Some(current) = group.and_then(|group| current_place(compiled, group)) {
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
                let ahead = count_jobs_ahead(compiled, submitted, &snapshot, &all);
                notes.extend(describe_jobs_ahead(ahead, compiled.queue()));
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
            volumes: inputs.map(|inputs| inputs.volumes).unwrap_or_default(),
            notes,
            has_ended: has_ended(existing),
        });
    }
    let now = snapshot
        .read_at
        .map_or(submission.last_time, |now| now.max(submission.last_time));
    let mut engine = build_engine(&mut snapshot, &to_place, now);
    for gang in &waiting {
        engine.apply_gang(gang.clone());
    }
    let mut quotas = read_quotas(&snapshot, &to_place);
    let classes: Vec<_> = snapshot.device_classes.values().collect();
    let nodes = || snapshot.nodes.values().collect();
    let facts = PlacementFacts {
        flavors: &flavors,
        explain: &|engine, gang, explanation| {
            device_allocation::explain_wait(engine, gang, explanation, &classes, nodes)
        },
        now,
    };
    place_jobs(&mut engine, &facts, &mut quotas, &mut planned);
    claim_bindings::bind_claims(&mut planned, &mut snapshot);
    measure_levels(&mut planned, &snapshot);
    for job in planned.iter_mut().filter(|job| !job.would_run()) {
        job.notes.clear();
    }
    planned
}

/// Describes the jobs ahead that may keep a runnable job waiting. None: there are none.
fn describe_jobs_ahead(ahead: usize, queue: &str) -> Option<String> {
    match ahead {
        0 => None,
        1 => Some(format!(
            "1 pending job before it in queue {queue:?} is not in the plan: it may have to wait for that job"
        )),
        many => Some(format!(
            "{many} pending jobs before it in queue {queue:?} are not in the plan: it may have to wait for those jobs"
        )),
    }
}

/// Measures how the ranks of each placed job follow the topology.
fn measure_levels(planned: &mut [PlannedJob], snapshot: &ClusterSnapshot) {
    let topologies = snapshot.topologies.iter();
    let topologies =
        topologies.map(|(name, topology)| engine::to_engine_topology(name, &topology.spec));
    let topologies: Vec<_> = topologies.collect();
    trellis_plan::measure_levels(planned, &topologies, |name| snapshot.nodes.get(name));
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
