//! Why a limit is closed.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Why a gang may not draw on a limit for a while, whatever is used of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitClosure {
    /// The reason, as the message of a gang that waits has it: `all 100 GPU hours are burnt`.
    pub why: String,
    /// When it ends, if that is known.
    pub until: Option<Time>,
}
