//! Refreshes a view repeatedly.
//! While the cluster is unreachable, the loop shows the reason, its start and the last view.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::{OutputFormat, Screen, Tone, format_age, sanitize, warn, width, wrap_text};

/// Number of columns if no terminal reports a width.
const DEFAULT_COLUMNS: usize = 100;
/// Longest pause between two tries.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// A loop of refreshes. The first one must succeed.
#[derive(Debug)]
pub struct RefreshLoop {
    screen: Screen,
    interval: Duration,
    last_text: Option<String>,
    outage: Option<Outage>,
}

/// A period without a successful read.
#[derive(Debug)]
struct Outage {
    since: Timestamp,
    reason: String,
    tries: u32,
}

impl RefreshLoop {
    /// Creates a loop with this interval.
    #[must_use]
    pub fn new(format: Option<OutputFormat>, interval: Duration) -> Self {
        Self {
            screen: Screen::new(format),
            interval,
            last_text: None,
            outage: None,
        }
    }

    /// Returns true after the first successful view.
    #[must_use]
    pub const fn has_shown(&self) -> bool {
        self.last_text.is_some()
    }

    /// Ends an outage.
    /// Returns true if an outage ended and its message is on the screen.
    pub fn end_outage(&mut self) -> bool {
        self.outage.take().is_some() && self.is_interactive()
    }

    /// Returns true on a terminal for people: each view replaces the previous one.
    #[must_use]
    pub fn is_interactive(&self) -> bool {
        self.screen.is_interactive()
    }

    /// Shows the current view.
    /// Returns false if the reader has closed the output.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn show(&mut self, text: String) -> anyhow::Result<bool> {
        self.outage = None;
        let reads = self.screen.show(&text)?;
        self.last_text = Some(text);
        Ok(reads)
    }

    /// Reports that the view is not available now.
    /// Returns false if the reader has closed the output.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn show_outage(&mut self, problem: &str, now: Timestamp) -> anyhow::Result<bool> {
        let reason = sanitize(problem);
        let lost = self.outage.get_or_insert_with(|| Outage {
            since: now,
            reason: String::new(),
            tries: 0,
        });
        lost.tries = lost.tries.saturating_add(1);
        let is_new = lost.reason != reason;
        lost.reason = reason;
        let note = format_outage(lost, now);
        if self.screen.is_interactive() {
            let last = self.last_text.as_deref().unwrap_or_default();
            // The message is at the top, because a long view is cut at the bottom.
            let head = wrap_text(&note, 0, width().unwrap_or(DEFAULT_COLUMNS), Tone::Bad);
            return self.screen.show(&format!("{head}{last}"));
        }
        // The last view is still visible, so a new message is written only once.
        if is_new {
            warn(&note);
        }
        Ok(true)
    }

    /// The pause until the next refresh.
    #[must_use]
    pub fn next_pause(&self) -> Duration {
        backoff(
            self.interval,
            self.outage.as_ref().map_or(0, |lost| lost.tries),
        )
    }
}

fn format_outage(lost: &Outage, now: Timestamp) -> String {
    let since = Timestamp::from_second(lost.since.as_second()).unwrap_or(lost.since);
    format!(
        "not reachable since {since} ({}): {}",
        format_age(lost.since, now),
        lost.reason
    )
}

/// Doubles the interval with every failed try.
fn backoff(interval: Duration, tries: u32) -> Duration {
    let factor = 2_u32.saturating_pow(tries.saturating_sub(1));
    let longer = interval.saturating_mul(factor);
    longer.min(MAX_PAUSE.max(interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_doubles_while_the_server_is_unreachable() {
        let seconds = |tries| backoff(Duration::from_secs(5), tries).as_secs();
        let all: Vec<_> = (0..7).map(seconds).collect();
        assert_eq!(all, [5, 5, 10, 20, 40, 60, 60]);
        let slow = Duration::from_secs(600);
        assert_eq!(backoff(slow, 9), slow);
    }

    #[test]
    fn outage_line_has_time_and_reason() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut rounds = RefreshLoop::new(None, Duration::from_secs(5));
        assert!(!rounds.has_shown());
        rounds.last_text = Some("all is well\n".to_owned());
        rounds.show_outage("refused\x1b[2J", at(100)).unwrap();
        rounds.show_outage("refused", at(130)).unwrap();
        let lost = rounds.outage.as_ref().unwrap();
        assert_eq!(
            format_outage(lost, at(130)),
            "not reachable since 1970-01-01T00:01:40Z (30s): refused"
        );
        assert_eq!(rounds.next_pause(), Duration::from_secs(10));
        rounds.show(String::new()).unwrap();
        assert_eq!(rounds.next_pause(), Duration::from_secs(5));
    }
}
