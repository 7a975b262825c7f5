//! A gang that stays on an unhealthy node for now.

use k8s_openapi::jiff::SignedDuration;
use trellis_api::Reason;

use super::Evaluation;
use crate::observed::Leave;

impl Evaluation<'_> {
    /// Records that the gang stays on this node for now.
    pub(super) fn stays(&mut self, node: &str, leave: Leave) {
        let (wait, reason, what) = match leave {
            Leave::Now => return,
            Leave::After(wait) => (wait, None, "others are left first"),
            Leave::PartialDisruption(wait) => (
                wait,
                Some(Reason::PartialDisruption),
                "so are so many of its zone that none is left: look at what declares them \
                 unhealthy",
            ),
        };
        let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
        if let Ok(at) = self.o.now.saturating_add(wait) {
            self.look_again(at);
        }
        let why = (self.o.unhealthy)(node).unwrap_or_default();
        self.staying = Some((reason, format!("node {node:?} is unhealthy: {why}; {what}")));
    }

    /// Adds the unhealthy node to the reason and message of a healthy gang.
    pub(super) fn staying(&self, reason: Reason, message: String) -> (Reason, String) {
        match &self.staying {
            None => (reason, message),
            Some((stronger, why)) => (stronger.unwrap_or(reason), format!("{message}; {why}")),
        }
    }
}
