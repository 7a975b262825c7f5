//! Rules for the content of built-in kinds. A real server has many more.

use serde_json::Value;

use crate::kind::Kind;
use crate::names::label_error;
use crate::object::{at, items_at, text_at};
use crate::quantity::Quantity;
use crate::status::Cause;

pub(super) fn validate(kind: &Kind, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => validate_pod(object, &mut causes),
        ("coordination.k8s.io", "leases") => validate_lease(object, &mut causes),
        ("events.k8s.io", "events") => validate_event(object, &mut causes),
        ("", "persistentvolumeclaims") => validate_claim(object, &mut causes),
        ("", "services") => validate_service(object, &mut causes),
        _ => {}
    }
    causes
}

fn validate_pod(pod: &Value, causes: &mut Vec<Cause>) {
    let containers = items_at(pod, &["spec", "containers"]);
    if containers.is_empty() {
        causes.push(Cause::required("spec.containers", ""));
    }
    let volumes = items_at(pod, &["spec", "volumes"]);
    let mut names: Vec<&str> = Vec::new();
    for list in ["containers", "initContainers"] {
        for (index, container) in items_at(pod, &["spec", list]).iter().enumerate() {
            let path = format!("spec.{list}[{index}]");
            validate_container(container, &path, &mut names, volumes, causes);
        }
    }
    let gates = items_at(pod, &["spec", "schedulingGates"]);
    if !gates.is_empty() && !text_at(pod, &["spec", "nodeName"]).is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        causes.push(Cause::forbidden("spec.nodeName", why));
    }
    let policy = text_at(pod, &["spec", "restartPolicy"]);
    if !matches!(policy, "Always" | "OnFailure" | "Never") {
        let message = format!(
            "Unsupported value: \"{policy}\": supported values: \"Always\", \"OnFailure\", \"Never\""
        );
        causes.push(Cause::new(
            "FieldValueNotSupported",
            "spec.restartPolicy",
            message,
        ));
    }
}

fn validate_container<'v>(
    container: &'v Value,
    path: &str,
    names: &mut Vec<&'v str>,
    volumes: &[Value],
    causes: &mut Vec<Cause>,
) {
    let name = text_at(container, &["name"]);
    let field = format!("{path}.name");
    if name.is_empty() {
        causes.push(Cause::required(field, ""));
    } else if let Some(why) = label_error(name) {
        causes.push(Cause::invalid(field, &name.into(), &why));
    } else if names.contains(&name) {
        let message = format!("Duplicate value: \"{name}\"");
        causes.push(Cause::new("FieldValueDuplicate", field, message));
    } else {
        names.push(name);
    }
    if text_at(container, &["image"]).is_empty() {
        causes.push(Cause::required(format!("{path}.image"), ""));
    }
    for (index, mount) in items_at(container, &["volumeMounts"]).iter().enumerate() {
        let name = text_at(mount, &["name"]);
        if !volumes.iter().any(|volume| volume["name"] == name) {
            let message = format!("Not found: \"{name}\"");
            let field = format!("{path}.volumeMounts[{index}].name");
            causes.push(Cause::new("FieldValueNotFound", field, message));
        }
    }
    let requests = at(container, &["resources", "requests"]).and_then(Value::as_object);
    for (resource, request) in requests.into_iter().flatten() {
        let limit = text_at(container, &["resources", "limits", resource]);
        let text = request.as_str().unwrap_or_default();
        let request = Quantity::parse(text);
        let limit_value = Quantity::parse(limit);
        if limit_value.is_some() && request > limit_value {
            let why = format!("must be less than or equal to {resource} limit of {limit}");
            causes.push(Cause::invalid(
                format!("{path}.resources.requests"),
                &text.into(),
                &why,
            ));
        }
        // Extended resources cannot be overcommitted.
        let is_extended = resource.contains('/') && !resource.starts_with("kubernetes.io/");
        if is_extended && limit.is_empty() {
            let why = "Limit must be set for non overcommitable resources";
            causes.push(Cause::required(format!("{path}.resources.limits"), why));
        } else if is_extended && request != limit_value {
            let why = format!("must be equal to {resource} limit of {limit}");
            causes.push(Cause::invalid(
                format!("{path}.resources.requests"),
                &text.into(),
                &why,
            ));
        }
    }
}

fn validate_lease(lease: &Value, causes: &mut Vec<Cause>) {
    let spec = &lease["spec"];
    if spec["leaseDurationSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds <= 0)
    {
        let value = &spec["leaseDurationSeconds"];
        causes.push(Cause::invalid(
            "spec.leaseDurationSeconds",
            value,
            "must be greater than 0",
        ));
    }
    if spec["leaseTransitions"]
        .as_i64()
        .is_some_and(|count| count < 0)
    {
        let value = &spec["leaseTransitions"];
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid("spec.leaseTransitions", value, why));
    }
}

fn validate_event(event: &Value, causes: &mut Vec<Cause>) {
    let regarding = text_at(event, &["regarding", "namespace"]);
    let namespace = text_at(event, &["metadata", "namespace"]);
    let expected = if regarding.is_empty() {
        "default"
    } else {
        regarding
    };
    if namespace != expected && !(regarding.is_empty() && namespace == "kube-system") {
        let value = Value::from(regarding);
        let why = "does not match event.namespace";
        causes.push(Cause::invalid("involvedObject.namespace", &value, why));
    }
    // The fields have the names of the internal type.
    for (name, field) in [
        ("eventTime", "eventTime"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
    ] {
        if text_at(event, &[name]).is_empty() {
            causes.push(Cause::required(field, ""));
        }
    }
    let kind = text_at(event, &["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        let message = format!("Invalid value: \"\": has invalid value: {kind}");
        causes.push(Cause::new("FieldValueInvalid", "type", message));
    }
}

fn validate_claim(claim: &Value, causes: &mut Vec<Cause>) {
    if items_at(claim, &["spec", "accessModes"]).is_empty() {
        causes.push(Cause::required(
            "spec.accessModes",
            "at least 1 access mode is required",
        ));
    }
    if text_at(claim, &["spec", "resources", "requests", "storage"]).is_empty() {
        causes.push(Cause::required("spec.resources[storage]", ""));
    }
}

fn validate_service(service: &Value, causes: &mut Vec<Cause>) {
    let is_headless = text_at(service, &["spec", "clusterIP"]) == "None";
    let is_external = text_at(service, &["spec", "type"]) == "ExternalName";
    if items_at(service, &["spec", "ports"]).is_empty() && !is_headless && !is_external {
        causes.push(Cause::required("spec.ports", ""));
    }
}
