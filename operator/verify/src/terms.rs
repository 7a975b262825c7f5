//! The terms of the leaders.

use k8s_openapi::api::coordination::v1::Lease;
use trellis_api::LeaderTerm;

/// The terms that a history has shown.
///
/// A replica that has just taken the Lease has read nothing of jobs. It writes its LeaderTerm first,
/// and may lose the Lease before that. The API servers compare writes with a LeaderTerm some
/// milliseconds after it is written. So a term begins with the first renewal of the Lease after the
/// leader has written its LeaderTerm.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    /// The epoch in the LeaderTerm.
    written: Option<i64>,
    /// The last term that has begun.
    begun: Option<BegunTerm>,
}

#[derive(Clone, Copy, Debug)]
struct BegunTerm {
    epoch: i64,
    /// Revision at which it began.
    revision: u64,
}

impl Terms {
    /// Takes in the LeaderTerm. None: it was deleted.
    pub(crate) fn observe_term(&mut self, term: Option<&LeaderTerm>) {
        self.written = term.map(|term| term.spec.epoch);
    }

    /// Takes in a write of the Lease at this revision.
    pub(crate) fn observe_lease(&mut self, lease: Option<&Lease>, revision: u64) {
        let epoch = lease.and_then(epoch_of);
        let is_later = |epoch: i64| self.begun.is_none_or(|term| term.epoch < epoch);
        if let Some(epoch) = epoch.filter(|_| epoch == self.written)
            && is_later(epoch)
        {
            self.begun = Some(BegunTerm { epoch, revision });
        }
    }

    /// Returns the epoch of the last term that had begun at this revision. None if that term began
    /// later, or if the history shows no beginning of a term.
    pub(crate) fn epoch_at(&self, revision: u64) -> Option<i64> {
        let term = self.begun.filter(|term| revision > term.revision);
        term.map(|term| term.epoch)
    }
}

/// Returns the epoch of the holder of a Lease: `leaseTransitions` + 1.
fn epoch_of(lease: &Lease) -> Option<i64> {
    let transitions = lease.spec.as_ref()?.lease_transitions.unwrap_or(0);
    Some(i64::from(transitions).saturating_add(1))
}
