//! Times as the API writes them.

use jiff::Timestamp;

/// Writes a time in whole seconds.
pub(crate) fn render_time(time: Timestamp) -> String {
    let seconds = Timestamp::from_second(time.as_second()).unwrap_or(time);
    seconds.to_string()
}

pub(crate) fn parse_time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}
