//! Splits and prefixes the lines of a log between the pod and the reader. Pure.

use k8s_openapi::jiff::Timestamp;

/// Formats the lines of one pod.
#[derive(Clone, Debug)]
pub struct LogLines {
    /// The prefix of each line.
    prefix: String,
    /// True if the lines have timestamps that the user did not request.
    hides_times: bool,
    /// The time of the last line that was shown.
    last_time: Option<Timestamp>,
    /// True after an incomplete part of a line.
    is_inside_line: bool,
    /// True while the current line is a repetition of a line that was shown before.
    is_skipping: bool,
}

impl LogLines {
    /// Creates the formatter for one pod.
    /// `hides_times`: the lines have timestamps, and the formatter removes them.
    pub fn new(prefix: String, hides_times: bool) -> Self {
        Self {
            prefix,
            hides_times,
            last_time: None,
            is_inside_line: false,
            is_skipping: false,
        }
    }

    /// The time of the last line.
    pub fn last_time(&self) -> Option<Timestamp> {
        self.last_time
    }

    /// Starts a new stream. An incomplete line of the old stream is dropped.
    pub fn restart_stream(&mut self) {
        self.is_inside_line = false;
        self.is_skipping = false;
    }

    /// Appends a line, or a part of a line, to `out`.
    /// A newline ends the line. `skip_shown`: skip lines that are not newer than the last line, because
    /// they were shown before.
    pub fn add(&mut self, part: &[u8], skip_shown: bool, out: &mut Vec<u8>) {
        let ends = part.last() == Some(&b'\n');
        let begins = !self.is_inside_line;
        self.is_inside_line = !ends;
        let mut visible = part;
        if begins {
            let (time, rest) = split_timestamp(part);
            self.is_skipping = skip_shown && time.is_some() && time <= self.last_time;
            if !self.is_skipping {
                self.last_time = time.or(self.last_time);
                out.extend_from_slice(self.prefix.as_bytes());
            }
            if self.hides_times && time.is_some() {
                visible = rest;
            }
        }
        if !self.is_skipping {
            out.extend_from_slice(visible);
        }
    }

    /// Ends a line that has no newline, so that another pod's line can follow.
    pub fn end_line(&mut self, out: &mut Vec<u8>) {
        if self.is_inside_line && !self.is_skipping && !self.prefix.is_empty() {
            out.push(b'\n');
        }
        self.is_inside_line = false;
    }
}

/// Splits a line into the kubelet's timestamp and the text.
fn split_timestamp(line: &[u8]) -> (Option<Timestamp>, &[u8]) {
    let Some(space) = line.iter().position(|byte| *byte == b' ') else {
        // An empty line consists of the timestamp and a newline.
        let text = std::str::from_utf8(line).unwrap_or_default();
        let time = text.trim_end().parse().ok();
        let rest = if line.ends_with(b"\n") {
            &b"\n"[..]
        } else {
            &[]
        };
        return (time, rest);
    };
    let (time, rest) = line.split_at(space);
    let time = std::str::from_utf8(time).ok().and_then(|t| t.parse().ok());
    (time, rest.get(1..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_parts(lines: &mut LogLines, parts: &[&str], skip_shown: bool) -> String {
        let mut out = Vec::new();
        for part in parts {
            lines.add(part.as_bytes(), skip_shown, &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    const A: &str = "2026-01-01T10:00:00.000000001Z step 1\n";
    const B: &str = "2026-01-01T10:00:00.000000002Z step 2\n";
    const C: &str = "2026-01-01T10:00:01Z step 3\n";

    #[test]
    fn restarted_stream_repeats_no_line() {
        let mut lines = LogLines::new(String::new(), true);
        assert_eq!(add_parts(&mut lines, &[A, B], false), "step 1\nstep 2\n");
        lines.restart_stream();
        assert_eq!(add_parts(&mut lines, &[A, B, C], true), "step 3\n");
        assert_eq!(
            lines.last_time().unwrap().to_string(),
            "2026-01-01T10:00:01Z"
        );
    }

    #[test]
    fn each_line_has_its_prefix_once() {
        let mut lines = LogLines::new("[3 llm-worker-3] ".to_owned(), false);
        let parts = [A, "2026-01-01T10:00:00.1Z a long", " line\n", "and one"];
        assert_eq!(
            add_parts(&mut lines, &parts, false),
            format!(
                "[3 llm-worker-3] {A}[3 llm-worker-3] 2026-01-01T10:00:00.1Z a long line\n[3 llm-worker-3] and one"
            )
        );
        let mut out = Vec::new();
        lines.end_line(&mut out);
        assert_eq!(out, b"\n");
    }

    #[test]
    fn empty_lines_and_lines_without_times_are_unchanged() {
        let mut lines = LogLines::new(String::new(), true);
        let parts = [
            "2026-01-01T10:00:00Z\n",
            "2026-01-01T10:00:02Z \n",
            "no time here\n",
        ];
        assert_eq!(add_parts(&mut lines, &parts, false), "\n\nno time here\n");
    }

    #[test]
    fn line_shown_before_is_skipped_in_all_its_parts() {
        let mut lines = LogLines::new(String::new(), true);
        add_parts(&mut lines, &[A, B], false);
        lines.restart_stream();
        let parts = ["2026-01-01T10:00:00.000000002Z st", "ep 2\n", C];
        assert_eq!(add_parts(&mut lines, &parts, true), "step 3\n");
    }
}
