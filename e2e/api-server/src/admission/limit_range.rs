//! LimitRanger: default requests and limits of containers, and their bounds.

use serde_json::{Map, Value, json};

use super::AdmissionRequest;
use crate::kind::KindRef;
use crate::object::{at, fields_mut, items_at, metadata_mut, text_at};
use crate::quantity::Quantity;
use crate::status::Status;

const LIMIT_RANGES: KindRef = KindRef::new("", "limitranges");

/// Returns the limits for containers of the namespace.
fn container_limits<'a>(request: &AdmissionRequest<'a>) -> impl Iterator<Item = &'a Value> {
    let ranges = request.list(&LIMIT_RANGES, request.namespace);
    let limits = ranges.flat_map(|range| items_at(range.value(), &["spec", "limits"]));
    limits.filter(|limit| limit["type"] == "Container")
}

pub(super) fn set_defaults(request: &AdmissionRequest<'_>, pod: &mut Value) -> Result<(), Status> {
    let mut notes = Vec::new();
    for limit in container_limits(request) {
        for (list, role) in [
            ("containers", "container"),
            ("initContainers", "init container"),
        ] {
            for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                let name = text_at(container, &["name"]).to_owned();
                for (source, target, word) in [
                    ("defaultRequest", "requests", "request"),
                    ("default", "limits", "limit"),
                ] {
                    let defaults = limit.get(source).and_then(Value::as_object);
                    let added = add_missing(container, target, defaults);
                    if !added.is_empty() {
                        notes.push(format!("{} {word} for {role} {name}", added.join(", ")));
                    }
                }
            }
        }
    }
    if let Some(spec) = pod["spec"].as_object_mut() {
        spec.retain(|_, value| !value.is_null());
    }
    if !notes.is_empty() {
        let annotations = metadata_mut(pod)
            .entry("annotations")
            .or_insert_with(|| json!({}));
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        annotations["kubernetes.io/limit-ranger"] = note.into();
    }
    Ok(())
}

fn add_missing(
    container: &mut Value,
    target: &str,
    defaults: Option<&Map<String, Value>>,
) -> Vec<String> {
    let mut added = Vec::new();
    for (name, quantity) in defaults.into_iter().flatten() {
        fields_mut(container, "resources");
        let amounts = fields_mut(&mut container["resources"], target);
        if !amounts.contains_key(name) {
            amounts.insert(name.clone(), quantity.clone());
            added.push(name.clone());
        }
    }
    added.sort();
    added
}

/// Refuses containers outside of the bounds.
pub(super) fn check(request: &AdmissionRequest<'_>) -> Result<(), Status> {
    let Some(pod) = request.object else {
        return Ok(());
    };
    let mut faults = Vec::new();
    for limit in container_limits(request) {
        for container in items_at(pod, &["spec", "containers"]) {
            for (bound, list, word) in
                [("min", "requests", "minimum"), ("max", "limits", "maximum")]
            {
                let bounds = at(limit, &[bound]).and_then(Value::as_object);
                for (name, enforced) in bounds.into_iter().flatten() {
                    let enforced = enforced.as_str().unwrap_or_default();
                    let text = text_at(container, &["resources", list, name]);
                    let given = Quantity::parse(text);
                    let enforced_value = Quantity::parse(enforced);
                    let one = list.trim_end_matches('s');
                    if given.is_none() {
                        faults.push(format!("{word} {name} usage per Container is {enforced}.  No {one} is specified"));
                    } else if bound == "min" && given < enforced_value
                        || bound == "max" && given > enforced_value
                    {
                        faults.push(format!(
                            "{word} {name} usage per Container is {enforced}, but {one} is {text}"
                        ));
                    }
                }
            }
        }
    }
    match faults.as_slice() {
        [] => Ok(()),
        [fault] => Err(request.forbid(fault)),
        all => Err(request.forbid(&format!("[{}]", all.join(", ")))),
    }
}
