//! Errors in the logs of the replicas.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Returns the lines of level ERROR and the panics in the log of a replica and of all its earlier
/// processes.
pub(crate) fn read_errors(folder: &Path, replica: &str) -> Result<Vec<String>> {
    let path = folder.join(format!("{replica}.log"));
    let log = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    Ok(find_errors(&String::from_utf8_lossy(&log)))
}

fn find_errors(log: &str) -> Vec<String> {
    let lines = log.lines().map(remove_colours);
    // The level follows the time.
    let is_error = |line: &String| {
        line.split_whitespace().nth(1) == Some("ERROR") || line.contains("panicked at")
    };
    lines.filter(is_error).collect()
}

/// Removes the escape sequences of colours, `ESC [ ... m`.
fn remove_colours(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, text)| text));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_panics_are_found_in_a_coloured_log() {
        let log = "\u{1b}[2m2026-01-01T00:00:00Z\u{1b}[0m \u{1b}[31mERROR\u{1b}[0m \u{1b}[2mtrellis\u{1b}[0m: broken\n\
            2026-01-01T00:00:00Z  INFO trellis: an ERROR of a pod\n\
            thread 'main' panicked at src/main.rs:1:1:\n";
        let errors = find_errors(log);
        assert_eq!(errors.len(), 2);
        assert_eq!(errors[0], "2026-01-01T00:00:00Z ERROR trellis: broken");
    }
}
