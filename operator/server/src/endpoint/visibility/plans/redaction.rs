//! Reduces a planned job to what the caller may see, by the rules of explanations. Pure.

use std::collections::BTreeSet;

use trellis_api::visibility::{JobRef, PlannedJob};

use super::super::explanations::{self, Priorities, VisibleScope};

/// Returns the jobs that the outcome names, besides the planned job.
pub(super) fn named_jobs(planned: &PlannedJob) -> impl Iterator<Item = &JobRef> {
    let explained = planned.explanation.iter();
    let explained = explained.flat_map(explanations::named_jobs);
    let victims = planned.preempts.iter().map(|victim| &victim.job);
    victims.chain(explained)
}

/// Returns the other namespaces whose jobs the outcome names.
pub(super) fn foreign_namespaces(planned: &PlannedJob) -> BTreeSet<String> {
    let own = planned.job.namespace.as_str();
    let others = named_jobs(planned).filter(|job| job.namespace != own);
    others.map(|job| job.namespace.clone()).collect()
}

/// Removes what the caller may not see.
pub(super) fn redact(planned: &mut PlannedJob, priorities: &Priorities, sees: &VisibleScope) {
    let own = planned.job.namespace.clone();
    planned.preempts_others =
        explanations::hide_victims(&mut planned.preempts, &own, priorities, sees);
    if !sees.nodes {
        for group in &mut planned.task_groups {
            group.nodes.clear();
        }
        for claim in &mut planned.claims {
            claim.node = None;
        }
    }
    if let Some(explanation) = &mut planned.explanation {
        explanations::redact(explanation, priorities, sees);
    }
}
