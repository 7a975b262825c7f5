//! Claims whose class binds with the first consumer: which nodes will do for them (`reach`), and
//! what they are bound to once their pods have nodes (`choose`), as kube-scheduler's
//! VolumeBinding has it, for a gang at a time. Pure.

mod choose;
mod matching;
mod mounts;
mod reach;
mod storage;

pub use choose::{Step, Stock, Stuck, choose, no_volume};
pub use matching::is_given;
pub use mounts::{Mount, Mounts, mounts};
pub use reach::{provisioned, reach};
pub use storage::Storage;
