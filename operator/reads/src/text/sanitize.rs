//! Removes control sequences from the text of other systems.
//! A name or a message then cannot control the user's terminal.

/// Returns the text in one line, without control sequences.
/// It removes characters that move the cursor, change colours or turn the direction of writing.
#[must_use]
pub fn sanitize(text: impl Into<String>) -> String {
    let text = text.into();
    if is_plain(&text, |byte| byte == b' ') && is_one_line(&text) {
        return text;
    }
    join_words(&text)
}

fn join_words(text: &str) -> String {
    let words: Vec<String> = strip_controls(text)
        .split_whitespace()
        .map(|word| word.chars().filter(|c| is_printable(*c)).collect())
        .filter(|word: &String| !word.is_empty())
        .collect();
    words.join(" ")
}

/// The same, but lines and spaces stay as they are.
#[must_use]
pub fn sanitize_lines(text: &str) -> String {
    if is_plain(text, |byte| matches!(byte, b' ' | b'\n')) {
        return text.to_owned();
    }
    strip_lines(text)
}

fn strip_lines(text: &str) -> String {
    let spaced = |c: char| if c == '\t' { ' ' } else { c };
    let visible = strip_controls(text);
    let visible = visible.chars().map(spaced);
    visible.filter(|c| *c == '\n' || is_printable(*c)).collect()
}

/// Returns true for text that needs no change.
/// This fast check covers nearly all text: ten thousand jobs have a hundred thousand cells.
fn is_plain(text: &str, is_space: impl Fn(u8) -> bool) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_graphic() || is_space(byte))
}

/// Returns true if the words are separated by single spaces.
fn is_one_line(text: &str) -> bool {
    !text.starts_with(' ') && !text.ends_with(' ') && !text.contains("  ")
}

fn strip_controls(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// Returns false for control characters and for bidirectional marks.
/// These marks turn the direction of writing (Trojan Source, CVE-2021-42574).
fn is_printable(c: char) -> bool {
    let turns = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    !(c.is_control() || turns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks every text of three relevant characters.
    #[test]
    fn plain_text_shortcut_gives_the_same_result() {
        let letters = [
            'a', '~', ' ', '\n', '\r', '\t', '\x07', '\x1b', '[', 'm', '\x7f', 'é', '\u{202e}',
        ];
        for (one, two, three) in letters.iter().flat_map(|one| {
            let pairs = letters
                .iter()
                .flat_map(|two| letters.iter().map(move |three| (two, three)));
            pairs.map(move |(two, three)| (one, two, three))
        }) {
            let text: String = [one, two, three].into_iter().collect();
            assert_eq!(sanitize(text.as_str()), join_words(&text), "{text:?}");
            assert_eq!(sanitize_lines(&text), strip_lines(&text), "{text:?}");
        }
    }

    #[test]
    fn text_cannot_control_the_terminal() {
        for (text, expected) in [
            ("a\x1b[2Jb", "ab"),
            ("\x1b]0;title\x07name", "name"),
            ("one\ntwo\tthree", "one two three"),
            ("a\u{202e}b \u{2066} c\u{61c}", "ab c"),
            ("bell\x07 \u{9b}31mred", "bell 31mred"),
        ] {
            assert_eq!(sanitize(text), expected, "{text:?}");
        }
        assert_eq!(sanitize("  a  b  "), "a b");
        assert_eq!(sanitize("needs 8 GPUs"), "needs 8 GPUs");
        assert_eq!(
            sanitize_lines("  a\tb\x1b[31m\n\u{202e}c\r\n"),
            "  a b\nc\n",
            "lines stay"
        );
    }
}
