//! Leader election by a Lease: at most one operator writes, and it knows when it must stop.
//!
//! A lease is no fence: a process that is frozen between its check and its write can still write
//! late. Such a write is rare because every write calls [`Leadership::check`] first. The API server
//! refuses it: a new leader first writes its LeaderTerm, and an admission policy compares each write
//! with it. The journal also carries an epoch that never decreases, which holds without the policy.
//!
//! The epoch comes from the Lease, and a Lease can be deleted. Journals cannot be written with a
//! lower epoch than theirs, so a leader that finds a higher one than its own raises its epoch above
//! it (`Leadership::raise_above`).
//!
//! A candidate measures the age of another holder's lease by its own monotonic clock, and never
//! compares the clocks of two machines (the rule of client-go's leaderelection).
//!
//! `lease` acquires, renews and releases the Lease. `term` writes the LeaderTerm. Writes check
//! `leadership`. `leader_label` lets a Service find the leader's pod.

mod leader_label;
mod leadership;
mod lease;
mod term;

use k8s_openapi::api::coordination::v1::Lease;

pub use leader_label::LeaderLabel;
pub use leadership::{Leadership, REQUEST_TIMEOUT};
pub use lease::{Candidate, LEASE_NAME};
pub use term::TermWriter;

use trellis_gang::journal::epoch::Epoch;

/// This process no longer leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process no longer holds the lease")]
pub struct NotLeading;

/// Returns the epoch of a Lease: the first leader's is 1.
fn epoch_of(transitions: i32) -> Epoch {
    Epoch(i64::from(transitions).saturating_add(1))
}

/// Returns the transitions of a Lease with this epoch. None: the Lease cannot hold it.
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
    fn epoch_is_the_lease_transitions_plus_one() {
        assert_eq!(epoch_of(0), Epoch(1));
        assert_eq!(transitions_of(Epoch(1)), Some(0));
        assert_eq!(transitions_of(epoch_of(41)), Some(41));
        assert_eq!(transitions_of(Epoch(i64::MAX)), None);
        assert_eq!(transitions_of(Epoch(i64::MIN)), None);
    }
}
