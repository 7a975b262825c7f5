//! Colours by meaning: good, waiting, or in need of attention.

use owo_colors::OwoColorize as _;
use trellis_api::job::JobPhase;
use trellis_reads::pods::PodHealth;

use trellis_reads::text::sanitize_lines;

/// The meaning of a text, which selects its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Without a meaning.
    #[default]
    Plain,
    /// Good.
    Good,
    /// Waiting.
    Waiting,
    /// Needs attention.
    Bad,
    /// Less important.
    Dim,
    /// A heading.
    Head,
}

/// Colours the text and removes its own control sequences.
/// The text often comes from other systems. `print` removes the colours if the output is not a
/// terminal.
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

impl From<PodHealth> for Tone {
    fn from(health: PodHealth) -> Self {
        match health {
            PodHealth::Good => Self::Good,
            PodHealth::Waiting => Self::Waiting,
            PodHealth::Bad => Self::Bad,
        }
    }
}

/// Renders the heading of a section, after an empty line.
#[must_use]
pub fn render_heading(name: &str) -> String {
    format!("\n{}\n", paint(name, Tone::Head))
}

/// The tone of a job's phase.
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
