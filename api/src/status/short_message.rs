//! Shortens a message to one line with its first facts, for `status.message` and table cells.

/// Longest line, in characters.
pub const MAX_SHORT_MESSAGE: usize = 160;

/// End of a fact that was cut off.
const ELLIPSIS: &str = " ...";

/// Returns the facts of a message that fit into a line: whole sentences between `; `, else words.
/// The conditions of a job contain the full message.
#[must_use]
pub fn shorten_message(message: &str) -> String {
    let line = message.trim().lines().next().unwrap_or_default().trim_end();
    if line.chars().count() <= MAX_SHORT_MESSAGE {
        return line.to_owned();
    }
    let fits = |at: &usize, more: usize| {
        let before = line.get(..*at).unwrap_or_default();
        before.chars().count().saturating_add(more) <= MAX_SHORT_MESSAGE
    };
    let ends = line.match_indices("; ").map(|(at, _)| at);
    if let Some(end) = ends.filter(|at| *at > 0 && fits(at, 0)).last() {
        return line.get(..end).unwrap_or_default().trim_end().to_owned();
    }
    let all = line.char_indices().map(|(at, _)| at);
    let words = line.match_indices(' ').map(|(at, _)| at);
    let room = |ends: &mut dyn Iterator<Item = usize>| {
        ends.filter(|at| *at > 0 && fits(at, ELLIPSIS.len())).last()
    };
    let end = room(&mut words.into_iter()).or_else(|| room(&mut all.into_iter()));
    let start = line.get(..end.unwrap_or(0)).unwrap_or_default();
    format!("{}{ELLIPSIS}", start.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_message_is_unchanged() {
        for message in [
            "",
            "needs 8 GPUs; 4 are free",
            &"x".repeat(MAX_SHORT_MESSAGE),
        ] {
            assert_eq!(shorten_message(message), message);
        }
        assert_eq!(shorten_message("one line\nand another"), "one line");
    }

    #[test]
    fn long_message_ends_with_a_whole_sentence_else_with_a_word() {
        let more = "x".repeat(MAX_SHORT_MESSAGE);
        assert_eq!(
            shorten_message(&format!("first; second; {more}")),
            "first; second"
        );
        let words = "word ".repeat(MAX_SHORT_MESSAGE);
        let cut = shorten_message(&words);
        assert!(cut.ends_with("word word ..."), "{cut}");
        assert_eq!(
            shorten_message(&format!("{more}x")).chars().count(),
            MAX_SHORT_MESSAGE
        );
    }

    proptest::proptest! {
        #[test]
        fn shortened_message_fits_on_one_line(message in "(\\PC|; |\n){0,400}") {
            let cut = shorten_message(&message);
            assert!(cut.chars().count() <= MAX_SHORT_MESSAGE, "{cut}");
            assert!(!cut.contains('\n'));
            // A second call changes nothing.
            assert_eq!(shorten_message(&cut), cut);
        }
    }
}
