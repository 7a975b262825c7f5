//! Paths that name no resource: discovery, version and health.

use std::collections::BTreeSet;
use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::{Value, json};

use crate::kind::Kind;
use crate::status::{json_answer, text_answer};
use crate::store::Store;

/// The version of Kubernetes that the rules of this crate follow.
const VERSION: (&str, &str) = ("1", "37");

pub(crate) fn answer(store: &Store, path: &str) -> http::Response<Bytes> {
    let segments: Vec<&str> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    let value = match segments.as_slice() {
        ["version"] => json!({
            "major": VERSION.0, "minor": VERSION.1,
            "gitVersion": format!("v{}.{}.0", VERSION.0, VERSION.1), "platform": "linux/amd64",
        }),
        ["healthz" | "livez" | "readyz", ..] => return text_answer(200, "ok"),
        ["api"] => json!({"kind": "APIVersions", "versions": ["v1"]}),
        ["api", "v1"] => resources(store, "", "v1"),
        ["apis"] => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups(store)}),
        ["apis", group] => match groups(store)
            .into_iter()
            .find(|other| other["name"] == *group)
        {
            Some(mut found) => {
                found["kind"] = "APIGroup".into();
                found["apiVersion"] = "v1".into();
                found
            }
            None => Value::Null,
        },
        ["apis", group, version] => resources(store, group, version),
        _ => Value::Null,
    };
    match value {
        Value::Null => text_answer(404, "404 page not found\n"),
        value => json_answer(200, &value),
    }
}

fn groups(store: &Store) -> Vec<Value> {
    let kinds = store.kinds().iter().filter(|kind| !kind.group.is_empty());
    let all: BTreeSet<(&str, &str)> = kinds
        .map(|kind| (kind.group.as_str(), kind.version.as_str()))
        .collect();
    let group = |(group, version): (&str, &str)| {
        let version = json!({"groupVersion": format!("{group}/{version}"), "version": version});
        json!({"name": group, "versions": [version], "preferredVersion": version})
    };
    all.into_iter().map(group).collect()
}

fn resources(store: &Store, group: &str, version: &str) -> Value {
    let kinds = store.kinds().iter();
    let kinds: Vec<&Arc<Kind>> = kinds
        .filter(|kind| kind.group == group && kind.version == version)
        .collect();
    let Some(first) = kinds.first() else {
        return Value::Null;
    };
    let verbs = json!([
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch"
    ]);
    let mut all = Vec::new();
    for kind in &kinds {
        all.push(json!({
            "name": kind.plural, "singularName": kind.kind.to_lowercase(),
            "namespaced": kind.namespaced, "kind": kind.kind, "verbs": verbs,
        }));
        if kind.has_status {
            all.push(json!({
                "name": format!("{}/status", kind.plural), "singularName": "",
                "namespaced": kind.namespaced, "kind": kind.kind,
                "verbs": ["get", "patch", "update"],
            }));
        }
    }
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": first.api_version(),
        "resources": all,
    })
}
