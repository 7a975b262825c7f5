//! Slices of an imported job, as Trellis accepts them.

use super::JobDraft;
use crate::field_log::FieldLog;
use crate::pod::GroupDraft;

impl JobDraft {
    /// Leaves out slices at a level that the group or the job requires. In Trellis such a job waits
    /// with `TopologyNotFound` (docs/topology.md). The other systems start it.
    pub(super) fn drop_redundant_slices(&mut self, log: &FieldLog) {
        let of_job = self.spec.topology.as_ref().and_then(|t| t.required.clone());
        for pods in &mut self.pods {
            if let Some(level) = pods.drop_slices_within(of_job.as_deref()) {
                let path = pods.origin("topology").unwrap_or_default();
                let reason = format!(
                    "requests slices at level {level:?}, but all pods must already be in one domain of this level, so the task group has no slices of this level"
                );
                log.note(path, None, reason, "leave it out");
            }
        }
    }

    /// Raises `minReplicas` of groups with slices to whole slices (`MIN_SLICES` in
    /// api/src/rules/slices.rs), and notes the field that it comes from.
    pub(super) fn raise_to_whole_slices(&mut self, log: &FieldLog) {
        for pods in &mut self.pods {
            let (minimum, replicas) = (pods.group.gang_size(), pods.group.replicas());
            let Some(size) = pods.group.slice_sizes().first().copied() else {
                continue;
            };
            let whole = minimum.checked_next_multiple_of(size).unwrap_or(replicas);
            if minimum >= replicas || whole == minimum {
                continue;
            }
            pods.group.min_replicas = (whole < replicas).then(|| i64::from(whole));
            note_whole_slices(pods, [minimum, size, whole], log);
        }
    }
}

/// Notes that slices of this size raise the minimum of a group. Without a field for the minimum,
/// the note is at the field for the slices.
fn note_whole_slices(pods: &GroupDraft, [minimum, size, whole]: [u32; 3], log: &FieldLog) {
    let replicas = pods.group.replicas();
    if let Some(path) = pods.origin("minReplicas") {
        let reason = format!(
            "asks for at least {minimum} of {replicas} pods; pods start in slices of {size}, so at least {whole} start"
        );
        log.note(path, None, reason, "use a multiple of the size of a slice");
    } else if let Some(path) = pods.origin("topology") {
        let reason = format!(
            "starts pods in slices of {size}, so at least {whole} of {replicas} pods start together"
        );
        let instead =
            "set minReplicas of the task group to the number of pods that must start together";
        log.note(path, None, reason, instead);
    }
}
