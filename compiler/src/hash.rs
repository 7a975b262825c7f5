//! Hashes of what would be created.

use std::fmt::Write as _;
use std::io;

use serde::Serialize;
use sha2::{Digest, Sha256};

/// Bytes of the digest that are kept: 16 characters, which collide by chance
/// once in 2^32 versions of one object.
const HASH_BYTES: usize = 8;

/// Hash of one value, as JSON: 16 characters. [`crate::CompiledJob::hash`] is computed the same
/// way, so callers use this for related values such as a plan.
///
/// ```
/// assert_eq!(trellis_compiler::hash_of(&["a", "b"]).len(), 16);
/// ```
#[must_use]
pub fn hash_of(value: &impl Serialize) -> String {
    Hasher::default().feed(value).finish()
}

/// A hash that objects are fed into, one after the other.
#[derive(Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    /// Feeds an object as JSON, with fields in the order of its type.
    pub fn feed(mut self, object: &impl Serialize) -> Self {
        // Only maps whose keys are not strings fail to serialize, and no fed object has one. The
        // error text would still give a different hash.
        if let Err(error) = serde_json::to_writer(&mut self, object) {
            self.0.update(error.to_string());
        }
        // No JSON ends where another begins: a newline is in none of them.
        self.0.update(b"\n");
        self
    }

    /// The first 16 characters of the digest in hexadecimal.
    pub fn finish(self) -> String {
        let digest = self.0.finalize();
        digest
            .iter()
            .take(HASH_BYTES)
            .fold(String::new(), |mut out, byte| {
                // Writing to a String cannot fail.
                let _ = write!(out, "{byte:02x}");
                out
            })
    }
}

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
