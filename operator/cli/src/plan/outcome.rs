//! Where each job would go, all planned together: the engine decides, as the operator has it
//! decide, and nothing is written.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::{PodGroup, Reason, TrainingJob};
use trellis_compiler::CompiledJob;
use trellis_gang::engine::Ticket;
use trellis_gang::flavors::{Flavors, Place};
use trellis_gang::key::Key;
use trellis_gang::neighbours::Neighbour;
use trellis_gang::observed::Repulsions;
use trellis_gang::volumes::Volumes;
use trellis_gang::{Held, allocation, engine, volumes};
use trellis_scheduler::{
    Decision, Engine, FlavorName, Gang, GangId, LabelDomain, Placement, Victim,
};

use super::bindings;
use super::engine::{engine, is_strict, place_of, waits};
use super::judge::{attempt_of, never_preempts, stage_of};
use super::quotas::Quotas;
use super::snapshot::Snapshot;
use super::standing::{ended, stand};
use super::who::Who;

/// A job, what it becomes, and where it goes.
pub(super) struct Planned {
    /// Its name.
    pub(super) key: Key,
    /// What it would be compiled into, if all that it names is there.
    pub(super) compiled: Option<CompiledJob>,
    /// Task groups of the stages after the one that is planned.
    pub(super) later: Vec<(u32, String)>,
    /// The attempt that the pods would be of.
    pub(super) attempt: i64,
    /// Its place, or why it would not run.
    pub(super) place: Result<Place, Held>,
    /// Who would have to leave first.
    pub(super) victims: Vec<Victim>,
    /// What its claims would be bound to first.
    pub(super) claims: Vec<String>,
    /// Where their volumes are, or can be.
    volumes: Volumes,
    /// Jobs that wait before it in its queue and were not counted in.
    pub(super) behind: usize,
    /// A job of its name has ended: it does not run again.
    pub(super) ended: bool,
}

impl Planned {
    /// True if it would run now.
    pub(super) fn would_run(&self) -> bool {
        self.place.is_ok()
    }

    /// True if it would be Refused.
    pub(super) fn is_refused(&self) -> bool {
        !self.ended && self.place.as_ref().is_err_and(Held::is_refused)
    }

    /// What would become of it, in a word or two.
    pub(super) fn verdict(&self) -> &'static str {
        match &self.place {
            Ok(_) => "would run",
            Err(_) if self.ended => "would not run",
            Err(held) if held.is_refused() => "would be Refused",
            Err(_) => "would wait",
        }
    }
}

/// Plans all jobs together: those that hold a place keep it, those that would go
/// first take their room first.
pub(super) fn plan(jobs: Vec<TrainingJob>, mut snapshot: Snapshot, who: &Who) -> Vec<Planned> {
    snapshot.with_queues();
    let mut flavors = Flavors::default();
    for (name, flavor) in &snapshot.flavors {
        flavors.apply(FlavorName::new(name.as_str()), &flavor.spec);
    }
    let repulsions = Repulsions::default();
    for (key, pod) in &snapshot.pods {
        repulsions.apply(key, pod);
    }
    let mut submission = Submission::after(&snapshot);
    let mut planned = Vec::with_capacity(jobs.len());
    let mut waiting = Vec::new();
    let mut anew: BTreeSet<Key> = jobs.iter().map(|j| Key::of(&j.metadata)).collect();
    let all = anew.clone();
    for job in jobs {
        let key = Key::of(&job.metadata);
        let there = snapshot.jobs.get(&key);
        let submitted = submission.of(there);
        let attempt = attempt_of(there);
        let requester = who.submits(&job, there);
        let later = later(&job, stage_of(there));
        let (compiled, standing) = stand(job, there, requester.as_ref(), &snapshot);
        let not_decided = Held::waits(Reason::Queued, "not looked at".to_owned());
        let mut behind = 0;
        let mut place = Err(standing.clone().err().unwrap_or(not_decided));
        if let (Some(compiled), Ok((volumes, limits))) = (&compiled, &standing) {
            if let Some(kept) = kept(&key, compiled, &snapshot) {
                anew.remove(&key);
                place = Ok(kept);
            } else {
                let ticket = Ticket {
                    submitted,
                    never_preempts: never_preempts(compiled.job().spec(), &snapshot),
                    volumes: volumes.clone(),
                    kept_out: kept_out(compiled, &snapshot, &repulsions),
                    ..Ticket::default()
                };
                behind = before(compiled, submitted, &snapshot, &all);
                waiting.push(Gang {
                    draws: limits.draws(),
                    ..engine::gang(compiled, &ticket, &BTreeMap::new())
                });
            }
        }
        planned.push(Planned {
            key,
            compiled,
            later,
            attempt,
            place,
            victims: Vec::new(),
            claims: Vec::new(),
            volumes: standing.map(|(volumes, _)| volumes).unwrap_or_default(),
            behind,
            ended: ended(there).is_some(),
        });
    }
    let now = snapshot
        .now
        .map_or(submission.last, |now| now.max(submission.last));
    let mut engine = engine(&mut snapshot, &anew, now);
    for gang in waiting {
        engine.apply_gang(gang);
    }
    let mut quotas = Quotas::of(&snapshot, &anew);
    // A gang that may not start gives its place back, and others are tried in it.
    while decide(
        (&mut engine, &flavors, &snapshot),
        now,
        &mut quotas,
        &mut planned,
    ) {}
    bindings::bind(&mut planned, &mut snapshot);
    planned
}

