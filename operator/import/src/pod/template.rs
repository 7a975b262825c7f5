//! Builds the `podTemplate` from fields without a short form: keeps the fields that Trellis accepts
//! there and notes the rest.

use serde_json::Value;
use trellis_api::job::Framework;
use trellis_api::pod_template::MAIN_CONTAINER;
use trellis_api::{PodTemplate, Violation};

use super::kept::Kept;
use crate::log::Log;

/// The template without the fields that Trellis refuses there, which are noted. None: nothing is
/// left.
pub(crate) fn checked(mut kept: Kept, framework: Framework, log: &Log) -> Option<PodTemplate> {
    // Each iteration removes a part, so the loop ends.
    while let Some(template) = of(&kept) {
        let Some(violation) = first(&template, &kept, framework) else {
            return Some(template);
        };
        let (why, instead) = said(&violation.message);
        match kept.remove(&violation.path) {
            Some(removed) => log.note(removed.origin(), Some(&removed.value()), why, instead),
            None => {
                log.wrong(kept.origin(), violation.message);
                return None;
            }
        }
    }
    None
}

/// None if nothing is left, or if the rest is no template, which has been noted.
fn of(kept: &Kept) -> Option<PodTemplate> {
    let says_something = |part: &Kept| {
        let fields = ["metadata", "spec"].into_iter().filter_map(|f| part.get(f));
        fields.into_iter().any(|field| !field.is_empty())
    };
    if !says_something(kept) {
        return None;
    }
    serde_json::from_value(without_empty(kept.value())).ok()
}

/// Lists and mappings of the first levels that were emptied would only be noise.
fn without_empty(mut template: Value) -> Value {
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

fn first(template: &PodTemplate, kept: &Kept, framework: Framework) -> Option<Violation> {
    let all = template.violations().into_iter();
    all.chain(template.reserved_env(framework))
        .chain(dangling(kept))
        .next()
}

/// Mounts of volumes that are not there: the API server would refuse the pod.
fn dangling(kept: &Kept) -> Vec<Violation> {
    let Some(spec) = kept.get("spec") else {
        return Vec::new();
    };
    let name = |kept: &Kept| kept.get("name").map(Kept::value);
    let volumes: Vec<_> = spec.get("volumes").into_iter().collect();
    let volumes: Vec<_> = volumes.iter().flat_map(|v| v.items()).map(name).collect();
    let mut found = Vec::new();
    for list in ["containers", "initContainers"] {
        let containers = spec.get(list).map(Kept::items).unwrap_or_default();
        for (c, container) in containers.iter().enumerate() {
            let mounts = container.get("volumeMounts").map(Kept::items);
            for (m, mount) in mounts.unwrap_or_default().iter().enumerate() {
                let volume = name(mount);
                let is_ours = volume.as_ref().is_some_and(|v| v == super::SHARED_MEMORY);
                if !is_ours && !volumes.contains(&volume) {
                    found.push(Violation {
                        path: format!("spec.{list}[{c}].volumeMounts[{m}]"),
                        message: "mounts a volume that is not there: mount another".to_owned(),
                    });
                }
            }
        }
    }
    found
}

/// Splits a rule's message at the colon into the problem and the fix.
fn said(message: &str) -> (String, String) {
    let (why, instead) = message.split_once(": ").unwrap_or((message, ""));
    (why.to_owned(), instead.to_owned())
}

/// The main container's part of a template, if it says something beside the name.
pub(crate) fn main_container(mut container: Kept) -> Option<Kept> {
    if container.is_empty() {
        return None;
    }
    let origin = format!("{}.name", container.origin());
    container.put("name", Kept::leaf(&origin, MAIN_CONTAINER));
    Some(container)
}
