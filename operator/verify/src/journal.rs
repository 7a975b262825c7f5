//! Reads the plan and the victims in a journal.

use trellis_api::PodGroup;
use trellis_api::pod_group::{NominatedVictim, Plan, PodGroupPhase};

use crate::history::ObjectName;

/// Returns the plan of a gang that holds its place.
pub(crate) fn committed_plan(group: &PodGroup) -> Option<&Plan> {
    let journal = group.status.as_ref()?;
    let holds = matches!(
        journal.phase?,
        PodGroupPhase::Committing | PodGroupPhase::Placed | PodGroupPhase::Unwinding
    );
    journal.plan.as_ref().filter(|_| holds)
}

/// Returns the name of the victim's PodGroup. The victim may be a single pod; then no PodGroup has
/// the name.
pub(crate) fn victim_group(victim: &NominatedVictim) -> ObjectName {
    ObjectName {
        namespace: victim.namespace.clone(),
        name: victim.name.trim_start_matches("PodGroup/").to_owned(),
    }
}
