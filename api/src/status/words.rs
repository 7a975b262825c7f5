//! Words of a closed list in status. The list is closed only in Rust. Helm leaves `crds/` as it is,
//! so the CRD and the operator may have different versions: neither may fail on a word that only
//! the other knows.

use schemars::{Schema, json_schema};

/// Longest word, in this and in future versions.
const MAX_WORD_LENGTH: u32 = 64;

/// Returns the schema of such a word: any short string.
pub(crate) fn word_schema() -> Schema {
    json_schema!({"type": "string", "maxLength": MAX_WORD_LENGTH})
}

/// Implements `JsonSchema` for an enum whose variants are words.
macro_rules! open_word {
    ($name:ident) => {
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::status::words::word_schema()
            }
        }
    };
}

/// Implements `Deserialize` for an enum whose variants are words. A word of another version becomes
/// `Unrecognized`.
macro_rules! lenient_word {
    ($name:ident) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                let known = Self::ALL.iter().find(|known| known.as_str() == word);
                Ok(known.copied().unwrap_or(Self::Unrecognized))
            }
        }
    };
}

/// Lists the variants of an enum whose variants are words, and returns the word of each.
macro_rules! words {
    ($name:ident: $($word:ident),+) => {
        impl $name {
            /// All values, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$word,)+];

            /// Returns the value as the API writes it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$word => stringify!($word),)+ }
            }
        }
    };
}

pub(crate) use {lenient_word, open_word, words};