/// The task groups that come once that stage is complete, each with its own.
fn later(job: &TrainingJob, stage: u32) -> Vec<(u32, String)> {
    let groups = job.spec.task_groups.iter().map(|group| group.name.clone());
    let stages = job.spec.stage_of_groups().into_iter().zip(groups);
    let mut later: Vec<_> = stages.filter(|(of, _)| *of > stage).collect();
    // Stable: of one stage as they stand in the spec.
    later.sort_by_key(|(of, _)| *of);
    later
}

/// Lets the engine decide once. True if a gang was given a place and has given it back.
fn decide(
    (engine, flavors, snapshot): (&mut Engine, &Flavors, &Snapshot),
    now: Timestamp,
    quotas: &mut Quotas,
    planned: &mut [Planned],
) -> bool {
    let mut given_back = false;
    for decision in engine.cycle(engine::time(now)) {
        let mut leave = Vec::new();
        let (id, place) = match decision {
            Decision::Place {
                gang, placement, ..
            } => {
                let place = given(engine, flavors, &gang, placement);
                (gang, Ok(place))
            }
            Decision::Preempt {
                gang,
                placement,
                victims,
            } => {
                leave = victims;
                let place = given(engine, flavors, &gang, placement);
                (gang, Ok(place))
            }
            Decision::Wait {
                gang: id,
                certificate,
            } => {
                let classes: Vec<_> = snapshot.device_classes.values().collect();
                let nodes = || snapshot.nodes.values().collect();
                let (reason, mut message) =
                    allocation::told(engine, &id, &certificate, &classes, nodes);
                let job = planned.iter().find(|p| p.key == engine::job_of(&id));
                let claim = job.and_then(|job| volumes::one_node(&job.volumes, reason));
                message.extend(claim.into_iter().flat_map(|why| ["; ".to_owned(), why]));
                let held = if certificate.detail.is_refusal() {
                    Held::refused
                } else {
                    Held::waits
                };
                (id, Err(held(reason, message)))
            }
            // Not for the jobs that are planned, or for one that waits and says why.
            Decision::Drain { .. } | Decision::Reserve { .. } => continue,
        };
        let key = engine::job_of(&id);
        let Some(job) = planned.iter_mut().find(|p| p.key == key) else {
            continue;
        };
        let starts = match (&place, &job.compiled) {
            (Ok(_), Some(compiled)) => quotas.start(&key, compiled),
            _ => Ok(()),
        };
        if starts.is_err() {
            engine.delete_gang(&id);
            given_back = true;
        }
        job.place = starts.and(place);
        job.victims = leave;
    }
    given_back
}

/// A place that the engine gives, with what its flavors bring.
fn given(engine: &Engine, flavors: &Flavors, gang: &GangId, placement: Placement) -> Place {
    Place {
        placement,
        groups: flavors.planned(&engine.flavors(gang).unwrap_or_default()),
        // Nobody asks a plan for its journal.
        limits: Vec::new(),
        requester: None,
        quotas: 0,
    }
}

/// The place that a job has and keeps: what it asks for has not changed since.
fn kept(key: &Key, compiled: &CompiledJob, snapshot: &Snapshot) -> Option<Place> {
    let group = snapshot.pod_groups.get(key)?;
    let plan = place_of(group).filter(|_| group.spec == compiled.pod_group().spec)?;
    Some(Place {
        placement: engine::placement(plan),
        groups: plan.groups.clone(),
        limits: plan.limits.clone(),
        requester: plan.requester.clone(),
        quotas: 0,
    })
}

/// How many jobs that are not planned wait in the same queue and would go first.
/// In a strict queue they are counted in.
fn before(
    job: &CompiledJob,
    submitted_at: Timestamp,
    snapshot: &Snapshot,
    planned: &BTreeSet<Key>,
) -> usize {
    if is_strict(snapshot, job.queue()) {
        return 0;
    }
    let goes_first = |(key, group): &(&Key, &PodGroup)| {
        let since = waits(snapshot, key, group).map(submitted);
        since.is_some_and(|since| {
            let (theirs, ours) = (group.spec.priority(), job.priority());
            theirs > ours || (theirs == ours && since <= Some(submitted_at))
        })
    };
    let others = snapshot
        .pod_groups
        .iter()
        .filter(|(key, group)| !planned.contains(*key) && group.spec.queue_name == job.queue());
    others.filter(goes_first).count()
}

/// When jobs are submitted: those that are there were, the others are after
/// them and each other.
struct Submission {
    last: Timestamp,
}

impl Submission {
    fn after(snapshot: &Snapshot) -> Self {
        let times = snapshot.jobs.values().filter_map(submitted);
        Self {
            last: times.max().unwrap_or(Timestamp::UNIX_EPOCH),
        }
    }

    fn of(&mut self, there: Option<&TrainingJob>) -> Timestamp {
        there.and_then(submitted).unwrap_or_else(|| {
            let next = self.last.saturating_add(SignedDuration::from_secs(1));
            self.last = next.unwrap_or(self.last);
            self.last
        })
    }
}

/// When a job began to wait.
pub(super) fn submitted(job: &TrainingJob) -> Option<Timestamp> {
    let queued = job.status.as_ref().and_then(|s| s.queued_time.as_ref());
    queued
        .or(job.metadata.creation_timestamp.as_ref())
        .map(|t| t.0)
}

/// What anti-affinity of the pods that are there keeps the job's pods out of.
fn kept_out(
    job: &CompiledJob,
    snapshot: &Snapshot,
    repulsions: &Repulsions,
) -> BTreeMap<String, BTreeSet<LabelDomain>> {
    let namespace = snapshot.namespace_labels(job.job().namespace());
    let label = |node: &str, key: &str| {
        let labels = snapshot.nodes.get(node)?.metadata.labels.as_ref()?;
        labels.get(key).cloned()
    };
    Neighbour::new(job, &namespace, &BTreeMap::new()).kept_out(repulsions, label)
}
