//! Room is made: who asks whom for it (`asker`), who may be asked (`candidates`, and `card` for what is read
//! of each), whom it takes (`search`, over a `field`; `by_node` is another order of
//! asking, `domains` where a gang must be in one), what becomes of those who leave and of the one who follows them
//! (`nominate`), and who may not be asked yet (`protected`).

mod asker;
mod by_node;
mod candidates;
mod card;
mod domains;
mod field;
mod nominate;
mod protected;
mod search;

pub(super) use card::Card;

use super::ways::Way;
use crate::decision::Because;
use crate::placement::Runs;
use crate::state::GangIdx;

/// Who leaves, and what place a gang then has. Nothing of it has been done.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) way: Way,
    pub(super) groups: Vec<Runs>,
    pub(super) victims: Vec<Leaver>,
}

/// A gang that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaver {
    pub(super) gang: GangIdx,
    pub(super) because: Because,
    pub(super) lost_device_seconds: u64,
}
