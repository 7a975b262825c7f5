//! Something is looked at, once or again and again.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::exit::Exit;
use crate::output::{Format, Rounds, print, warn};

/// What a look shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// What goes to standard output.
    pub text: String,
    /// What is to be known of it, where the text is for scripts.
    pub notes: Vec<String>,
}

impl From<String> for Look {
    fn from(text: String) -> Self {
        Self {
            text,
            notes: Vec::new(),
        }
    }
}

/// That nothing was seen.
#[derive(Debug)]
pub struct Unseen {
    why: anyhow::Error,
    exit: Exit,
    is_denied: bool,
}

impl Unseen {
    /// Why. `is_denied`: the right is missing, which no new try would change.
    #[must_use]
    pub const fn new(is_denied: bool, why: anyhow::Error) -> Self {
        Self {
            why,
            exit: Exit::Invalid,
            is_denied,
        }
    }

    /// The right is missing.
    #[must_use]
    pub fn denied(why: String) -> Self {
        Self::new(true, anyhow::Error::msg(why))
    }

    /// It is not to be had now.
    #[must_use]
    pub fn now(why: String) -> Self {
        Self::new(false, anyhow::Error::msg(why))
    }

    /// There is nothing of that name.
    #[must_use]
    pub fn not_there(why: String) -> Self {
        Self {
            exit: Exit::Not,
            ..Self::now(why)
        }
    }
}

impl From<anyhow::Error> for Unseen {
    fn from(why: anyhow::Error) -> Self {
        Self::new(false, why)
    }
}

/// Looks once, or at this interval until nobody reads any more. Once something was seen, what
/// cannot be reached is waited for; a missing right ends it.
///
/// # Errors
/// If nothing can be written.
pub async fn rounds(
    format: Option<Format>,
    every: Option<Duration>,
    look: impl AsyncFn() -> Result<Look, Unseen>,
) -> anyhow::Result<Exit> {
    let mut rounds = Rounds::new(format, every.unwrap_or_default());
    let mut told: Vec<String> = Vec::new();
    loop {
        let reads = match look().await {
            Ok(look) => {
                if told != look.notes {
                    look.notes
                        .iter()
                        .for_each(|note| warn(&format!("note: {note}")));
                    told = look.notes;
                }
                if every.is_none() {
                    print(&look.text)?;
                    return Ok(Exit::Done);
                }
                rounds.seen(look.text)?
            }
            Err(unseen) if unseen.is_denied || !rounds.has_begun() => {
                warn(&format!("error: {:#}", unseen.why));
                return Ok(unseen.exit);
            }
            Err(unseen) => rounds.lost(&format!("{:#}", unseen.why), Timestamp::now())?,
        };
        if !reads {
            return Ok(Exit::Done);
        }
        tokio::time::sleep(rounds.pause()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// What it comes to, and after how many looks, where those after the first see nothing.
    async fn ends(first: Result<Look, Unseen>, then: fn(usize) -> Unseen) -> (Exit, usize) {
        let (looks, first) = (Cell::new(0_usize), Cell::new(Some(first)));
        let look = async || {
            looks.set(looks.get().saturating_add(1));
            first.take().unwrap_or_else(|| Err(then(looks.get())))
        };
        let every = Some(Duration::from_millis(1));
        let exit = rounds(Some(Format::Json), every, look).await.unwrap();
        (exit, looks.get())
    }

    #[tokio::test]
    async fn what_was_seen_once_is_waited_for_unless_the_right_is_gone() {
        let gone = |round| match round {
            4 => Unseen::denied("the right is missing".to_owned()),
            3 => Unseen::not_there("no such node".to_owned()),
            _ => Unseen::now("connection refused".to_owned()),
        };
        let seen = Ok(Look::from(String::new()));
        assert_eq!(ends(seen, gone).await, (Exit::Invalid, 4));
        let unseen = || Unseen::now("connection refused".to_owned());
        assert_eq!(ends(Err(unseen()), gone).await, (Exit::Invalid, 1));
        let typo = Unseen::not_there("no such queue".to_owned());
        assert_eq!(ends(Err(typo), gone).await, (Exit::Not, 1));
    }
}
