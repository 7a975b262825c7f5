//! Why something could not be read.

use std::fmt;

/// A read failed. The message names the cause and the fix.
#[derive(Debug)]
pub struct ReadError {
    /// The kind of the failure.
    pub failure: ReadFailure,
    /// The message for the user.
    pub message: anyhow::Error,
}

/// The kind of a failed read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFailure {
    /// The cluster does not know the user.
    Unauthorized,
    /// The user lacks a right. A retry does not help.
    Denied,
    /// The scheduler does not answer now, or is not served.
    Unavailable,
    /// The cluster cannot be reached, or does not understand the request.
    Unreachable,
    /// The cluster refuses the request. The message names the field, the rule and the fix.
    Invalid,
    /// Another object answers this read. The message names it.
    Elsewhere,
}

impl ReadError {
    /// The cluster does not know the user.
    #[must_use]
    pub fn unauthorized(message: String) -> Self {
        Self {
            failure: ReadFailure::Unauthorized,
            message: anyhow::Error::msg(message),
        }
    }

    /// The user lacks a right.
    #[must_use]
    pub fn denied(message: String) -> Self {
        Self {
            failure: ReadFailure::Denied,
            message: anyhow::Error::msg(message),
        }
    }

    /// Another object answers this read.
    #[must_use]
    pub fn elsewhere(message: String) -> Self {
        Self {
            failure: ReadFailure::Elsewhere,
            message: anyhow::Error::msg(message),
        }
    }

    /// The scheduler does not answer now.
    #[must_use]
    pub fn unavailable(message: String) -> Self {
        Self {
            failure: ReadFailure::Unavailable,
            message: anyhow::Error::msg(message),
        }
    }

    /// Returns true if the user lacks the right. A retry does not help then.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(
            self.failure,
            ReadFailure::Denied | ReadFailure::Unauthorized
        )
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#}", self.message)
    }
}

impl std::error::Error for ReadError {}
