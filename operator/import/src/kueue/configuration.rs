//! The configuration of Kueue's manager, for fair sharing.
//!
//! Source of the fields: kubernetes-sigs/kueue, `apis/config/v1beta1` and `v1beta2`.

use serde_json::Value;
use trellis_api::queue::{FairShareVictims, QueuePreemption, ReclaimWithinCohort};

use crate::context::ImportContext;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;

/// The strategy of Kueue that Trellis has as its rule.
const STRATEGY: &str = "LessThanInitialShare";

/// Returns true if the configuration enables fair sharing. In `v1beta2`, the field itself does.
pub(crate) fn enables_fair_sharing(configuration: &Value) -> bool {
    let Some(sharing) = configuration.get("fairSharing").filter(|s| s.is_object()) else {
        return false;
    };
    match sharing.get("enable") {
        Some(enable) => enable.as_bool() == Some(true),
        None => configuration.get("apiVersion").and_then(Value::as_str) == Some(VERSION_2),
    }
}

const VERSION_2: &str = "config.kueue.x-k8s.io/v1beta2";

/// Reads the configuration. It becomes no object: the queues of the same input take over its fair
/// sharing.
pub(crate) fn convert_configuration(root: &Fields<'_>, _: &ImportContext) -> Vec<ImportedObject> {
    if let Some(sharing) = root.object("fairSharing") {
        sharing.boolean("enable");
        let strategies = sharing.texts("preemptionStrategies");
        if !strategies.is_empty() && !strategies.iter().any(|strategy| strategy == STRATEGY) {
            sharing.note_at(
                "preemptionStrategies",
                "lets a queue take less than Trellis does: in Trellis, the share with the new job must be smaller than the other queue's share before the preemption (LessThanInitialShare)",
                "leave preemption.fairShare out where this takes too much",
            );
        }
    }
    // Settings of Kueue's own manager.
    let keys = root.keys();
    let others = keys.iter().filter(|key| *key != "fairSharing");
    root.ignore(&others.map(String::as_str).collect::<Vec<_>>());
    Vec::new()
}

/// Adds fair share to the preemption of a queue that reclaims, as Kueue does with fair sharing. Then
/// Kueue does not use `borrowWithinCohort`.
pub(crate) fn add_fair_share(preemption: &mut QueuePreemption) {
    preemption.borrow_within_cohort = None;
    preemption.fair_share = match preemption.reclaim_within_cohort.unwrap_or_default() {
        ReclaimWithinCohort::Never => None,
        ReclaimWithinCohort::LowerPriority => Some(FairShareVictims::LowerPriority),
        ReclaimWithinCohort::Any => Some(FairShareVictims::Any),
    };
}
