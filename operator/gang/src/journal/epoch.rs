//! [`Epoch`]: the term of a leader.

/// The term of a leader. The epoch of each new leader is higher than all earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub i64);
