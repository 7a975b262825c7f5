//! Trellis does not write an object again and again while nothing about its gang changes.

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::pod_group::PodGroupStatus;
use trellis_api::{PodGroup, TrainingJob};

use super::Judge;
use crate::cluster::Previous;
use crate::field_managers::{is_of_status, operator_entries};
use crate::finding::{ObjectRef, Rule};
use crate::history::{ObjectName, ObjectVersion, Version};
use crate::verifier::{Findings, Step};

/// Trellis renews a message every ten seconds at most. The API server gives the time of a write in
/// whole seconds, and watches delay it, so two more writes are allowed.
const MAX_WRITES: usize = 8;
const MINUTE: SignedDuration = SignedDuration::from_secs(60);

/// Writes of the operator without a cause.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// Times of the writes of a job's status since something else about its gang changed.
    jobs: BTreeMap<ObjectName, VecDeque<Timestamp>>,
    /// The same for the journal of a gang.
    groups: BTreeMap<ObjectName, VecDeque<Timestamp>>,
}

impl Judge for Writes {
    fn observe(&mut self, step: &Step<'_>, findings: &mut Findings) {
        match (&step.change.object, step.previous) {
            (ObjectVersion::Job(Version::Stored(now)), Previous::Job(Some(before))) => {
                self.observe_job(step, before, now, findings);
            }
            (ObjectVersion::Group(Version::Stored(now)), Previous::Group(Some(before))) => {
                self.observe_group(step, before, now, findings);
            }
            _ => {
                for name in step.group_names() {
                    self.jobs.remove(&name);
                    self.groups.remove(&name);
                }
            }
        }
    }
}

impl Writes {
    fn observe_job(
        &mut self,
        step: &Step<'_>,
        before: &TrainingJob,
        now: &TrainingJob,
        findings: &mut Findings,
    ) {
        let name = ObjectName::from_metadata(&now.metadata);
        let phase = |job: &TrainingJob| {
            let status = job.status.as_ref();
            status.map(|status| (status.phase, status.attempt))
        };
        if phase(before) != phase(now) {
            self.groups.remove(&name);
        }
        let is_edited = before.spec != now.spec
            || before.metadata.annotations != now.metadata.annotations
            || before.metadata.labels != now.metadata.labels
            || before.metadata.deletion_timestamp != now.metadata.deletion_timestamp;
        if is_edited || before.metadata.uid != now.metadata.uid {
            self.jobs.remove(&name);
            self.groups.remove(&name);
            return;
        }
        // The pods changed before. A busy operator counts thousands of them late, in several writes.
        let counts = |job: &TrainingJob| job.status.as_ref().map(|s| (s.ready.clone(), s.pods));
        let is_count = counts(before) != counts(now);
        let is_write = is_status_write(&before.metadata, &now.metadata);
        if is_write && !is_count && before.status != now.status {
            let writes = self.jobs.entry(name).or_default();
            if let Some(count) = add_write(writes, step.change.time) {
                let object = ObjectRef::new("TrainingJob", &now.metadata);
                findings.add(step.finding(Rule::Writes, object, describe(count, "status")));
            }
        }
    }

    fn observe_group(
        &mut self,
        step: &Step<'_>,
        before: &PodGroup,
        now: &PodGroup,
        findings: &mut Findings,
    ) {
        let name = ObjectName::from_metadata(&now.metadata);
        let place = |status: &PodGroupStatus| {
            let plan = status.plan.as_ref().map(|plan| plan.hash.clone());
            (status.phase, plan)
        };
        if before.status.as_ref().map(place) != now.status.as_ref().map(place) {
            self.jobs.remove(&name);
        }
        if before.spec != now.spec || before.metadata.uid != now.metadata.uid {
            self.jobs.remove(&name);
            self.groups.remove(&name);
            return;
        }
        if is_status_write(&before.metadata, &now.metadata) && before.status != now.status {
            let writes = self.groups.entry(name).or_default();
            if let Some(count) = add_write(writes, step.change.time) {
                let object = ObjectRef::new("PodGroup", &now.metadata);
                findings.add(step.finding(Rule::Writes, object, describe(count, "journal")));
            }
        }
    }
}

/// Returns true if the operator has written the status. Two writes in one second look like one.
fn is_status_write(before: &ObjectMeta, now: &ObjectMeta) -> bool {
    fn entries(metadata: &ObjectMeta) -> Vec<&ManagedFieldsEntry> {
        let entries = operator_entries(metadata);
        entries.filter(|entry| is_of_status(entry)).collect()
    }
    entries(before) != entries(now)
}

/// Adds a write. Returns the number of writes in the last minute if they are too many.
fn add_write(writes: &mut VecDeque<Timestamp>, now: Timestamp) -> Option<usize> {
    writes.push_back(now);
    while writes
        .front()
        .is_some_and(|first| now.duration_since(*first) >= MINUTE)
    {
        writes.pop_front();
    }
    (writes.len() > MAX_WRITES).then_some(writes.len())
}

fn describe(count: usize, part: &str) -> String {
    format!(
        "Trellis wrote its {part} {count} times within a minute, and nothing else about its gang changed"
    )
}
