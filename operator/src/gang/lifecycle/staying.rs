//! A gang of which a node is unhealthy, and that does not leave it yet.

use k8s_openapi::jiff::SignedDuration;
use trellis_api::Reason;

use super::Evaluation;
use crate::gang::observed::Leave;

impl Evaluation<'_> {
    /// It stays on this node for now.
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

    /// What is said of a gang that is well otherwise.
    pub(super) fn staying(&self, reason: Reason, message: String) -> (Reason, String) {
        match &self.staying {
            None => (reason, message),
            Some((stronger, why)) => (stronger.unwrap_or(reason), format!("{message}; {why}")),
        }
    }
}
