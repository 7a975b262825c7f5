//! What becomes of each job: the steps of the operator, without its writes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::{Reason, TrainingJob, ValidatedJob};
use trellis_compiler::{CompiledJob, Settings};
use trellis_policies::AuthorizedJob;
use trellis_scheduler::{Decision, LabelDomain, Placement};

use super::engine::engine;
use super::snapshot::Snapshot;
use crate::controller::build::Around;
use crate::controller::{claims, lookup};
use crate::key::Key;
use crate::scheduling::allocation;
use crate::scheduling::gang::{self, Ticket};
use crate::scheduling::neighbours::Neighbour;
use crate::scheduling::volumes::Volumes;
use crate::watch::Repulsions;

/// Why a job would not run: the words that its conditions would bear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) reason: Reason,
    pub(super) message: String,
}

impl From<lookup::Missing> for Held {
    fn from(missing: lookup::Missing) -> Self {
        Self {
            reason: missing.reason,
            message: missing.message,
        }
    }
}

/// A job, what it becomes, and where it goes.
pub(super) struct Planned {
    /// Its name.
    pub(super) key: Key,
    /// What it would be compiled into, if all that it names is there.
    pub(super) compiled: Option<CompiledJob>,
    /// The attempt that the pods would be of.
    pub(super) attempt: i64,
    /// Where its pods would go, or why it would not run.
    pub(super) place: Result<Placement, Held>,
}

impl Planned {
    /// True if it would run now.
    pub(super) fn would_run(&self) -> bool {
        self.place.is_ok()
    }
}

