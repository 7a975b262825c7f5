//! Builds the `podTemplate` from fields without a short form. It keeps the fields that Trellis
//! accepts there, and adds notes about the others.

use serde_json::Value;
use trellis_api::job::Framework;
use trellis_api::pod_template::MAIN_CONTAINER;
use trellis_api::{PodTemplate, Violation};

use super::traced_value::TracedValue;
use crate::field_log::FieldLog;

/// Returns the template without the fields that Trellis refuses. A note reports each of them. None:
/// the template is empty.
pub(crate) fn build_template(
    mut traced: TracedValue,
    framework: Framework,
    log: &FieldLog,
) -> Option<PodTemplate> {
    // Each iteration removes a part, so the loop ends.
    while let Some(template) = parse_template(&traced) {
        let Some(violation) = first_violation(&template, &traced, framework) else {
            return Some(template);
        };
        let (reason, instead) = split_message(&violation.message);
        match traced.remove(&violation.path) {
            Some(removed) => log.note(removed.origin(), Some(&removed.value()), reason, instead),
            None => {
                log.add_problem(traced.origin(), violation.message);
                return None;
            }
        }
    }
    None
}

/// Parses the template. None: it is empty, or it is no valid template, which a note reports.
fn parse_template(traced: &TracedValue) -> Option<PodTemplate> {
    let has_content = |part: &TracedValue| {
        let fields = ["metadata", "spec"].into_iter().filter_map(|f| part.get(f));
        fields.into_iter().any(|field| !field.is_empty())
    };
    if !has_content(traced) {
        return None;
    }
    serde_json::from_value(remove_empty(traced.value())).ok()
}

/// Removes empty lists and mappings of the first levels.
fn remove_empty(mut template: Value) -> Value {
    let is_nothing = |value: &Value| {
        value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(serde_json::Map::is_empty)
    };
    if let Some(template) = template.as_object_mut() {
        for part in template.values_mut() {
            if let Some(part) = part.as_object_mut() {
                part.retain(|key, value| key == "securityContext" || !is_nothing(value));
            }
        }
        template.retain(|_, part| !is_nothing(part));
    }
    template
}

fn first_violation(
    template: &PodTemplate,
    traced: &TracedValue,
    framework: Framework,
) -> Option<Violation> {
    let all = template.violations().into_iter();
    all.chain(template.reserved_env(framework))
        .chain(dangling_mounts(traced))
        .next()
}

/// Returns the mounts of missing volumes. The API server would refuse the pod.
fn dangling_mounts(traced: &TracedValue) -> Vec<Violation> {
    let Some(spec) = traced.get("spec") else {
        return Vec::new();
    };
    let name = |volume: &TracedValue| volume.get("name").map(TracedValue::value);
    let volumes: Vec<_> = spec.get("volumes").into_iter().collect();
    let volumes: Vec<_> = volumes.iter().flat_map(|v| v.items()).map(name).collect();
    let mut found = Vec::new();
    for list in ["containers", "initContainers"] {
        let containers = spec.get(list).map(TracedValue::items).unwrap_or_default();
        for (c, container) in containers.iter().enumerate() {
            let mounts = container.get("volumeMounts").map(TracedValue::items);
            for (m, mount) in mounts.unwrap_or_default().iter().enumerate() {
                let volume = name(mount);
                let is_ours = volume.as_ref().is_some_and(|v| v == super::SHARED_MEMORY);
                if !is_ours && !volumes.contains(&volume) {
                    found.push(Violation {
                        path: format!("spec.{list}[{c}].volumeMounts[{m}]"),
                        message: "mounts a volume that does not exist: mount another".to_owned(),
                    });
                }
            }
        }
    }
    found
}

/// Splits the message of a rule at the colon into problem and fix.
fn split_message(message: &str) -> (String, String) {
    let (reason, instead) = message.split_once(": ").unwrap_or((message, ""));
    (reason.to_owned(), instead.to_owned())
}

/// Returns the main container's part of a template, if it has a field other than the name.
pub(crate) fn main_container_template(mut container: TracedValue) -> Option<TracedValue> {
    if container.is_empty() {
        return None;
    }
    let origin = format!("{}.name", container.origin());
    container.insert("name", TracedValue::leaf(&origin, MAIN_CONTAINER));
    Some(container)
}
