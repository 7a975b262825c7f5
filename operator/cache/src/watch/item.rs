//! One object as the API server returns it, whether or not it decodes. An object that does not
//! decode must not hide other objects of its kind. Otherwise a user who can write one undecodable
//! object could stop the scheduler.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kube::Resource;
use kube::api::ObjectMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::{RawValue, to_raw_value};

/// An object that does not decode, because it was stored under another schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// Its uid.
    pub uid: String,
    /// Its generation.
    pub generation: Option<i64>,
    /// Why it does not decode.
    pub error: String,
}

/// An object of a list or an event, without `managedFields`: Trellis does not read them, and a user
/// may have stored times in them that do not decode.
#[derive(Clone, Debug)]
pub(super) enum WatchedItem<K> {
    Object(K),
    Undecodable {
        /// Name, uid and versions, as far as they decode.
        meta: Box<ObjectMeta>,
        error: String,
    },
}

impl<K: Resource + DeserializeOwned> WatchedItem<K> {
    fn from_text(text: &str) -> Self {
        match decode_object(text) {
            Ok(object) => Self::from_object(object),
            Err(error) => Self::from_error(text, &error),
        }
    }

    fn from_object(mut object: K) -> Self {
        object.meta_mut().managed_fields = None;
        Self::Object(object)
    }

    fn from_error(text: &str, error: &serde_json::Error) -> Self {
        Self::Undecodable {
            meta: Box::new(decode_metadata(text)),
            error: error_text(error),
        }
    }
}

impl<'de, K: Resource + DeserializeOwned> Deserialize<'de> for WatchedItem<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // This takes the text unparsed, with any content and depth. Decoding follows later.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self::from_text(raw.get()))
    }
}

impl<K: Resource> Resource for WatchedItem<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Object(object) => object.meta(),
            Self::Undecodable { meta, .. } => meta,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Object(object) => object.meta_mut(),
            Self::Undecodable { meta, .. } => meta,
        }
    }
}

/// Decodes an object as the API server returns it, even if its `managedFields` do not decode.
///
/// # Errors
/// If the rest of the object does not decode.
pub fn decode_object<K: DeserializeOwned>(text: &str) -> serde_json::Result<K> {
    let object = serde_json::from_str(text);
    match object.is_err().then(|| without_managed_fields(text)) {
        Some(Some(text)) => serde_json::from_str(&text),
        _ => object,
    }
}

/// Fields by name, each as raw JSON, so that an unused field need not decode.
type RawFields = BTreeMap<String, Box<RawValue>>;

fn parse_fields(text: &str) -> Option<RawFields> {
    serde_json::from_str(text).ok()
}

/// Removes `managedFields` from the text. None if the object has none.
fn without_managed_fields(text: &str) -> Option<String> {
    let mut object = parse_fields(text)?;
    let meta = object.get_mut("metadata")?;
    let mut rest = parse_fields(meta.get())?;
    rest.remove("managedFields")?;
    *meta = to_raw_value(&rest).ok()?;
    serde_json::to_string(&object).ok()
}

/// Returns the error without its position in the text. The position moves with each earlier change
/// in the text, but the same error of an object must be reported only once.
fn error_text(error: &serde_json::Error) -> String {
    let words = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    words.strip_suffix(&place).unwrap_or(&words).to_owned()
}

/// Decodes each field by itself, so that a broken field does not affect the rest.
fn decode_metadata(text: &str) -> ObjectMeta {
    let meta = parse_fields(text).and_then(|object| parse_fields(object.get("metadata")?.get()));
    let meta = meta.unwrap_or_default();
    ObjectMeta {
        name: decode_field(&meta, "name"),
        namespace: decode_field(&meta, "namespace"),
        uid: decode_field(&meta, "uid"),
        resource_version: decode_field(&meta, "resourceVersion"),
        generation: decode_field(&meta, "generation"),
        ..ObjectMeta::default()
    }
}

fn decode_field<T: DeserializeOwned>(fields: &RawFields, name: &str) -> Option<T> {
    serde_json::from_str(fields.get(name)?.get()).ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::networking::v1::NetworkPolicy;
    use kube::api::WatchEvent;
    use kube::core::ObjectList;
    use serde_json::{Value, json};
    use trellis_api::TrainingJob;

    use super::*;

    fn metadata_with_managed_fields(time: &str) -> Value {
        json!({
            "name": "j", "namespace": "a", "uid": "u", "resourceVersion": "5", "generation": 2,
            "labels": {"l": "v"},
            "managedFields": [{"manager": "m", "operation": "Update", "time": time}],
        })
    }

    fn job(metadata: &Value, groups: &Value) -> Value {
        json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": metadata, "spec": {"taskGroups": groups}})
    }

    #[test]
    fn managed_fields_are_not_read() {
        for time in ["2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z"] {
            let text = json!({"metadata": metadata_with_managed_fields(time), "spec": {"podSelector": {}}}).to_string();
            let WatchedItem::<NetworkPolicy>::Object(policy) = serde_json::from_str(&text).unwrap()
            else {
                panic!("{time}");
            };
            assert_eq!(policy.metadata.managed_fields, None);
            assert_eq!(policy.metadata.labels.unwrap()["l"], "v");
            assert!(policy.spec.is_some());
        }
    }

    #[test]
    fn undecodable_object_does_not_hide_other_objects() {
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        let deep: Box<RawValue> = serde_json::from_str(&deep).unwrap();
        let mut unnamed = metadata_with_managed_fields("9999-12-31T23:59:59Z");
        unnamed["name"] = json!(1);
        let bad = [
            job(
                &metadata_with_managed_fields("9999-12-31T23:59:59Z"),
                &json!("w"),
            )
            .to_string(),
            format!(
                "{{\"metadata\":{},\"spec\":{deep}}}",
                metadata_with_managed_fields("")
            ),
            job(&unnamed, &json!([])).to_string(),
            "null".to_owned(),
        ];
        let valid = job(
            &metadata_with_managed_fields("9999-12-31T23:59:59Z"),
            &json!([]),
        );
        let list = format!(
            r#"{{"kind": "L", "apiVersion": "v1", "metadata": {{"resourceVersion": "7"}}, "items": [{},{valid}]}}"#,
            bad.join(",")
        );
        let list: ObjectList<WatchedItem<TrainingJob>> = serde_json::from_str(&list).unwrap();
        let read: Vec<_> = list
            .items
            .iter()
            .map(|item| {
                let meta = item.meta();
                let is_object = matches!(item, WatchedItem::Object(_));
                (is_object, meta.name.as_deref(), meta.uid.as_deref())
            })
            .collect();
        assert_eq!(
            read,
            [
                (false, Some("j"), Some("u")),
                (false, Some("j"), Some("u")),
                (false, None, Some("u")),
                (false, None, None),
                (true, Some("j"), Some("u")),
            ]
        );
    }

    #[test]
    fn event_is_read_when_its_object_does_not_decode() {
        let object = job(
            &metadata_with_managed_fields("9999-12-31T23:59:59Z"),
            &json!("w"),
        );
        let event = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
        let event: WatchEvent<WatchedItem<TrainingJob>> = serde_json::from_str(&event).unwrap();
        let WatchEvent::Modified(WatchedItem::Undecodable { meta, error }) = event else {
            panic!("{event:?}");
        };
        assert_eq!(meta.resource_version.as_deref(), Some("5"));
        assert_eq!(meta.generation, Some(2));
        assert_eq!(error, "invalid type: string \"w\", expected a sequence");
    }
}
