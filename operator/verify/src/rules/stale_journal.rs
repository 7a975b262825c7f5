//! No leader writes a journal after its term, and the epoch of a journal never falls.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use trellis_api::{PodGroup, names};

use super::Judge;
use crate::cluster::Previous;
use crate::finding::{ObjectRef, Rule};
use crate::history::{ObjectVersion, Version};
use crate::verifier::{Findings, Step};

/// A write of a journal after the term of its leader.
pub(crate) struct StaleJournal;

impl Judge for StaleJournal {
    fn observe(&mut self, step: &Step<'_>, findings: &mut Findings) {
        let (ObjectVersion::Group(Version::Stored(now)), Previous::Group(Some(before))) =
            (&step.change.object, step.previous)
        else {
            return;
        };
        let Some(message) = find_stale_write(
            before,
            now,
            step.cluster.terms.epoch_at(step.change.revision),
        ) else {
            return;
        };
        let object = ObjectRef::new("PodGroup", &now.metadata);
        findings.add(step.finding(Rule::StaleJournal, object, message));
    }
}

fn find_stale_write(before: &PodGroup, now: &PodGroup, term: Option<i64>) -> Option<String> {
    if before.metadata.uid != now.metadata.uid || before.status == now.status {
        return None;
    }
    let epoch_before = before.status.as_ref().and_then(|s| s.epoch);
    let epoch = now.status.as_ref().and_then(|s| s.epoch)?;
    if let Some(before) = epoch_before
        && epoch < before
    {
        return Some(format!("its epoch fell from {before} to {epoch}"));
    }
    let term = term?;
    // A user's write of the status keeps the entry of the scheduler.
    let is_by_scheduler = scheduler_entry(before) != scheduler_entry(now);
    (is_by_scheduler && epoch < term).then(|| {
        format!("the leader of epoch {epoch} wrote it after the term of epoch {term} had begun")
    })
}

fn scheduler_entry(group: &PodGroup) -> Option<&ManagedFieldsEntry> {
    let entries = group.metadata.managed_fields.as_ref()?;
    entries.iter().find(|entry| {
        entry.manager.as_deref() == Some(names::SCHEDULER_MANAGER)
            && entry.subresource.as_deref() == Some("status")
    })
}
