//! A gang that stays on an unhealthy node for now.

use k8s_openapi::jiff::SignedDuration;
use trellis_api::Reason;

use crate::lifecycle::Evaluation;
use crate::observed::EvictionDecision;

impl Evaluation<'_> {
    /// Records that the gang stays on this node for now.
    pub(in crate::lifecycle) fn record_unhealthy_node(
        &mut self,
        node: &str,
        leave: EvictionDecision,
    ) {
        let (wait, reason, what) = match leave {
            EvictionDecision::Now => return,
            EvictionDecision::After(wait) => (wait, None, "others are left first"),
            EvictionDecision::PartialDisruption(wait) => (
                wait,
                Some(Reason::PartialDisruption),
                "so are so many of its zone that none is left: look at what declares them \
                 unhealthy",
            ),
        };
        let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
        if let Ok(at) = self.observed.now.saturating_add(wait) {
            self.schedule_check(at);
        }
        let why = (self.observed.unhealthy_reason)(node).unwrap_or_default();
        self.unhealthy_node = Some((reason, format!("node {node:?} is unhealthy: {why}; {what}")));
    }

    /// Adds the unhealthy node to the reason and message of a healthy gang.
    pub(in crate::lifecycle) fn add_unhealthy_node(
        &self,
        reason: Reason,
        message: String,
    ) -> (Reason, String) {
        match &self.unhealthy_node {
            None => (reason, message),
            Some((stronger, why)) => (stronger.unwrap_or(reason), format!("{message}; {why}")),
        }
    }
}
