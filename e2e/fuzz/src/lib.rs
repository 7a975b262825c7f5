//! Fuzz targets for the decoders and parsers of Trellis.
//!
//! A target is a function that checks one input: bytes, most of them text. It panics if a property
//! does not hold. The tests of this crate (`tests/fuzz.rs`) run each target in three ways:
//!
//! - `cargo test` checks every file of the target's corpus and every file that has once broken a
//!   property.
//! - `cargo test` also checks a bounded number of edited corpus files ([`check_edited_corpus`]).
//!   The seed is fixed, so each run checks the same inputs.
//! - `cargo bolero test` searches for new inputs with libFuzzer (docs/reliability.md).

mod edits;
pub mod targets;

pub use edits::check_edited_corpus;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Checks one input, and panics if a property does not hold.
    pub check: fn(&[u8]),
    /// Words that edits put into inputs, besides words of the corpus.
    pub words: &'static [&'static str],
    /// Number of edited inputs for each case of `PROPTEST_CASES`.
    pub inputs_per_case: u32,
}

/// Returns the input as text. None: it is not UTF-8, which no text parser receives.
fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}
