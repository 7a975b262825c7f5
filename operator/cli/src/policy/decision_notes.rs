//! Notes about decisions that users might not expect.

use std::collections::BTreeSet;

use trellis_policies::cedar::{ObjectKey, PolicyObject, starter_set};

use super::decisions::{DecidedJob, DecisionOutcome};

/// The action that is requested only in clusters with flavors.
const USE_FLAVOR: &str = "UseFlavor";

/// Prefix of policies for certain flavors, not for all.
const FLAVOR_PREFIX: &str = "Trellis::ResourceFlavor::";

/// Returns notes about jobs that these policies have decided on.
pub(super) fn note_jobs<'a>(
    policies: impl IntoIterator<Item = &'a PolicyObject>,
    jobs: &[DecidedJob],
) -> Vec<String> {
    let starter: BTreeSet<ObjectKey> = starter_set::starter_objects()
        .into_iter()
        .map(|o| o.key)
        .collect();
    let (of_starter, own): (Vec<_>, Vec<_>) = policies
        .into_iter()
        .partition(|object| starter.contains(&object.key));
    let rows = || jobs.iter().flat_map(|job| &job.demands);
    let unpermitted = rows().any(|row| row.decision == DecisionOutcome::NotPermitted);
    let without = unpermitted && of_starter.is_empty() && !own.is_empty();
    let without = without.then(|| {
        "these policies do not include the starter set, so its permits are missing: if the cluster \
         has the starter set, name its file too (charts/trellis/files/policies.yaml)"
            .to_owned()
    });
    let about_flavors = own
        .iter()
        .any(|object| object.cedar.contains(FLAVOR_PREFIX));
    let unasked = jobs.iter().filter(|job| {
        let uses_flavor = job.demands.iter().any(|row| row.action == USE_FLAVOR);
        about_flavors && !uses_flavor && !job.demands.is_empty()
    });
    let unasked = unasked.map(|job| {
        format!(
            "{USE_FLAVOR} is not evaluated for {}: it names no flavors, and its queue has none; \
             policies about flavors have no effect",
            job.job
        )
    });
    without.into_iter().chain(unasked).collect()
}

/// Returns notes about policies that exist only in the old set.
/// They count as deleted.
pub(super) fn note_removed_policies(old: &[PolicyObject], new: &[PolicyObject]) -> Vec<String> {
    let keys: BTreeSet<&ObjectKey> = new.iter().map(|object| &object.key).collect();
    let removed = old.iter().filter(|object| !keys.contains(&object.key));
    removed
        .map(|object| {
            let (kind, key) = (object.key.kind(), &object.key);
            format!(
                "{kind} \"{key}\" is in OLD and not in NEW, so it counts as deleted: \
             to keep it, add its file to NEW"
            )
        })
        .collect()
}