/// Plans all jobs together: those that would go first take their room first.
pub(super) fn plan(jobs: Vec<TrainingJob>, mut snapshot: Snapshot) -> Vec<Planned> {
    let keys: BTreeSet<Key> = jobs.iter().map(|j| Key::of(&j.metadata)).collect();
    let mut engine = engine(&mut snapshot, &keys);
    let repulsions = Repulsions::default();
    for (key, pod) in &snapshot.pods {
        repulsions.apply(key, pod);
    }
    let mut submission = Submission::after(&snapshot);
    let mut planned = Vec::with_capacity(jobs.len());
    for job in jobs {
        let key = Key::of(&job.metadata);
        let there = snapshot.jobs.get(&key);
        let submitted = submission.of(there);
        let attempt = there.and_then(|j| j.status.as_ref()?.attempt).unwrap_or(1);
        let (compiled, standing) = stand(job, there, &snapshot);
        if let (Some(compiled), Ok(volumes)) = (&compiled, &standing) {
            let ticket = Ticket {
                submitted,
                volumes: volumes.clone(),
                kept_out: kept_out(compiled, &snapshot, &repulsions),
                ..Ticket::default()
            };
            engine.apply_gang(gang::gang(compiled, &ticket, &BTreeMap::new()));
        }
        let not_decided = Held {
            reason: Reason::Queued,
            message: "not looked at".to_owned(),
        };
        planned.push(Planned {
            key,
            compiled,
            attempt,
            place: Err(standing.err().unwrap_or(not_decided)),
        });
    }
    for decision in engine.cycle(gang::time(submission.last)) {
        let (id, place) = match decision {
            Decision::Place {
                gang, placement, ..
            } => (gang, Ok(placement)),
            Decision::Wait { gang, certificate } => {
                let classes: Vec<_> = snapshot.device_classes.values().collect();
                let nodes = || snapshot.nodes.values().collect();
                let (reason, message) = allocation::told(&certificate, &classes, nodes);
                (gang, Err(Held { reason, message }))
            }
            // No queue of the API lets its gangs preempt yet.
            Decision::Preempt { .. } | Decision::Drain { .. } => continue,
        };
        let key = gang::job_of(&id);
        if let Some(job) = planned.iter_mut().find(|p| p.key == key) {
            job.place = place;
        }
    }
    planned
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

fn submitted(job: &TrainingJob) -> Option<Timestamp> {
    let queued = job.status.as_ref().and_then(|s| s.queued_time.as_ref());
    queued
        .or(job.metadata.creation_timestamp.as_ref())
        .map(|t| t.0)
}

/// What the job comes to before it is placed: compiled as far as can be, and
/// whether it may be placed.
fn stand(
    mut job: TrainingJob,
    there: Option<&TrainingJob>,
    snapshot: &Snapshot,
) -> (Option<CompiledJob>, Result<Volumes, Held>) {
    // What is written is a wish: who it is, only the cluster knows.
    job.metadata.uid = there.and_then(|j| j.metadata.uid.clone());
    job.metadata.generation = there.and_then(|j| j.metadata.generation);
    let job = match ValidatedJob::try_from(job) {
        Ok(job) => job,
        Err(violations) => {
            let held = Held {
                reason: Reason::InvalidSpec,
                message: violations.to_string(),
            };
            return (None, Err(held));
        }
    };
    // In the order of the lifecycle: what has ended is not judged again, and
    // what is suspended is not asked whether it could run.
    let suspended = job.spec().is_suspended().then(|| Held {
        reason: Reason::Suspended,
        message: "spec.suspend is true".to_owned(),
    });
    let (compiled, standing) = authorized(job, snapshot);
    let held = ended(there).or(suspended).map_or(standing, Err);
    (compiled, held)
}

fn authorized(
    job: ValidatedJob,
    snapshot: &Snapshot,
) -> (Option<CompiledJob>, Result<Volumes, Held>) {
    let namespace = job.namespace().to_owned();
    let labels = snapshot.namespace_labels(&namespace);
    let none = BTreeMap::new();
    let queues = snapshot.queues.as_ref().unwrap_or(&none);
    let found = lookup::queue(
        job.spec(),
        &labels,
        |name| queues.get(name),
        || queues.values().collect(),
    );
    let queue = match found {
        Ok(queue) => queue,
        Err(missing) => return (None, Err(missing.into())),
    };
    let classes = &snapshot.priority_classes;
    let found = lookup::priority(
        job.spec(),
        |name| classes.get(name),
        || classes.values().collect(),
    );
    let (class, priority) = match found {
        Ok(found) => found,
        Err(missing) => return (None, Err(missing.into())),
    };
    let around = Around {
        queue,
        class: class.as_deref(),
        priority,
        namespace_labels: &labels,
        services: &snapshot.services_of(&namespace),
    };
    let compiled = match around.compile(job, &Settings::default()) {
        Ok(compiled) => compiled,
        Err(missing) => return (None, Err(missing.into())),
    };
    let standing = around
        .authorize(compiled.clone())
        .map_err(|denial| Held {
            reason: Reason::PolicyDenied,
            message: denial.to_string(),
        })
        .and_then(|job| volumes(&job, snapshot));
    (Some(compiled), standing)
}

/// Where the volumes of the job's claims are. Where nobody has said which claims
/// there are, every node reaches them.
fn volumes(job: &AuthorizedJob, snapshot: &Snapshot) -> Result<Volumes, Held> {
    let Some(all) = &snapshot.claims else {
        return Ok(Volumes::new());
    };
    let job = job.compiled().job();
    let found = claims::find(
        job.spec(),
        |name| all.get(&Key::new(job.namespace(), name)),
        |name| snapshot.volumes.get(name),
        |name| snapshot.storage_classes.get(name),
    );
    Ok(found?)
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

/// A job that has ended does not run again, whatever is written.
fn ended(there: Option<&TrainingJob>) -> Option<Held> {
    let status = there?.status.as_ref()?;
    status
        .phase
        .filter(|_| status.has_ended())
        .map(|phase| Held {
            reason: status.reason.unwrap_or(Reason::Complete),
            message: format!(
                "the job of this name has ended, {phase:?}: delete it, or rename this one, to run again"
            ),
        })
}
