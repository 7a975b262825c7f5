//! Fields that the server itself writes at a create or an update (`strategy.go` of each kind).

use serde_json::{Map, Value, json};

use crate::defaults::quality_of_service;
use crate::kind::{Generation, Kind};
use crate::object::{Object, at, fields_mut, items_at, metadata_mut, take_field, text_at};
use crate::server::Call;
use crate::store::Store;
use crate::time::render_time;

/// The part of an object that a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusWrite {
    /// All but the status.
    Main,
    /// The status.
    Status,
    /// The finalizers in the spec of a namespace.
    Finalize,
}

pub(crate) fn prepare_for_create(call: &Call<'_>, object: &mut Value, store: &mut Store) {
    let kind = &call.kind;
    if kind.rules.generation != Generation::Absent {
        metadata_mut(object).insert("generation".to_owned(), 1.into());
    }
    if kind.is_custom() {
        if kind.has_status
            && let Some(fields) = object.as_object_mut()
        {
            take_field(fields, "status");
        }
        return;
    }
    let now = render_time(call.now);
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => prepare_pod(object, &now),
        ("", "namespaces") => {
            let spec = fields_mut(object, "spec");
            spec.insert("finalizers".to_owned(), json!(["kubernetes"]));
            object["status"] = json!({"phase": "Active"});
        }
        ("", "persistentvolumeclaims") => object["status"] = json!({"phase": "Pending"}),
        ("", "persistentvolumes") => {
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
        }
        ("", "services") => {
            allocate_address(object, store);
            object["status"] = json!({"loadBalancer": {}});
        }
        ("", "resourcequotas") => object["status"] = json!({}),
        ("apps", "daemonsets") => {
            let metadata = metadata_mut(object);
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            annotations["deprecated.daemonset.template.generation"] = "1".into();
            object["status"] = json!({
                "currentNumberScheduled": 0, "numberMisscheduled": 0,
                "desiredNumberScheduled": 0, "numberReady": 0,
            });
        }
        ("policy", "poddisruptionbudgets") => {
            object["status"] = json!({
                "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0,
                "expectedPods": 0,
            });
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => {
            object["status"] = json!({});
        }
        ("apps" | "batch", _) if kind.has_status => object["status"] = json!({}),
        ("", "secrets") => merge_string_data(object),
        _ => {}
    }
}

fn prepare_pod(pod: &mut Value, now: &str) {
    let mut status = json!({"phase": "Pending", "qosClass": quality_of_service(pod)});
    if !items_at(pod, &["spec", "schedulingGates"]).is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": now,
        }]);
    }
    pod["status"] = status;
}

/// Moves `stringData` into `data`, as the conversion of Secrets does.
fn merge_string_data(secret: &mut Value) {
    let Some(fields) = secret.as_object_mut() else {
        return;
    };
    let plain = take_field(fields, "stringData");
    let Some(Value::Object(plain)) = plain else {
        return;
    };
    let data = fields_mut(secret, "data");
    for (name, value) in plain {
        let text = value.as_str().unwrap_or_default();
        data.insert(name, encode_base64(text.as_bytes()).into());
    }
}

fn encode_base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let digit = bits >> (18 - 6 * index) & 63;
            let is_padding = index > chunk.len();
            out.push(if is_padding {
                '='
            } else {
                char::from(DIGITS[digit as usize])
            });
        }
    }
    out
}

/// Gives a Service an address of 10.96.0.0/16, in the order of creation.
fn allocate_address(service: &mut Value, store: &mut Store) {
    if text_at(service, &["spec", "type"]) == "ExternalName" {
        return;
    }
    let address = match text_at(service, &["spec", "clusterIP"]) {
        "" => {
            let number = store.next_number() % 65_000 + 10;
            format!("10.96.{}.{}", number / 256, number % 256)
        }
        given => given.to_owned(),
    };
    // A headless service whose endpoints come from elsewhere may have addresses of both families.
    let is_dual = address == "None" && at(service, &["spec", "selector"]).is_none();
    let (families, policy) = match is_dual {
        true => (json!(["IPv4", "IPv6"]), "RequireDualStack"),
        false => (json!(["IPv4"]), "SingleStack"),
    };
    let spec = fields_mut(service, "spec");
    spec.insert("clusterIP".to_owned(), address.as_str().into());
    spec.insert("clusterIPs".to_owned(), json!([address]));
    spec.entry("ipFamilies").or_insert(families);
    spec.entry("ipFamilyPolicy").or_insert(policy.into());
}

