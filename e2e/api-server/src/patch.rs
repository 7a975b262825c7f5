//! Patches: merge, strategic merge, and JSON.

use serde_json::{Map, Value};

use crate::server::Call;
use crate::status::Status;

/// The kind of a patch, by its content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Merge,
    Strategic,
    Json,
}

impl PatchKind {
    pub(crate) fn parse(call: &Call<'_>) -> Result<Self, Status> {
        const JSON: &str = "application/json-patch+json";
        const MERGE: &str = "application/merge-patch+json";
        const STRATEGIC: &str = "application/strategic-merge-patch+json";
        let is_custom = call.kind.is_custom();
        match call.content_type {
            MERGE => Ok(Self::Merge),
            STRATEGIC if !is_custom => Ok(Self::Strategic),
            JSON => Ok(Self::Json),
            _ if is_custom => {
                let accepted = [JSON, MERGE, "application/apply-patch+yaml"];
                Err(Status::unsupported_media_type(&accepted))
            }
            _ => {
                let accepted = [JSON, MERGE, STRATEGIC, "application/apply-patch+yaml"];
                Err(Status::unsupported_media_type(&accepted).with_empty_details())
            }
        }
    }

    pub(crate) fn apply(self, current: &Value, patch: &Value) -> Result<Value, Status> {
        let mut object = current.clone();
        match self {
            Self::Json => apply_json_patch(&mut object, patch)?,
            Self::Merge | Self::Strategic if !patch.is_object() => {
                return Err(Status::bad_request(
                    "error decoding patch: the patch is no object",
                ));
            }
            Self::Merge => merge(&mut object, patch),
            Self::Strategic => merge_strategically(&mut object, patch, ""),
        }
        if object.is_object() {
            Ok(object)
        } else {
            Err(Status::bad_request("the patch leaves no object"))
        }
    }
}

/// JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Some(changes) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else {
        return;
    };
    for (name, change) in changes {
        if change.is_null() {
            fields.shift_remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

/// Lists that a strategic merge patch merges by a key of their items, by the name of the field
/// (`patchMergeKey` of the Go types). All other lists are replaced.
const MERGE_KEYS: &[(&str, &str)] = &[
    ("conditions", "type"),
    ("containers", "name"),
    ("env", "name"),
    ("ephemeralContainers", "name"),
    ("hostAliases", "ip"),
    ("imagePullSecrets", "name"),
    ("initContainers", "name"),
    ("ownerReferences", "uid"),
    ("podIPs", "ip"),
    ("hostIPs", "ip"),
    ("resourceClaims", "name"),
    ("schedulingGates", "name"),
    ("topologySpreadConstraints", "topologyKey"),
    ("volumeDevices", "devicePath"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];

/// Lists of plain values that are merged as sets.
const MERGED_SETS: &[&str] = &["finalizers"];

fn merge_strategically(target: &mut Value, patch: &Value, parent: &str) {
    let Some(changes) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if changes
        .get("$patch")
        .is_some_and(|directive| directive == "replace")
    {
        let mut replacement = patch.clone();
        if let Some(fields) = replacement.as_object_mut() {
            fields.shift_remove("$patch");
        }
        *target = replacement;
        return;
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else {
        return;
    };
    for (name, change) in changes {
        if name == "$patch" || name.starts_with("$setElementOrder/") || name == "$retainKeys" {
            continue;
        }
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = change.as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(items) = fields.get_mut(list).and_then(Value::as_array_mut) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if change.is_null() {
            fields.shift_remove(name);
            continue;
        }
        let field = fields.entry(name.clone()).or_insert(Value::Null);
        let key = merge_key(name, parent);
        match (change.as_array(), key) {
            (Some(changes), Some(key)) => merge_list(field, changes, key),
            (Some(changes), None) if MERGED_SETS.contains(&name.as_str()) => {
                let live = field.as_array().cloned().unwrap_or_default();
                let position = |item: &Value| live.iter().position(|other| other == item);
                let rest = live.iter().filter(|item| !changes.contains(item));
                let items = interleave(changes, rest, position);
                *field = items.into();
            }
            (Some(_), None) => *field = change.clone(),
            (None, _) => merge_strategically(field, change, name),
        }
    }
}

fn merge_key(name: &str, parent: &str) -> Option<&'static str> {
    match (name, parent) {
        // Ports of a Service have another key than those of a container.
        ("ports", "spec") => Some("port"),
        ("ports", _) => Some("containerPort"),
        ("addresses", "status") => Some("type"),
        _ => MERGE_KEYS
            .iter()
            .find(|(list, _)| *list == name)
            .map(|(_, key)| *key),
    }
}

fn merge_list(field: &mut Value, changes: &[Value], key: &str) {
    if changes.iter().any(|change| change["$patch"] == "replace") {
        let rest = changes
            .iter()
            .filter(|change| change["$patch"] != "replace");
        *field = rest.cloned().collect();
        return;
    }
    let live = field.as_array().cloned().unwrap_or_default();
    let position = |item: &Value| live.iter().position(|other| other[key] == item[key]);
    let rest = live
        .iter()
        .filter(|item| changes.iter().all(|change| change[key] != item[key]));
    let kept: Vec<Value> = changes
        .iter()
        .filter(|change| change["$patch"] != "delete")
        .cloned()
        .collect();
    let merged = interleave(&kept, rest, position).into_iter().map(|item| {
        let Some(change) = kept.iter().find(|change| change[key] == item[key]) else {
            return item;
        };
        let mut merged = position(change).map_or(Value::Null, |at| live[at].clone());
        merge_strategically(&mut merged, change, "");
        merged
    });
    *field = merged.collect();
}

/// Orders the items of a merged list (`mergeSortedSlice`): those that the patch names come in its
/// order, and the others as in the live list, each before the first item of the patch that it was
/// in front of. A new item is before all that remain.
fn interleave<'v>(
    changes: &[Value],
    rest: impl Iterator<Item = &'v Value>,
    position: impl Fn(&Value) -> Option<usize>,
) -> Vec<Value> {
    let mut rest = rest.peekable();
    let mut merged = Vec::new();
    for change in changes {
        let at = position(change);
        while let Some(item) = rest.next_if(|item| at.is_some() && position(item) < at) {
            merged.push(item.clone());
        }
        merged.push(change.clone());
    }
    merged.extend(rest.cloned());
    merged
}

/// JSON patch (RFC 6902).
fn apply_json_patch(object: &mut Value, patch: &Value) -> Result<(), Status> {
    let operations = patch.as_array();
    let operations = operations.ok_or_else(|| Status::bad_request("error decoding patch"))?;
    for operation in operations {
        let path = operation["path"].as_str().unwrap_or_default();
        apply_operation(object, operation, path).ok_or_else(|| {
            let message = "the server rejected our request due to an error in our request";
            Status::new(422, "Invalid", message).with_empty_details()
        })?;
    }
    Ok(())
}

fn apply_operation(object: &mut Value, operation: &Value, path: &str) -> Option<()> {
    match operation["op"].as_str()? {
        "add" => insert(object, path, operation["value"].clone()),
        "replace" => {
            *object.pointer_mut(path)? = operation["value"].clone();
            Some(())
        }
        "remove" => remove(object, path).map(drop),
        "test" => (object.pointer(path)? == &operation["value"]).then_some(()),
        "move" => {
            let value = remove(object, operation["from"].as_str()?)?;
            insert(object, path, value)
        }
        "copy" => {
            let value = object.pointer(operation["from"].as_str()?)?.clone();
            insert(object, path, value)
        }
        _ => None,
    }
}

fn split_pointer(path: &str) -> Option<(&str, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn insert(object: &mut Value, path: &str, value: Value) -> Option<()> {
    let (parent, last) = split_pointer(path)?;
    match object.pointer_mut(parent)? {
        Value::Object(fields) => drop(fields.insert(last, value)),
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let index: usize = last.parse().ok()?;
            (index <= items.len()).then(|| items.insert(index, value))?;
        }
        _ => return None,
    }
    Some(())
}

fn remove(object: &mut Value, path: &str) -> Option<Value> {
    let (parent, last) = split_pointer(path)?;
    match object.pointer_mut(parent)? {
        Value::Object(fields) => fields.shift_remove(&last),
        Value::Array(items) => {
            let index: usize = last.parse().ok()?;
            (index < items.len()).then(|| items.remove(index))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merge_patch_removes_fields_by_null_and_replaces_lists() {
        let object = json!({"a": {"b": 1, "c": 2}, "list": [1, 2]});
        let patch = json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "list": [3]});
        let merged = PatchKind::Merge.apply(&object, &patch);
        assert_eq!(
            merged,
            Ok(json!({"a": {"c": 2, "d": {"f": 1}}, "list": [3]}))
        );
    }

    #[test]
    fn strategic_patch_merges_conditions_by_type() {
        let object = json!({"status": {"conditions": [
            {"type": "A", "status": "True", "reason": "x"}, {"type": "B", "status": "True"}]}});
        let patch = json!({"status": {"conditions": [
            {"type": "A", "status": "False"}, {"type": "C", "status": "True"},
            {"type": "B", "$patch": "delete"}]}});
        let merged = PatchKind::Strategic
            .apply(&object, &patch)
            .expect("it applies");
        let expected = json!([{"type": "A", "status": "False", "reason": "x"}, {"type": "C", "status": "True"}]);
        assert_eq!(merged["status"]["conditions"], expected);
    }

    #[test]
    fn json_patch_fails_as_a_whole_if_a_test_fails() {
        let object = json!({"a": [1]});
        let patch = json!([{"op": "test", "path": "/a/0", "value": 1},
            {"op": "add", "path": "/a/-", "value": 2}]);
        let patched = PatchKind::Json.apply(&object, &patch);
        assert_eq!(patched, Ok(json!({"a": [1, 2]})));
        let patch = json!([{"op": "test", "path": "/a/0", "value": 2}]);
        let error = PatchKind::Json
            .apply(&object, &patch)
            .expect_err("the test fails");
        assert_eq!(error.code, 422);
    }
}
