//! Words of a closed list that stand in status. The list is closed in Rust
//! alone: a CRD is not upgraded with the operator (Helm leaves `crds/` as it
//! is), so that a word that only one of them knows must stop neither.

use schemars::{Schema, json_schema};

/// Longest word, now and in future versions.
const MAX_WORD_LENGTH: u32 = 64;

/// The schema of such a word: any short string.
pub(crate) fn word_schema() -> Schema {
    json_schema!({"type": "string", "maxLength": MAX_WORD_LENGTH})
}

/// `JsonSchema` of an enum whose variants are words.
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
                $crate::status_word::word_schema()
            }
        }
    };
}

/// `Deserialize` of an enum whose variants are words: a word of another
/// version is `Unrecognized`.
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

pub(crate) use {lenient_word, open_word};
