//! The counters in a job's status never fall or vanish, and an end is final.

use trellis_api::TrainingJob;
use trellis_api::job::TrainingJobStatus;

use super::Judge;
use crate::cluster::Previous;
use crate::finding::{ObjectRef, Rule};
use crate::history::{ObjectVersion, Version};
use crate::verifier::{Findings, Step};

/// A status that falls back.
pub(crate) struct Backwards;

impl Judge for Backwards {
    fn observe(&mut self, step: &Step<'_>, findings: &mut Findings) {
        let (ObjectVersion::Job(Version::Stored(now)), Previous::Job(Some(before))) =
            (&step.change.object, step.previous)
        else {
            return;
        };
        let Some(message) = find_fall(before, now) else {
            return;
        };
        let object = ObjectRef::new("TrainingJob", &now.metadata);
        findings.add(step.finding(Rule::Backwards, object, message));
    }
}

type Counter = (&'static str, fn(&TrainingJobStatus) -> Option<i64>);

const COUNTERS: [Counter; 4] = [
    ("observedGeneration", |status| status.observed_generation),
    ("attempt", |status| status.attempt),
    ("restarts", |status| status.restarts),
    ("disruptions", |status| status.disruptions),
];

fn find_fall(before: &TrainingJob, now: &TrainingJob) -> Option<String> {
    if before.metadata.uid != now.metadata.uid {
        return None;
    }
    let before = before.status.as_ref()?;
    let now = now.status.as_ref();
    for (name, read) in COUNTERS {
        match (read(before), now.and_then(read)) {
            (Some(before), None) => return Some(format!("{name} vanished, and was {before}")),
            (Some(before), Some(now)) if now < before => {
                return Some(format!("{name} fell from {before} to {now}"));
            }
            _ => {}
        }
    }
    let end = before.phase.filter(|phase| phase.is_terminal())?;
    let phase = now.and_then(|now| now.phase);
    let phase_name = phase.map_or("none", |phase| phase.as_str());
    (phase != Some(end)).then(|| format!("its phase went from {} to {phase_name}", end.as_str()))
}
