//! Rewrites a decoded object of a built-in kind as Go's `omitempty` and quantities do.

use serde_json::{Map, Value};

use crate::quantity::Quantity;

/// Fields whose value maps names to values. Their empty values stay, but the map goes if it is
/// empty.
const MAPS: &[&str] = &[
    "annotations",
    "binaryData",
    "data",
    "labels",
    "matchLabels",
    "nodeSelector",
    "parameters",
    "stringData",
    "disruptedPods",
    "volumeAttributes",
];

/// Fields whose value maps resources to quantities.
const QUANTITY_MAPS: &[&str] = &[
    "allocatable",
    "allocatedResources",
    "capacity",
    "default",
    "defaultRequest",
    "hard",
    "limits",
    "max",
    "maxLimitRequestRatio",
    "min",
    "overhead",
    "requests",
    "used",
];

/// Strings that Go keeps when they are empty, because the field is a pointer or always written.
const KEPT_STRINGS: &[&str] = &[
    "holderIdentity",
    "storageClassName",
    "name",
    "key",
    "image",
    "path",
    "mountPath",
    "type",
    "status",
    "preemptionPolicy",
    "podInfoOnMount",
];

/// Booleans that Go drops when they are false.
const DROPPED_BOOLEANS: &[&str] = &[
    "globalDefault",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "publishNotReadyAddresses",
    "readOnly",
    "stdin",
    "stdinOnce",
    "tty",
    "unschedulable",
];

/// Numbers that Go drops when they are zero.
const DROPPED_NUMBERS: &[&str] = &[
    "failureThreshold",
    "generation",
    "hostPort",
    "initialDelaySeconds",
    "minReadySeconds",
    "nodePort",
    "observedGeneration",
    "periodSeconds",
    "successThreshold",
    "timeoutSeconds",
];

/// Drops the fields that Go's `omitempty` drops, and writes quantities in their canonical form.
pub(crate) fn drop_empty_fields(value: &mut Value) {
    match value {
        Value::Object(fields) => clean_fields(fields),
        Value::Array(items) => items.iter_mut().for_each(drop_empty_fields),
        _ => {}
    }
}

fn clean_fields(fields: &mut Map<String, Value>) {
    fields.retain(|name, value| {
        let name = name.as_str();
        match value {
            Value::Null => false,
            Value::Object(entries) if MAPS.contains(&name) => !entries.is_empty(),
            Value::Object(entries) if is_quantity_map(name, entries) => {
                for quantity in entries.values_mut() {
                    canonicalize(quantity);
                }
                !entries.is_empty()
            }
            Value::Object(_) if name == "fieldsV1" => true,
            Value::Array(items) => {
                items.iter_mut().for_each(drop_empty_fields);
                !items.is_empty()
            }
            Value::Object(_) => {
                drop_empty_fields(value);
                true
            }
            Value::String(text) => !text.is_empty() || KEPT_STRINGS.contains(&name),
            Value::Bool(false) => !DROPPED_BOOLEANS.contains(&name),
            Value::Number(number) => number.as_i64() != Some(0) || !DROPPED_NUMBERS.contains(&name),
            Value::Bool(true) => true,
        }
    });
    for name in ["sizeLimit", "divisor"] {
        if let Some(quantity) = fields.get_mut(name) {
            canonicalize(quantity);
        }
    }
}

/// In some kinds, a field of such a name is no map of quantities.
fn is_quantity_map(name: &str, entries: &Map<String, Value>) -> bool {
    QUANTITY_MAPS.contains(&name) && entries.values().all(|v| v.is_string() || v.is_number())
}

fn canonicalize(quantity: &mut Value) {
    let parsed = quantity.as_str().and_then(Quantity::parse);
    if let Some(parsed) = parsed {
        *quantity = parsed.to_string().into();
    }
}
