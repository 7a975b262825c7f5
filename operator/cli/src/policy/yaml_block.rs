//! A block of text in a YAML file: indented lines below a `|`.

use std::ops::Range;

/// The lines of a block in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct YamlBlock {
    /// The lines, counted from 0, without empty lines at the end.
    pub(super) lines: Range<usize>,
    /// Number of characters of indentation.
    pub(super) indent: usize,
    /// True if the lines end as on Windows.
    has_crlf: bool,
}

impl YamlBlock {
    /// Finds a text in a file.
    /// The line, counted from 1, contains the `|` or the first line of the text. Returns None if
    /// the text is not a block, so that its lines are not lines of the file.
    pub(super) fn find(file: &str, line: usize, text: &str) -> Option<Self> {
        let index = line.checked_sub(1)?;
        Self::find_below(file, index, text).or_else(|| {
            let lines: Vec<&str> = file.lines().take(index).collect();
            let above = lines.iter().rposition(|line| !line.trim().is_empty())?;
            Self::find_below(file, above, text)
        })
    }

    /// Finds the text below a line, counted from 0, if this line ends in `|`.
    fn find_below(file: &str, header: usize, text: &str) -> Option<Self> {
        let mut lines = file.split_inclusive('\n').skip(header);
        let first = lines.next()?;
        let mut marks = first.trim_end().match_indices(" |");
        if !marks.any(|(at, _)| first.get(at..).is_some_and(is_header)) {
            return None;
        }
        let start = header.checked_add(1)?;
        let mut block = Self {
            lines: start..start,
            indent: 0,
            has_crlf: first.ends_with("\r\n"),
        };
        let mut end = start;
        let mut content = String::new();
        let mut empty = 0_usize;
        for line in lines {
            end = end.checked_add(1)?;
            let line = line.strip_suffix('\n').unwrap_or(line);
            let line = line.strip_suffix('\r').unwrap_or(line);
            if block.indent == 0 && !line.trim().is_empty() {
                let shifted = line.trim_start_matches(' ');
                block.indent = line.len().checked_sub(shifted.len())?;
            }
            let (margin, rest) = line.split_at_checked(block.indent).unwrap_or((line, ""));
            if margin.trim_start_matches(' ').is_empty() && rest.is_empty() {
                empty = empty.saturating_add(1);
                continue;
            }
            if block.indent == 0 || !margin.trim_start_matches(' ').is_empty() {
                break;
            }
            content.push_str(&"\n".repeat(empty));
            empty = 0;
            content.push_str(rest);
            content.push('\n');
            block.lines.end = end;
        }
        (content.trim_end_matches('\n') == text.trim_end_matches('\n') && !content.is_empty())
            .then_some(block)
    }

    /// Returns the file with another text in this block.
    pub(super) fn replace(&self, file: &str, text: &str) -> String {
        let mut out = String::with_capacity(file.len());
        let end_of_line = if self.has_crlf { "\r\n" } else { "\n" };
        let indent = " ".repeat(self.indent);
        for (number, line) in file.split_inclusive('\n').enumerate() {
            if number == self.lines.start {
                for line in text.lines() {
                    if !line.is_empty() {
                        out.push_str(&indent);
                        out.push_str(line);
                    }
                    out.push_str(end_of_line);
                }
            }
            if !self.lines.contains(&number) {
                out.push_str(line);
            }
        }
        // A file without a line end at its end stays without one.
        if !file.ends_with('\n')
            && self.lines.end >= file.lines().count()
            && out.ends_with(end_of_line)
        {
            out.truncate(out.len().saturating_sub(end_of_line.len()));
        }
        out
    }
}

/// Returns true for `|`, `|-` or `|+` with at most a comment behind it.
/// A mark with an explicit indentation is not supported.
fn is_header(mark: &str) -> bool {
    let Some(rest) = mark.trim().strip_prefix('|') else {
        return false;
    };
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    rest.is_empty() || (rest.starts_with([' ', '\t']) && rest.trim_start().starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(file: &str, text: &str) -> Option<YamlBlock> {
        YamlBlock::find(file, 1, text)
    }

    #[test]
    fn block_covers_the_lines_of_its_text() {
        let found = block("a: |\n  x\n\n   y\n\n\nb: 1\n", "x\n\n y\n").unwrap();
        assert_eq!((found.lines, found.indent), (1..4, 2));
        let found = block("a: |- # why\n\n  x", "\nx").unwrap();
        assert_eq!((found.lines, found.indent), (1..3, 2));
        assert_eq!(block("a: |\n  x\n...\n", "x\n").unwrap().lines, 1..2);
        assert_eq!(block("a: |\r\n  x\r\n", "x\n").unwrap().lines, 1..2);
    }

    #[test]
    fn other_yaml_styles_are_no_block() {
        for file in [
            "a: >\n  x\n",
            "a: 'x'\n",
            "a: x\n",
            "a: |2\n  x\n",
            "a: |x\n",
            "a: |\n",
            "",
        ] {
            assert_eq!(block(file, "x\n"), None, "{file}");
        }
        assert_eq!(block("a: |\n  y\n", "x\n"), None);
        assert_eq!(YamlBlock::find("a: |\n", 0, ""), None);
        assert_eq!(YamlBlock::find("a: |\n", 9, ""), None);
    }

    /// The parser reports the first line of a text, or the `|` of an empty text.
    #[test]
    fn block_is_located_by_its_first_line() {
        let file = "a: 1\nb: &b |- # c | d\n\n\n  x\nc: |\n  x\n";
        let found = YamlBlock::find(file, 5, "\n\nx").unwrap();
        assert_eq!((found.lines, found.indent), (2..5, 2));
        assert_eq!(YamlBlock::find(file, 7, "x\n").unwrap().lines, 6..7);
        assert_eq!(YamlBlock::find(file, 1, "x\n"), None);
    }

    #[test]
    fn replacement_changes_only_the_block() {
        for (file, text, expected) in [
            (
                "a: |\n  x\n\n# c\nb: 1\n",
                "x\n",
                "a: |\n  y\n\n  z\n\n# c\nb: 1\n",
            ),
            ("a: |-\n    x", "x", "a: |-\n    y\n\n    z"),
            (
                "a: |\r\n x\r\nb: 1\r\n",
                "x\n",
                "a: |\r\n y\r\n\r\n z\r\nb: 1\r\n",
            ),
        ] {
            let found = block(file, text).unwrap();
            assert_eq!(found.replace(file, "y\n\nz\n"), expected);
        }
    }
}
