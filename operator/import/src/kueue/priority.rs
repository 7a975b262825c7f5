//! WorkloadPriorityClass.

use k8s_openapi::api::scheduling::v1::PriorityClass;

use crate::context::Context;
use crate::fields::Fields;
use crate::metadata;
use crate::object::Object;

/// The highest value of a PriorityClass that users make (Kubernetes keeps those above).
const HIGHEST: i32 = 1_000_000_000;

/// Converts a WorkloadPriorityClass.
pub(crate) fn workload_priority_class(root: &Fields<'_>, _: &Context) -> Vec<Object> {
    let Some(metadata) = metadata::read(root, false) else {
        return Vec::new();
    };
    let description = root.text("description");
    let Some(value) = root.small("value") else {
        if !root.log().is_taken("value") {
            root.log().wrong("value", "is required: add it");
        }
        return Vec::new();
    };
    if value > HIGHEST {
        let message = format!("is {value}, and a PriorityClass has at most {HIGHEST}: lower it");
        root.log().wrong("value", message);
    }
    root.log().note(
        "value",
        Some(&value.into()),
        "orders the queue alone there; the PriorityClass that is made is one that pods bear too",
        "",
    );
    vec![Object::PriorityClass(PriorityClass {
        metadata,
        value: Some(value),
        description,
        ..PriorityClass::default()
    })]
}
