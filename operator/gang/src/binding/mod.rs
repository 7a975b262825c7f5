//! Claims whose class binds with the first consumer: which nodes can run their pods (`reach`), and
//! which volumes they are bound to once their pods have nodes (`choose`). The rules are those of
//! kube-scheduler's VolumeBinding, applied to a whole gang. Pure.

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
