//! Fields of built-in kinds that an update may not change.

use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::{at, items_at, text_at};
use crate::status::Cause;

pub(super) fn validate(kind: &Kind, object: &Value, old: &Value) -> Vec<Cause> {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => validate_pod(object, old),
        ("", "configmaps" | "secrets") => validate_data(object, old),
        ("", "persistentvolumeclaims") => validate_claim(object, old),
        ("", "services") => {
            let path = ["spec", "clusterIP"];
            let (new, before) = (text_at(object, &path), text_at(old, &path));
            let is_changed = !before.is_empty() && new != before;
            let why = "field is immutable";
            let cause = Cause::invalid("spec.clusterIPs[0]", &json!([new]), why);
            is_changed.then_some(cause).into_iter().collect()
        }
        ("scheduling.k8s.io", "priorityclasses") => {
            let fields = ["value", "preemptionPolicy"].into_iter();
            let changed = fields.filter(|field| object.get(field) != old.get(field));
            let why = "may not be changed in an update.";
            changed
                .map(|field| match field {
                    "value" => Cause::forbidden(field, why),
                    _ => Cause::invalid(field, &object[field], "field is immutable"),
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

fn validate_data(object: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if old["immutable"] == true {
        if object["immutable"] != true {
            let why = "field is immutable when `immutable` is set";
            causes.push(Cause::forbidden("immutable", why));
        }
        for field in ["data", "binaryData"] {
            if object.get(field) != old.get(field) {
                let why = "field is immutable when `immutable` is set";
                causes.push(Cause::forbidden(field, why));
            }
        }
    }
    if object.get("type") != old.get("type") {
        causes.push(Cause::invalid(
            "type",
            &object["type"],
            "field is immutable",
        ));
    }
    causes
}

fn validate_claim(object: &Value, old: &Value) -> Vec<Cause> {
    let comparable = |claim: &Value, other: &Value| {
        let mut spec = claim["spec"].clone();
        let Some(fields) = spec.as_object_mut() else {
            return spec;
        };
        fields.shift_remove("resources");
        fields.shift_remove("volumeAttributesClassName");
        // A claim without a volume may get one.
        if text_at(other, &["spec", "volumeName"]).is_empty() {
            fields.shift_remove("volumeName");
        }
        spec
    };
    if comparable(object, old) == comparable(old, old) {
        return Vec::new();
    }
    let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    vec![Cause::forbidden("spec", why)]
}

/// Only images, deadlines, additional tolerations and fewer scheduling gates may change. While a
/// pod is gated, its node selector and affinity may get narrower too.
fn validate_pod(object: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let tolerations = items_at(object, &["spec", "tolerations"]);
    let kept = items_at(old, &["spec", "tolerations"]).iter();
    let gone = kept.filter(|before| {
        !tolerations
            .iter()
            .any(|new| is_same_toleration(new, before))
    });
    if gone.count() > 0 {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        causes.push(Cause::forbidden("spec.tolerations", why));
    }
    let gates = items_at(old, &["spec", "schedulingGates"]);
    let added = items_at(object, &["spec", "schedulingGates"])
        .iter()
        .enumerate();
    for (index, gate) in added.filter(|(_, gate)| !gates.contains(gate)) {
        let name = text_at(gate, &["name"]);
        let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
        let field = format!("spec.schedulingGates[{index}].name");
        causes.push(Cause::forbidden(field, &why));
    }
    if comparable_spec(object, old) != comparable_spec(old, old) {
        let why = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        causes.push(Cause::forbidden("spec", why));
    }
    causes
}

fn is_same_toleration(one: &Value, other: &Value) -> bool {
    let fields = ["key", "operator", "value", "effect"];
    fields
        .into_iter()
        .all(|field| one.get(field) == other.get(field))
}

fn comparable_spec(pod: &Value, old: &Value) -> Value {
    let mut spec = pod["spec"].clone();
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            container["image"] = Value::Null;
        }
    }
    let Some(fields) = spec.as_object_mut() else {
        return spec;
    };
    for free in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        fields.shift_remove(free);
    }
    fields.retain(|_, value| !value.is_null());
    if !items_at(old, &["spec", "schedulingGates"]).is_empty() {
        let selector = at(old, &["spec", "nodeSelector"]).and_then(Value::as_object);
        let mut selector = selector.into_iter().flatten();
        let new = fields.get("nodeSelector").cloned().unwrap_or_default();
        if selector.all(|(key, value)| new.get(key) == Some(value)) {
            fields.shift_remove("nodeSelector");
        }
        fields.shift_remove("affinity");
    }
    spec
}
