//! Objects as the API server lists them, whether or not they decode.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use serde_json::value::RawValue;
use trellis_api::TrainingJob;
use trellis_cache::Undecodable;
use trellis_cache::watch::Sink;
use trellis_gang::key::Key;

use super::watch_stream::{Answers, follow_answers};
use crate::Target;

/// The target. An object that does not decode keeps its name and uid, and hides no other object.
pub const TARGET: Target = Target {
    check,
    words: &[
        "metadata",
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "managedFields",
        "spec",
        "status",
        "taskGroups",
        "labels",
        "apiVersion",
        "kind",
        "{\"a\":",
        "[[[[",
        "]]]]",
    ],
    inputs_per_case: 64,
};

const GOOD: &str = r#"{"metadata": {"name": "good", "namespace": "a", "uid": "good"},
    "spec": {"taskGroups": []}}"#;

fn check(input: &[u8]) {
    let Some(text) = crate::text(input) else {
        return;
    };
    if serde_json::from_str::<&RawValue>(text).is_err() {
        return;
    }
    let list = format!(r#"{{"metadata": {{"resourceVersion": "5"}}, "items": [{text}, {GOOD}]}}"#);
    let objects = Arc::new(ObjectSink::default());
    follow_answers::<TrainingJob, _>(Answers::new(list), objects.clone());
    let uids = objects.uids.lock();
    assert_eq!(
        uids.get(&Key::new("a", "good")).map(String::as_str),
        Some("good")
    );
    // JSON that is nested too deep has no value here.
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return;
    };
    let word = |field: &str| value["metadata"][field].as_str();
    let Some(name) = word("name").filter(|name| *name != "good") else {
        return;
    };
    let key = Key::new(word("namespace").unwrap_or_default(), name);
    assert_eq!(
        uids.get(&key).map(String::as_str),
        Some(word("uid").unwrap_or_default())
    );
}

/// Records the uids of all objects.
#[derive(Default)]
struct ObjectSink {
    uids: Mutex<BTreeMap<Key, String>>,
}

impl Sink<TrainingJob> for ObjectSink {
    fn apply(&self, key: Key, object: TrainingJob) {
        let uid = object.metadata.uid.unwrap_or_default();
        self.uids.lock().insert(key, uid);
    }

    fn undecodable(&self, key: &Key, object: Undecodable) {
        assert!(!object.error.is_empty());
        self.uids.lock().insert(key.clone(), object.uid);
    }

    fn delete(&self, _: &Key, _: &str) {}

    fn synced(&self) {}
}
