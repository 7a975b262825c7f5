//! Priority: sets the priority of a pod from its PriorityClass.

use serde_json::Value;

use super::{AdmissionRequest, Operation};
use crate::kind::KindRef;
use crate::object::{fields_mut, text_at};
use crate::status::Status;

const PRIORITY_CLASSES: KindRef = KindRef::new("scheduling.k8s.io", "priorityclasses");

pub(super) fn admit_pod(request: &AdmissionRequest<'_>, pod: &mut Value) -> Result<(), Status> {
    if request.operation == Operation::Update {
        // A replace may leave out what admission set.
        if let Some(old) = request.old {
            for field in ["priority", "preemptionPolicy"] {
                if let Some(value) = old["spec"].get(field) {
                    let spec = fields_mut(pod, "spec");
                    spec.entry(field).or_insert_with(|| value.clone());
                }
            }
        }
        return Ok(());
    }
    let name = text_at(pod, &["spec", "priorityClassName"]).to_owned();
    let class = if name.is_empty() {
        // The default class of the lowest priority counts.
        let classes = request.list(&PRIORITY_CLASSES, "");
        let defaults = classes.filter(|class| class["globalDefault"] == true);
        defaults.min_by_key(|class| class["value"].as_i64())
    } else {
        let class = request.get(&PRIORITY_CLASSES, "", &name);
        let missing = || request.forbid(&format!("no PriorityClass with name {name} was found"));
        Some(class.ok_or_else(missing)?)
    };
    let priority = class.and_then(|class| class["value"].as_i64()).unwrap_or(0);
    let policy = class.map_or("PreemptLowerPriority", |class| {
        let policy = text_at(class, &["preemptionPolicy"]);
        if policy.is_empty() {
            "PreemptLowerPriority"
        } else {
            policy
        }
    });
    let spec = fields_mut(pod, "spec");
    if let Some(given) = spec
        .get("priority")
        .filter(|given| given.as_i64() != Some(priority))
    {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        );
        return Err(request.forbid(&why));
    }
    let given = spec.get("preemptionPolicy").and_then(Value::as_str);
    if let Some(given) = given.filter(|given| *given != policy) {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(request.forbid(&why));
    }
    if let Some(class) = class {
        spec.insert("priorityClassName".to_owned(), class.name().into());
    }
    spec.insert("priority".to_owned(), priority.into());
    spec.insert("preemptionPolicy".to_owned(), policy.into());
    Ok(())
}
