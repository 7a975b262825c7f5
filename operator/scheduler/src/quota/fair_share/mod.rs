//! Fair share: the order of queues by their weighted use, now and in the past.

pub(super) mod decay;
pub(super) mod memory;
pub(super) mod remembered_usage;
pub(super) mod share;
pub(super) mod turn_order;
