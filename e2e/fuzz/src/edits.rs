//! Edits files of a corpus at random.

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{TestCaseError, TestRunner};

use crate::Target;

/// Longest input, in bytes.
const MAX_INPUT: usize = 64 << 10;
/// Largest number of edits of one input.
const MAX_EDITS: usize = 6;
/// Values on which parsers and arithmetic often fail.
const WORDS: &[&str] = &[
    "",
    "0",
    "-0",
    "1",
    "-1",
    "8",
    "63",
    "64",
    "1024",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1e400",
    "0.5",
    "1.0",
    "null",
    "true",
    "~",
    "{}",
    "[]",
    "\"\"",
    "\"",
    "'",
    "\\",
    "\n",
    "\t",
    ":",
    ",",
    " ",
    "-",
    ".",
    "..",
    "/",
    "#",
    "é",
    "\u{202e}",
    "\u{0}",
];

/// Replaces a part of an input.
#[derive(Clone, Debug)]
struct Edit {
    start: Index,
    /// None: the whole word at `start`.
    length: Option<usize>,
    replacement: Replacement,
}

#[derive(Clone, Debug)]
enum Replacement {
    Word(&'static str),
    Bytes(Vec<u8>),
    /// A part of a corpus file.
    Part(Index, Index, usize),
}

fn edit(words: &'static [&'static str]) -> impl Strategy<Value = Edit> {
    let word = move || {
        let words: Vec<_> = WORDS.iter().chain(words).copied().collect();
        select(words).prop_map(Replacement::Word)
    };
    let part = || (any::<Index>(), any::<Index>(), 1_usize..64);
    let replacement = prop_oneof![
        6 => word(),
        3 => part().prop_map(|(file, start, length)| Replacement::Part(file, start, length)),
        1 => prop::collection::vec(any::<u8>(), 1..4).prop_map(Replacement::Bytes),
    ];
    let length = prop_oneof![3 => Just(None), 2 => (0_usize..24).prop_map(Some)];
    (any::<Index>(), length, replacement).prop_map(|(start, length, replacement)| Edit {
        start,
        length,
        replacement,
    })
}

impl Edit {
    fn apply(&self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.start.index(input.len().saturating_add(1));
        let (start, end) = match self.length {
            Some(length) => (at, at.saturating_add(length).min(input.len())),
            None => word_around(input, at),
        };
        let replacement = match &self.replacement {
            Replacement::Word(word) => word.as_bytes(),
            Replacement::Bytes(bytes) => bytes,
            Replacement::Part(file, start, length) => {
                let file = file.get(corpus);
                let start = start.index(file.len().saturating_add(1));
                &file[start..start.saturating_add(*length).min(file.len())]
            }
        };
        input.splice(start..end, replacement.iter().copied());
        input.truncate(MAX_INPUT);
    }
}

/// Returns the start and the end of the word at a position. Between words both are the position.
fn word_around(input: &[u8], at: usize) -> (usize, usize) {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./".contains(byte);
    let before = input[..at].iter().rev().take_while(|byte| is_part(byte));
    let after = input[at..].iter().take_while(|byte| is_part(byte));
    (at - before.count(), at + after.count())
}

/// Checks a bounded number of edited files of a corpus. The number and the seed come from
/// `PROPTEST_CASES` and `PROPTEST_RNG_SEED`, as for property tests.
///
/// # Panics
/// If the folder has no files, or a property does not hold.
pub fn check_edited_corpus(target: &Target, corpus: &Path) {
    let entries = std::fs::read_dir(corpus).expect("the target has a corpus");
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let corpus: Vec<Vec<u8>> = files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect();
    let mut config = ProptestConfig::default();
    config.cases = config.cases.saturating_mul(target.inputs_per_case);
    // A failing input becomes a file (CONTRIBUTING.md).
    config.failure_persistence = None;
    let edits = prop::collection::vec(edit(target.words), 1..MAX_EDITS);
    let checked = TestRunner::new(config).run(&(any::<Index>(), edits), |(file, edits)| {
        let mut input = file.get(&corpus).clone();
        for edit in &edits {
            edit.apply(&mut input, &corpus);
        }
        let input_text = String::from_utf8_lossy(&input).into_owned();
        std::panic::catch_unwind(|| (target.check)(&input)).map_err(|panic| {
            let message = panic.downcast_ref::<String>().cloned();
            let message = message.or_else(|| panic.downcast_ref::<&str>().map(|&m| m.to_owned()));
            let message = message.unwrap_or_default();
            TestCaseError::fail(format!("{message}\ninput:\n{input_text}\nend of input"))
        })
    });
    if let Err(failure) = checked {
        panic!("{failure}");
    }
}
