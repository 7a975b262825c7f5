//! A message in one line: its first facts, as `status.message` and cells of tables have them.

/// The longest that such a line is, in characters.
pub const LONGEST_FACT: usize = 160;

/// The end of a fact that had to be cut off.
const CUT: &str = " ...";

/// The facts of a message that a line has room for: whole sentences between `; `, else words.
/// The conditions of a job have the message in full.
#[must_use]
pub fn fact(message: &str) -> String {
    let line = message.trim().lines().next().unwrap_or_default().trim_end();
    if line.chars().count() <= LONGEST_FACT {
        return line.to_owned();
    }
    let fits = |at: &usize, more: usize| {
        let before = line.get(..*at).unwrap_or_default();
        before.chars().count().saturating_add(more) <= LONGEST_FACT
    };
    let ends = line.match_indices("; ").map(|(at, _)| at);
    if let Some(end) = ends.filter(|at| *at > 0 && fits(at, 0)).last() {
        return line.get(..end).unwrap_or_default().trim_end().to_owned();
    }
    let all = line.char_indices().map(|(at, _)| at);
    let words = line.match_indices(' ').map(|(at, _)| at);
    let room = |ends: &mut dyn Iterator<Item = usize>| {
        ends.filter(|at| *at > 0 && fits(at, CUT.len())).last()
    };
    let end = room(&mut words.into_iter()).or_else(|| room(&mut all.into_iter()));
    let kept = line.get(..end.unwrap_or(0)).unwrap_or_default();
    format!("{}{CUT}", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_that_has_room_stays_as_it_is() {
        for message in ["", "needs 8 GPUs; 4 are free", &"x".repeat(LONGEST_FACT)] {
            assert_eq!(fact(message), message);
        }
        assert_eq!(fact("one line\nand another"), "one line");
    }

    #[test]
    fn long_message_ends_with_a_whole_sentence_else_with_a_word() {
        let more = "x".repeat(LONGEST_FACT);
        assert_eq!(fact(&format!("first; second; {more}")), "first; second");
        let words = "word ".repeat(LONGEST_FACT);
        let cut = fact(&words);
        assert!(cut.ends_with("word word ..."), "{cut}");
        assert_eq!(fact(&format!("{more}x")).chars().count(), LONGEST_FACT);
    }

    proptest::proptest! {
        #[test]
        fn no_message_is_longer(message in "(\\PC|; |\n){0,400}") {
            let cut = fact(&message);
            assert!(cut.chars().count() <= LONGEST_FACT, "{cut}");
            assert!(!cut.contains('\n'));
            // A second time changes nothing.
            assert_eq!(fact(&cut), cut);
        }
    }
}
