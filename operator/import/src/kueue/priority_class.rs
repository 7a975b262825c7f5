//! WorkloadPriorityClass.

use k8s_openapi::api::scheduling::v1::PriorityClass;

use crate::context::ImportContext;
use crate::fields::Fields;
use crate::imported_object::ImportedObject;
use crate::metadata;

/// Greatest value of a user's PriorityClass. Kubernetes reserves greater values.
const MAX_PRIORITY: i32 = 1_000_000_000;

/// Converts a WorkloadPriorityClass.
pub(crate) fn convert_priority_class(root: &Fields<'_>, _: &ImportContext) -> Vec<ImportedObject> {
    let Some(metadata) = metadata::read_metadata(root, false) else {
        return Vec::new();
    };
    let description = root.text("description");
    let Some(value) = root.small_integer("value") else {
        if !root.log().is_read("value") {
            root.log().add_problem("value", "is required: add it");
        }
        return Vec::new();
    };
    if value > MAX_PRIORITY {
        let message =
            format!("is {value}, and a PriorityClass has at most {MAX_PRIORITY}: lower it");
        root.log().add_problem("value", message);
    }
    root.log().note(
        "value",
        Some(&value.into()),
        "orders only the queue in Kueue; the created PriorityClass also applies to pods",
        "",
    );
    vec![ImportedObject::PriorityClass(PriorityClass {
        metadata,
        value: Some(value),
        description,
        ..PriorityClass::default()
    })]
}
