//! Shows a view of the cluster once or repeatedly.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use trellis_reads::ReadError;

use crate::exit::Exit;
use crate::output::{OutputFormat, RefreshLoop, print, warn};

/// The output of one read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandView {
    /// The text for standard output.
    pub text: String,
    /// Notes for standard error, if the text is for scripts.
    pub notes: Vec<String>,
}

impl From<String> for CommandView {
    fn from(text: String) -> Self {
        Self {
            text,
            notes: Vec::new(),
        }
    }
}

/// The view could not be read.
#[derive(Debug)]
pub struct ViewError {
    error: anyhow::Error,
    exit: Exit,
    is_denied: bool,
}

impl ViewError {
    /// An error with its cause.
    /// `is_denied`: the user lacks the right, so a retry does not help.
    #[must_use]
    pub const fn new(is_denied: bool, reason: anyhow::Error) -> Self {
        Self {
            error: reason,
            exit: Exit::Invalid,
            is_denied,
        }
    }

    /// The view is not available now.
    #[must_use]
    pub fn unavailable(reason: String) -> Self {
        Self::new(false, anyhow::Error::msg(reason))
    }

    /// The named object does not exist.
    #[must_use]
    pub fn not_found(reason: String) -> Self {
        Self {
            exit: Exit::Negative,
            ..Self::unavailable(reason)
        }
    }
}

impl From<ReadError> for ViewError {
    fn from(error: ReadError) -> Self {
        Self::new(error.is_denied(), error.message)
    }
}

impl From<anyhow::Error> for ViewError {
    fn from(reason: anyhow::Error) -> Self {
        Self::new(false, reason)
    }
}

/// Shows the view once, or at this interval until the reader closes the output.
/// After a first success, it retries an unreachable cluster. A missing right ends it.
///
/// # Errors
/// If the output cannot be written.
pub async fn show_view(
    format: Option<OutputFormat>,
    every: Option<Duration>,
    look: impl AsyncFn() -> Result<CommandView, ViewError>,
) -> anyhow::Result<Exit> {
    let mut rounds = RefreshLoop::new(format, every.unwrap_or_default());
    let mut printed_notes: Vec<String> = Vec::new();
    loop {
        let reads = match look().await {
            Ok(look) => {
                if printed_notes != look.notes {
                    look.notes
                        .iter()
                        .for_each(|note| warn(&format!("note: {note}")));
                    printed_notes = look.notes;
                }
                if every.is_none() {
                    print(&look.text)?;
                    return Ok(Exit::Done);
                }
                rounds.show(look.text)?
            }
            Err(unseen) if unseen.is_denied || !rounds.has_shown() => {
                warn(&format!("error: {:#}", unseen.error));
                return Ok(unseen.exit);
            }
            Err(unseen) => rounds.show_outage(&format!("{:#}", unseen.error), Timestamp::now())?,
        };
        if !reads {
            return Ok(Exit::Done);
        }
        tokio::time::sleep(rounds.next_pause()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Returns the exit status and the number of reads.
    /// The reads after the first fail.
    async fn run_views(
        first: Result<CommandView, ViewError>,
        then: fn(usize) -> ViewError,
    ) -> (Exit, usize) {
        let (looks, first) = (Cell::new(0_usize), Cell::new(Some(first)));
        let look = async || {
            looks.set(looks.get().saturating_add(1));
            first.take().unwrap_or_else(|| Err(then(looks.get())))
        };
        let every = Some(Duration::from_millis(1));
        let exit = show_view(Some(OutputFormat::Json), every, look)
            .await
            .unwrap();
        (exit, looks.get())
    }

    #[tokio::test]
    async fn refresh_retries_after_the_first_view_unless_access_is_denied() {
        let failure = |round| match round {
            4 => ViewError::new(true, anyhow::anyhow!("the right is missing")),
            3 => ViewError::not_found("no such node".to_owned()),
            _ => ViewError::unavailable("connection refused".to_owned()),
        };
        let first_view = Ok(CommandView::from(String::new()));
        assert_eq!(run_views(first_view, failure).await, (Exit::Invalid, 4));
        let unseen = || ViewError::unavailable("connection refused".to_owned());
        assert_eq!(run_views(Err(unseen()), failure).await, (Exit::Invalid, 1));
        let typo = ViewError::not_found("no such queue".to_owned());
        assert_eq!(run_views(Err(typo), failure).await, (Exit::Negative, 1));
    }
}
