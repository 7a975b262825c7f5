//! Defaults of pods and pod templates.

use serde_json::{Map, Value, json};

use super::{set, set_in};
use crate::object::{at, fields_mut, items_at, text_at};
use crate::quantity::Quantity;

/// Sets the defaults of a pod: those of a template, and requests from limits.
pub(super) fn set_pod_defaults(spec: &mut Map<String, Value>) {
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let limits = at(container, &["resources", "limits"]).and_then(Value::as_object);
            let limits = limits.cloned().unwrap_or_default();
            if !limits.is_empty() {
                let requests = fields_mut(&mut container["resources"], "requests");
                for (name, quantity) in limits {
                    set_in(requests, &name, || quantity);
                }
            }
        }
    }
    set_in(spec, "enableServiceLinks", || json!(true));
    set_template_defaults(spec);
}

pub(super) fn set_template_defaults(spec: &mut Map<String, Value>) {
    let account = ["serviceAccountName", "serviceAccount"]
        .into_iter()
        .find_map(|name| spec.get(name).cloned());
    if let Some(account) = account {
        set_in(spec, "serviceAccountName", || account.clone());
        let name = spec["serviceAccountName"].clone();
        spec.insert("serviceAccount".to_owned(), name);
    }
    set_in(spec, "dnsPolicy", || json!("ClusterFirst"));
    set_in(spec, "restartPolicy", || json!("Always"));
    set_in(spec, "securityContext", || json!({}));
    set_in(spec, "terminationGracePeriodSeconds", || json!(30));
    if spec["terminationGracePeriodSeconds"].as_i64() < Some(0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), json!(1));
    }
    set_in(spec, "schedulerName", || json!("default-scheduler"));
    let is_on_host = spec.get("hostNetwork") == Some(&json!(true));
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            set_container_defaults(container, is_on_host);
        }
    }
    let volumes = spec.get_mut("volumes").and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten() {
        set_volume_defaults(volume);
    }
}

fn set_container_defaults(container: &mut Value, is_on_host: bool) {
    let policy = match image_tag(text_at(container, &["image"])) {
        "latest" => "Always",
        _ => "IfNotPresent",
    };
    set(container, "imagePullPolicy", || json!(policy));
    set(container, "terminationMessagePath", || {
        json!("/dev/termination-log")
    });
    set(container, "terminationMessagePolicy", || json!("File"));
    // Go writes this struct even if it is empty.
    set(container, "resources", || json!({}));
    for port in container["ports"].as_array_mut().into_iter().flatten() {
        set(port, "protocol", || json!("TCP"));
        if is_on_host {
            let number = port["containerPort"].clone();
            set(port, "hostPort", || number);
        }
    }
    drop_null(container, "ports");
    for variable in container["env"].as_array_mut().into_iter().flatten() {
        if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef") {
            set(field, "apiVersion", || json!("v1"));
        }
        if let Some(field) = variable.pointer_mut("/valueFrom/resourceFieldRef") {
            set(field, "divisor", || json!("0"));
        }
    }
    drop_null(container, "env");
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get_mut(name) else {
            continue;
        };
        set(probe, "timeoutSeconds", || json!(1));
        set(probe, "periodSeconds", || json!(10));
        set(probe, "successThreshold", || json!(1));
        set(probe, "failureThreshold", || json!(3));
        if let Some(get) = probe.get_mut("httpGet") {
            set_http_get_defaults(get);
        }
        if let Some(grpc) = probe.get_mut("grpc") {
            set(grpc, "service", || json!(""));
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(get) = container.pointer_mut(&format!("/lifecycle/{hook}/httpGet")) {
            set_http_get_defaults(get);
        }
    }
}

fn set_http_get_defaults(get: &mut Value) {
    set(get, "path", || json!("/"));
    set(get, "scheme", || json!("HTTP"));
}

fn drop_null(object: &mut Value, name: &str) {
    if object[name].is_null()
        && let Some(fields) = object.as_object_mut()
    {
        fields.shift_remove(name);
    }
}

fn set_volume_defaults(volume: &mut Value) {
    let Some(fields) = volume.as_object_mut() else {
        return;
    };
    if fields.keys().all(|name| name == "name") {
        fields.insert("emptyDir".to_owned(), json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = fields.get_mut(source) {
            set(source, "defaultMode", || json!(420));
        }
    }
    if let Some(path) = fields.get_mut("hostPath") {
        set(path, "type", || json!(""));
    }
    let items = fields
        .get_mut("downwardAPI")
        .and_then(|source| source.get_mut("items"));
    set_downward_defaults(items);
    if let Some(sources) = fields
        .get_mut("projected")
        .and_then(|p| p["sources"].as_array_mut())
    {
        for source in sources {
            if let Some(token) = source.get_mut("serviceAccountToken") {
                set(token, "expirationSeconds", || json!(3600));
            }
            set_downward_defaults(source.pointer_mut("/downwardAPI/items"));
        }
    }
    if let Some(claim) = fields.get_mut("ephemeral")
        && let Some(spec) = claim.pointer_mut("/volumeClaimTemplate/spec")
    {
        set(spec, "volumeMode", || json!("Filesystem"));
    }
}

fn set_downward_defaults(items: Option<&mut Value>) {
    for item in items.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(field) = item.get_mut("fieldRef") {
            set(field, "apiVersion", || json!("v1"));
        }
    }
}

/// Returns the tag of an image. Without a tag and a digest: `latest`.
fn image_tag(image: &str) -> &str {
    if image.contains('@') {
        return "";
    }
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split_once(':').map_or("latest", |(_, tag)| tag)
}

/// Returns the class of a pod by its requests and limits of CPU and memory.
pub(crate) fn quality_of_service(pod: &Value) -> &'static str {
    let containers = items_at(pod, &["spec", "containers"]).iter();
    let containers: Vec<&Value> = containers
        .chain(items_at(pod, &["spec", "initContainers"]))
        .collect();
    let quantity = |container: &Value, list: &str, name: &str| {
        let text = text_at(container, &["resources", list, name]);
        Quantity::parse(text).filter(|quantity| !quantity.is_zero())
    };
    let names = ["cpu", "memory"];
    let mut all = containers.iter().flat_map(|c| {
        names.map(|name| (quantity(c, "requests", name), quantity(c, "limits", name)))
    });
    let is_guaranteed = all
        .clone()
        .all(|(request, limit)| limit.is_some() && request == limit);
    if is_guaranteed && !containers.is_empty() {
        "Guaranteed"
    } else if all.any(|(request, limit)| request.is_some() || limit.is_some()) {
        "Burstable"
    } else {
        "BestEffort"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_without_a_tag_is_the_latest() {
        for (image, tag) in [
            ("busybox", "latest"),
            ("host.example:5000/a/busybox", "latest"),
            ("busybox:1.36", "1.36"),
            ("busybox@sha256:abc", ""),
        ] {
            assert_eq!(image_tag(image), tag, "{image}");
        }
    }

    #[test]
    fn class_follows_requests_and_limits() {
        let pod = |resources: Value| json!({"spec": {"containers": [{"resources": resources}]}});
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let guaranteed = pod(json!({"requests": both, "limits": both}));
        assert_eq!(quality_of_service(&guaranteed), "Guaranteed");
        let burstable = pod(json!({"requests": {"cpu": "1"}}));
        assert_eq!(quality_of_service(&burstable), "Burstable");
        let other = pod(json!({"limits": {"example.com/gpu": "1"}}));
        assert_eq!(quality_of_service(&other), "BestEffort");
    }
}
