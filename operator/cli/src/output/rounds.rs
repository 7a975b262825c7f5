//! Rounds of something that is looked at again and again, also while it cannot be reached: then
//! what was last seen stands below since when, and why.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::{Format, Screen, Tone, age, clean, warn, width, wrapped};

/// Columns where no terminal says how many there are.
const COLUMNS: usize = 100;
/// Longest time between two tries.
const LONGEST: Duration = Duration::from_secs(60);

/// Rounds, of which the first has to succeed.
#[derive(Debug)]
pub struct Rounds {
    screen: Screen,
    interval: Duration,
    last: Option<String>,
    lost: Option<Lost>,
}

/// That nothing has been seen since.
#[derive(Debug)]
struct Lost {
    since: Timestamp,
    why: String,
    tries: u32,
}

impl Rounds {
    /// Rounds at this interval.
    #[must_use]
    pub fn new(format: Option<Format>, interval: Duration) -> Self {
        Self {
            screen: Screen::new(format),
            interval,
            last: None,
            lost: None,
        }
    }

    /// True once something was seen.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.last.is_some()
    }

    /// It is reached again. True if it was not, and what is looked at says so.
    pub fn found(&mut self) -> bool {
        self.lost.take().is_some() && self.is_looked_at()
    }

    /// True if somebody looks at it: what is shown takes the place of what was.
    #[must_use]
    pub fn is_looked_at(&self) -> bool {
        self.screen.is_looked_at()
    }

    /// Shows what is seen now. False: nobody reads any more.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn seen(&mut self, text: String) -> anyhow::Result<bool> {
        self.lost = None;
        let reads = self.screen.show(&text)?;
        self.last = Some(text);
        Ok(reads)
    }

    /// Says that nothing can be seen now. False: nobody reads any more.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn lost(&mut self, why: &str, now: Timestamp) -> anyhow::Result<bool> {
        let said = clean(why);
        let lost = self.lost.get_or_insert_with(|| Lost {
            since: now,
            why: String::new(),
            tries: 0,
        });
        lost.tries = lost.tries.saturating_add(1);
        let is_new = lost.why != said;
        lost.why = said;
        let note = note(lost, now);
        if self.screen.is_looked_at() {
            let last = self.last.as_deref().unwrap_or_default();
            // Above it: what does not fit on the screen is at its end.
            let head = wrapped(&note, 0, width().unwrap_or(COLUMNS), Tone::Bad);
            return self.screen.show(&format!("{head}{last}"));
        }
        // What was last seen is there still; who reads it hears so once.
        if is_new {
            warn(&note);
        }
        Ok(true)
    }

    /// How long it is until the next.
    #[must_use]
    pub fn pause(&self) -> Duration {
        pause(
            self.interval,
            self.lost.as_ref().map_or(0, |lost| lost.tries),
        )
    }
}

fn note(lost: &Lost, now: Timestamp) -> String {
    let since = Timestamp::from_second(lost.since.as_second()).unwrap_or(lost.since);
    format!(
        "not reachable since {since} ({}): {}",
        age(lost.since, now),
        lost.why
    )
}

/// Twice as long with every try that came to nothing.
fn pause(interval: Duration, tries: u32) -> Duration {
    let factor = 2_u32.saturating_pow(tries.saturating_sub(1));
    let longer = interval.saturating_mul(factor);
    longer.min(LONGEST.max(interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_reached_is_tried_again_and_again_and_ever_later() {
        let seconds = |tries| pause(Duration::from_secs(5), tries).as_secs();
        let all: Vec<_> = (0..7).map(seconds).collect();
        assert_eq!(all, [5, 5, 10, 20, 40, 60, 60]);
        let slow = Duration::from_secs(600);
        assert_eq!(pause(slow, 9), slow);
    }

    #[test]
    fn it_is_told_since_when_and_why() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut rounds = Rounds::new(None, Duration::from_secs(5));
        assert!(!rounds.has_begun());
        rounds.last = Some("all is well\n".to_owned());
        rounds.lost("refused\x1b[2J", at(100)).unwrap();
        rounds.lost("refused", at(130)).unwrap();
        let lost = rounds.lost.as_ref().unwrap();
        assert_eq!(
            note(lost, at(130)),
            "not reachable since 1970-01-01T00:01:40Z (30s): refused"
        );
        assert_eq!(rounds.pause(), Duration::from_secs(10));
        rounds.seen(String::new()).unwrap();
        assert_eq!(rounds.pause(), Duration::from_secs(5));
    }
}
