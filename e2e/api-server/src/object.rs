//! A stored version of an object.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use hyper::body::Bytes;
use serde_json::{Map, Value};

use crate::kind::Kind;

/// One version of one object, which never changes.
///
/// It dereferences to its JSON value, with `apiVersion`, `kind` and `metadata.resourceVersion`.
pub struct Object {
    kind: Arc<Kind>,
    value: Value,
    revision: u64,
    text: OnceLock<Text>,
}

/// The JSON of an object, written once for all answers and watches.
struct Text {
    bytes: Bytes,
    /// Position after `apiVersion` and `kind`, which the items of a list lack.
    rest: usize,
}

impl Object {
    pub(crate) fn new(kind: Arc<Kind>, mut value: Value, revision: u64) -> Self {
        if revision != 0 {
            metadata_mut(&mut value)
                .insert("resourceVersion".to_owned(), revision.to_string().into());
        }
        Self {
            kind,
            value,
            revision,
            text: OnceLock::new(),
        }
    }

    /// The kind of the object.
    #[must_use]
    pub fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }

    /// The object as JSON.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The revision of the write that stored this version.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        text_at(&self.value, &["metadata", "name"])
    }

    /// Namespace of the object. Empty if its kind has none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        text_at(&self.value, &["metadata", "namespace"])
    }

    /// Uid of the object.
    #[must_use]
    pub fn uid(&self) -> &str {
        text_at(&self.value, &["metadata", "uid"])
    }

    /// Returns true after an accepted delete of an object that still has to stop.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        is_deleting(&self.value)
    }

    /// The JSON of the object.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.text().bytes
    }

    pub(crate) fn bytes_without_type(&self) -> &[u8] {
        let text = self.text();
        &text.bytes[text.rest..]
    }

    fn text(&self) -> &Text {
        self.text.get_or_init(|| {
            let (api_version, kind) = (self.kind.api_version(), &self.kind.kind);
            let mut out = format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\"");
            let rest = out.len();
            let fields = self.value.as_object().into_iter().flatten();
            for (name, value) in fields {
                if name != "apiVersion" && name != "kind" {
                    out += &format!(",{}:{value}", Value::from(name.as_str()));
                }
            }
            out.push('}');
            Text {
                bytes: Bytes::from(out),
                rest,
            }
        })
    }

    /// Returns this version as a watch shows its deletion: with the revision of the deletion.
    pub(crate) fn with_revision(&self, revision: u64) -> Self {
        Self::new(self.kind.clone(), self.value.clone(), revision)
    }
}

impl Deref for Object {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.value)
    }
}

/// Returns the string at a path. Empty if it is absent.
pub(crate) fn text_at<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the value at a path.
pub(crate) fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// Returns the list at a path. Empty if it is absent.
pub(crate) fn items_at<'v>(value: &'v Value, path: &[&str]) -> &'v [Value] {
    let items = at(value, path).and_then(Value::as_array);
    items.map(Vec::as_slice).unwrap_or_default()
}

/// Returns the fields at a name. Creates them if they are absent.
pub(crate) fn fields_mut<'v>(value: &'v mut Value, name: &str) -> &'v mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let field = &mut value[name];
    if !field.is_object() {
        *field = Value::Object(Map::new());
    }
    field.as_object_mut().expect("it is an object now")
}

pub(crate) fn metadata_mut(value: &mut Value) -> &mut Map<String, Value> {
    fields_mut(value, "metadata")
}

/// Removes a field. Keeps the order of the others.
pub(crate) fn take_field(fields: &mut Map<String, Value>, name: &str) -> Option<Value> {
    fields.shift_remove(name)
}

pub(crate) fn is_deleting(value: &Value) -> bool {
    at(value, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
}

pub(crate) fn finalizers(value: &Value) -> &[Value] {
    items_at(value, &["metadata", "finalizers"])
}
