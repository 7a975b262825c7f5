//! Colours: of what is well, what waits, and what somebody should look at.

use owo_colors::OwoColorize as _;
use trellis_api::job::JobPhase;

use super::sanitize::sanitize_lines;

/// What a word is to whoever reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing in particular.
    #[default]
    Plain,
    /// It is well.
    Good,
    /// It waits.
    Waiting,
    /// Somebody should look at it.
    Bad,
    /// Beside the point.
    Dim,
    /// The head of something.
    Head,
}

/// The text in its colour, and in none of its own: what it says is often another's. Whoever prints
/// it takes the colour away where no terminal reads it.
#[must_use]
pub fn paint(text: &str, tone: Tone) -> String {
    let text = sanitize_lines(text);
    match tone {
        Tone::Plain => text,
        Tone::Good => text.green().to_string(),
        Tone::Waiting => text.yellow().to_string(),
        Tone::Bad => text.red().to_string(),
        Tone::Dim => text.dimmed().to_string(),
        Tone::Head => text.bold().to_string(),
    }
}

/// What a job's phase is to whoever reads it.
#[must_use]
pub const fn phase_tone(phase: JobPhase) -> Tone {
    match phase {
        JobPhase::Running | JobPhase::Complete => Tone::Good,
        JobPhase::Waiting | JobPhase::Queued | JobPhase::Starting | JobPhase::Restarting => {
            Tone::Waiting
        }
        JobPhase::Refused | JobPhase::Blocked | JobPhase::Failed => Tone::Bad,
        JobPhase::Suspended | JobPhase::Unrecognized => Tone::Dim,
    }
}
