//! Validation of objects: metadata of all kinds, and the rules that controllers meet.

mod immutable;
mod kinds;
mod metadata;

use serde_json::Value;

use crate::kind::Kind;
use crate::object::Object;
use crate::status::Cause;
use crate::strategy::StatusWrite;

/// Returns what is wrong with a new object.
pub(crate) fn validate_create(kind: &Kind, object: &Value) -> Vec<Cause> {
    let mut causes = metadata::validate(kind, object);
    causes.extend(validate_content(kind, object));
    causes
}

/// Returns what is wrong with a new version of an object.
pub(crate) fn validate_update(
    kind: &Kind,
    object: &Value,
    old: &Object,
    part: StatusWrite,
) -> Vec<Cause> {
    let mut causes = metadata::validate(kind, object);
    causes.extend(metadata::validate_change(object, old));
    if part == StatusWrite::Main {
        causes.extend(immutable::validate(kind, object, old));
    }
    if part != StatusWrite::Status || kind.is_custom() {
        causes.extend(validate_content(kind, object));
    }
    causes
}

fn validate_content(kind: &Kind, object: &Value) -> Vec<Cause> {
    match &kind.schema {
        Some(schema) => schema.validate(object),
        None => kinds::validate(kind, object),
    }
}
