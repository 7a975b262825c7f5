//! Rules for the metadata of all kinds.

use serde_json::Value;

use crate::kind::Kind;
use crate::names::{
    label_error, label_value_error, path_segment_error, qualified_name_error, subdomain_error,
};
use crate::object::{Object, at, finalizers, is_deleting, items_at, text_at};
use crate::status::Cause;

/// Most bytes of all annotations.
const MAX_ANNOTATIONS: usize = 256 * 1024;

pub(super) fn validate(kind: &Kind, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name_error: fn(&str) -> Option<String> = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "namespaces") => label_error,
        ("", "services") => label_error,
        ("rbac.authorization.k8s.io", _) => path_segment_error,
        _ => subdomain_error,
    };
    let prefix = text_at(object, &["metadata", "generateName"]);
    if !prefix.is_empty() {
        // A real server masks the dash at the end together with the character before it.
        let masked = prefix.strip_suffix('-').filter(|rest| !rest.is_empty());
        let masked = masked.map(|rest| {
            let kept = rest
                .char_indices()
                .next_back()
                .map_or(0, |(index, _)| index);
            format!("{}a", &rest[..kept])
        });
        if let Some(why) = name_error(masked.as_deref().unwrap_or(prefix)) {
            causes.push(Cause::invalid(
                "metadata.generateName",
                &prefix.into(),
                &why,
            ));
        }
    }
    let name = text_at(object, &["metadata", "name"]);
    if name.is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else if let Some(why) = name_error(name) {
        causes.push(Cause::invalid("metadata.name", &name.into(), &why));
    }
    let entries = |field: &str| {
        let fields = at(object, &["metadata", field]).and_then(Value::as_object);
        fields.into_iter().flatten()
    };
    for (key, value) in entries("labels") {
        if let Some(why) = qualified_name_error(key) {
            causes.push(Cause::invalid(
                "metadata.labels",
                &key.as_str().into(),
                &why,
            ));
        }
        if let Some(why) = label_value_error(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("metadata.labels", value, &why));
        }
    }
    let mut size = 0;
    for (key, value) in entries("annotations") {
        if let Some(why) = qualified_name_error(&key.to_lowercase()) {
            causes.push(Cause::invalid(
                "metadata.annotations",
                &key.as_str().into(),
                &why,
            ));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_ANNOTATIONS {
        let message = format!("Too long: may not be more than {MAX_ANNOTATIONS} bytes");
        causes.push(Cause::new(
            "FieldValueTooLong",
            "metadata.annotations",
            message,
        ));
    }
    for (index, owner) in items_at(object, &["metadata", "ownerReferences"])
        .iter()
        .enumerate()
    {
        let path = format!("metadata.ownerReferences[{index}]");
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text_at(owner, &[field]).is_empty() {
                causes.push(Cause::required(
                    format!("{path}.{field}"),
                    "must not be empty",
                ));
            }
        }
    }
    let owners = items_at(object, &["metadata", "ownerReferences"]);
    if owners
        .iter()
        .filter(|owner| owner["controller"] == true)
        .count()
        > 1
    {
        let why = "Only one reference can have Controller set to true";
        causes.push(Cause::invalid(
            "metadata.ownerReferences",
            &owners.into(),
            why,
        ));
    }
    for (index, finalizer) in finalizers(object).iter().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        let standard = ["orphan", "foregroundDeletion", "kubernetes"];
        if let Some(why) = qualified_name_error(name) {
            causes.push(Cause::invalid("metadata.finalizers", finalizer, &why));
        } else if !name.contains('/') && !standard.contains(&name) && !kind.is_custom() {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            let path = format!("metadata.finalizers[{index}]");
            causes.push(Cause::invalid(path, finalizer, why));
        }
    }
    causes
}

pub(super) fn validate_change(object: &Value, old: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    let uid = text_at(object, &["metadata", "uid"]);
    if uid != old.uid() {
        causes.push(Cause::invalid(
            "metadata.uid",
            &uid.into(),
            "field is immutable",
        ));
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let value = &object["metadata"][field];
        if *value != old["metadata"][field] {
            let path = format!("metadata.{field}");
            causes.push(Cause::invalid(path, value, "field is immutable"));
        }
    }
    let known = finalizers(old);
    let new: Vec<&str> = finalizers(object)
        .iter()
        .filter(|finalizer| !known.contains(finalizer))
        .filter_map(Value::as_str)
        .collect();
    if is_deleting(old) && !new.is_empty() {
        let list: Vec<String> = new.iter().map(|name| format!("{name:?}")).collect();
        let list = list.join(", ");
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
        );
        causes.push(Cause::forbidden("metadata.finalizers", &why));
    }
    causes
}
