//! The reason why a limit is closed.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// The reason why a gang may not draw on a limit for some time, even if the limit has room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitClosure {
    /// The reason, as it appears in the message of a pending gang: `all 100 GPU hours are used`.
    pub why: String,
    /// The end of the closure. None: unknown.
    pub until: Option<Time>,
}