/// Keeps what a write of one part may not change, and counts the generation.
pub(crate) fn prepare_for_update(kind: &Kind, object: &mut Value, old: &Object, part: StatusWrite) {
    match part {
        StatusWrite::Main if kind.has_status => keep_field(object, old, "status"),
        StatusWrite::Main => {}
        StatusWrite::Status if kind.rules.status_keeps_metadata => {
            let status = object.get("status").cloned();
            let managed = object["metadata"].get("managedFields").cloned();
            *object = old.value().clone();
            set_field(object, "status", status);
            set_field(&mut object["metadata"], "managedFields", managed);
        }
        StatusWrite::Status => {
            keep_field(object, old, "spec");
            if kind.is_core("pods") {
                let owners = old["metadata"].get("ownerReferences").cloned();
                set_field(&mut object["metadata"], "ownerReferences", owners);
                set_field(&mut object["metadata"], "deletionTimestamp", None);
                let class = old["status"].get("qosClass").cloned();
                let status = fields_mut(object, "status");
                if let Some(class) = class {
                    status.entry("qosClass").or_insert(class);
                }
            }
        }
        StatusWrite::Finalize => {
            let finalizers = at(object, &["spec", "finalizers"]).cloned();
            keep_field(object, old, "spec");
            keep_field(object, old, "status");
            set_field(&mut object["spec"], "finalizers", finalizers);
        }
    }
    if kind.is_core("namespaces") && part == StatusWrite::Main {
        keep_field(object, old, "spec");
    }
    if kind.is_core("secrets") {
        merge_string_data(object);
    }
    let old_metadata = &old["metadata"];
    for name in ["creationTimestamp", "generation"] {
        set_field(
            &mut object["metadata"],
            name,
            old_metadata.get(name).cloned(),
        );
    }
    // A write cannot take a deletion back. Validation refuses one that begins a deletion.
    for name in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if let Some(value) = old_metadata.get(name) {
            set_field(&mut object["metadata"], name, Some(value.clone()));
        }
    }
    if object["metadata"].get("uid").is_none() {
        set_field(
            &mut object["metadata"],
            "uid",
            old_metadata.get("uid").cloned(),
        );
    }
    set_field(&mut object["metadata"], "selfLink", None);
    count_generation(kind, object, old);
}

fn count_generation(kind: &Kind, object: &mut Value, old: &Object) {
    let is_changed = match kind.rules.generation {
        Generation::Absent | Generation::Constant => false,
        Generation::Spec => object.get("spec") != old.get("spec"),
        Generation::Content => {
            let content = |value: &Value| -> Map<String, Value> {
                let mut fields = value.as_object().cloned().unwrap_or_default();
                fields.shift_remove("metadata");
                if kind.has_status {
                    fields.shift_remove("status");
                }
                fields
            };
            content(object) != content(old)
        }
    };
    if is_changed {
        let before = at(old, &["metadata", "generation"]).and_then(Value::as_i64);
        metadata_mut(object).insert("generation".to_owned(), (before.unwrap_or(0) + 1).into());
    }
}

fn keep_field(object: &mut Value, old: &Value, name: &str) {
    set_field(object, name, old.get(name).cloned());
}

fn set_field(object: &mut Value, name: &str, value: Option<Value>) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    match value {
        Some(value) => drop(fields.insert(name.to_owned(), value)),
        None => drop(take_field(fields, name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_padded() {
        for (text, encoded) in [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj")] {
            assert_eq!(encode_base64(text.as_bytes()), encoded);
        }
    }
}
