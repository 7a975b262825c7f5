//! The field managers of Trellis, in the `managedFields` of objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta};
use serde_json::{Map, Value};
use trellis_api::names;

/// The field managers that only the operator uses.
const OPERATOR_MANAGERS: [&str; 3] = [
    names::COMPILER_MANAGER,
    names::SCHEDULER_MANAGER,
    names::STATUS_MANAGER,
];

/// Returns the entries of the operator.
pub(crate) fn operator_entries(metadata: &ObjectMeta) -> impl Iterator<Item = &ManagedFieldsEntry> {
    let entries = metadata.managed_fields.iter().flatten();
    entries.filter(|entry| is_operator_entry(entry))
}

fn is_operator_entry(entry: &ManagedFieldsEntry) -> bool {
    let manager = entry.manager.as_deref();
    manager.is_some_and(|manager| OPERATOR_MANAGERS.contains(&manager))
}

/// Returns true if the entry is about the status.
pub(crate) fn is_of_status(entry: &ManagedFieldsEntry) -> bool {
    entry.subresource.as_deref() == Some("status")
}

/// Returns true if the entry owns a field of the spec.
pub(crate) fn owns_spec(entry: &ManagedFieldsEntry) -> bool {
    let fields = entry.fields_v1.as_ref();
    fields.is_some_and(|fields| fields.0.get("f:spec").is_some())
}

/// Drops the lists of owned fields, which are as long as the object. The entries of the operator
/// keep the names of their top-level fields.
pub(crate) fn drop_field_lists(metadata: &mut ObjectMeta) {
    for entry in metadata.managed_fields.iter_mut().flatten() {
        let fields = entry.fields_v1.take();
        if is_operator_entry(entry) {
            entry.fields_v1 = fields.map(|fields| FieldsV1(keep_top_level(&fields.0)));
        }
    }
}

fn keep_top_level(fields: &Value) -> Value {
    let fields = fields.as_object().into_iter().flatten();
    let names = fields.map(|(name, _)| (name.clone(), Value::Object(Map::new())));
    Value::Object(names.collect())
}
