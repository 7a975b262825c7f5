//! The lease: at most one operator writes, and it knows when it may no longer.
//!
//! A lease is no fence: a process that is frozen between its check and its
//! write can still write late. What makes such a write harmless is the epoch,
//! which the journal bears and the API server compares; what makes it rare is
//! that every write asks [`Leadership::check`] first.
//!
//! The epoch comes from the Lease, and a Lease can be deleted. Journals cannot
//! be written by a lower epoch than theirs, so a leader that finds a higher one
//! than its own raises its term above it ([`Leadership::raise_above`]).
//!
//! The age of another's lease is what we have observed by our own monotonic
//! clock, never a difference of two machines' clocks (the rule of client-go's
//! leaderelection).
//!
//! Where to look: `candidate` takes, holds and gives back the Lease; `leadership`
//! is what a writer asks, `label` tells a Service which pod leads.

mod candidate;
mod label;
mod leadership;

use k8s_openapi::api::coordination::v1::Lease;

pub use candidate::{Candidate, LEASE_NAME};
pub use label::Label;
pub use leadership::{Leadership, REQUEST_TIMEOUT};

use crate::gang::epoch::Epoch;

/// This process no longer leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process no longer holds the lease")]
pub struct NotLeading;

/// The epoch of a Lease: the first leader's is 1.
fn epoch_of(transitions: i32) -> Epoch {
    Epoch(i64::from(transitions).saturating_add(1))
}

/// The transitions that a Lease must bear for this epoch. None: it cannot.
fn transitions_of(epoch: Epoch) -> Option<i32> {
    i32::try_from(epoch.0.checked_sub(1)?).ok()
}

fn transitions(lease: &Lease) -> i32 {
    lease
        .spec
        .as_ref()
        .and_then(|s| s.lease_transitions)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_the_transitions_of_the_lease_and_one() {
        assert_eq!(epoch_of(0), Epoch(1));
        assert_eq!(transitions_of(Epoch(1)), Some(0));
        assert_eq!(transitions_of(epoch_of(41)), Some(41));
        assert_eq!(transitions_of(Epoch(i64::MAX)), None);
        assert_eq!(transitions_of(Epoch(i64::MIN)), None);
    }
}
