//! Defaults of the built-in kinds (`defaults.go`).

mod pods;

use serde_json::{Map, Value, json};

use crate::kind::Kind;
use crate::object::{fields_mut, metadata_mut, text_at};

pub(crate) use pods::quality_of_service;

/// Sets the defaults that a real server sets when it decodes an object.
pub(crate) fn apply(kind: &Kind, object: &mut Value) {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => pods::set_pod_defaults(fields_mut(object, "spec")),
        ("", "services") => set_service_defaults(object),
        ("", "secrets") => set(object, "type", || json!("Opaque")),
        ("", "namespaces") => label_namespace(object),
        ("", "persistentvolumeclaims") => {
            set(&mut object["spec"], "volumeMode", || json!("Filesystem"));
        }
        ("", "persistentvolumes") => {
            let spec = &mut object["spec"];
            set(spec, "persistentVolumeReclaimPolicy", || json!("Retain"));
            set(spec, "volumeMode", || json!("Filesystem"));
            if let Some(path) = spec.get_mut("hostPath") {
                set(path, "type", || json!(""));
            }
        }
        // Go writes this struct even if it is empty.
        ("coordination.k8s.io", "leases") | ("", "resourcequotas") => {
            set(object, "spec", || json!({}));
        }
        ("events.k8s.io", "events") => set(object, "deprecatedSource", || json!({})),
        ("", "limitranges") => set_limit_defaults(object),
        ("", "nodes") => set_node_defaults(object),
        ("apps", "daemonsets") => set_daemon_set_defaults(object),
        ("apps" | "batch", _) => set_template_defaults(object),
        ("networking.k8s.io", "networkpolicies") => set_network_policy_defaults(object),
        ("scheduling.k8s.io", "priorityclasses") => {
            set(object, "preemptionPolicy", || json!("PreemptLowerPriority"));
        }
        ("storage.k8s.io", "storageclasses") => {
            set(object, "reclaimPolicy", || json!("Delete"));
            set(object, "volumeBindingMode", || json!("Immediate"));
        }
        (
            "admissionregistration.k8s.io",
            "validatingadmissionpolicies" | "mutatingadmissionpolicies",
        ) => {
            set(&mut object["spec"], "failurePolicy", || json!("Fail"));
            set_match_defaults(&mut object["spec"]["matchConstraints"]);
        }
        ("admissionregistration.k8s.io", _) => {
            if let Some(resources) = object.pointer_mut("/spec/matchResources") {
                set_match_defaults(resources);
            }
        }
        _ => {}
    }
}

/// Sets a field that is absent. Values that are no objects have no fields.
fn set(object: &mut Value, name: &str, value: impl FnOnce() -> Value) {
    if let Some(fields) = object.as_object_mut() {
        set_in(fields, name, value);
    }
}

fn set_in(fields: &mut Map<String, Value>, name: &str, value: impl FnOnce() -> Value) {
    if !fields.contains_key(name) {
        fields.insert(name.to_owned(), value());
    }
}

fn set_service_defaults(service: &mut Value) {
    let spec = &mut service["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    set(spec, "sessionAffinity", || json!("None"));
    set(spec, "type", || json!("ClusterIP"));
    if text_at(spec, &["sessionAffinity"]) == "ClientIP" {
        set(
            spec,
            "sessionAffinityConfig",
            || json!({"clientIP": {"timeoutSeconds": 10800}}),
        );
    }
    let kind = text_at(spec, &["type"]).to_owned();
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        set(port, "protocol", || json!("TCP"));
        let number = port["port"].clone();
        set(port, "targetPort", || number);
    }
    if spec["ports"].is_null()
        && let Some(fields) = spec.as_object_mut()
    {
        fields.shift_remove("ports");
    }
    if kind != "ExternalName" {
        set(spec, "internalTrafficPolicy", || json!("Cluster"));
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        set(spec, "externalTrafficPolicy", || json!("Cluster"));
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", || json!(true));
    }
}

fn label_namespace(namespace: &mut Value) {
    let name = text_at(namespace, &["metadata", "name"]).to_owned();
    if !name.is_empty() {
        let metadata = metadata_mut(namespace);
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        labels["kubernetes.io/metadata.name"] = name.into();
    }
}

fn set_node_defaults(node: &mut Value) {
    fields_mut(node, "spec");
    let capacity = node["status"]["capacity"].clone();
    let status = fields_mut(node, "status");
    status.shift_remove("capacity");
    if !capacity.is_null() {
        set_in(status, "allocatable", || capacity.clone());
        status.insert("capacity".to_owned(), capacity);
    }
    set_in(
        status,
        "daemonEndpoints",
        || json!({"kubeletEndpoint": {"Port": 0}}),
    );
    let info = [
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ];
    let node_info = fields_mut(&mut node["status"], "nodeInfo");
    for name in info {
        set_in(node_info, name, || json!(""));
    }
}

fn set_limit_defaults(range: &mut Value) {
    let limits = range["spec"]["limits"].as_array_mut();
    for limit in limits
        .into_iter()
        .flatten()
        .filter(|limit| limit["type"] == "Container")
    {
        for (target, source) in [
            ("default", "max"),
            ("defaultRequest", "default"),
            ("defaultRequest", "min"),
        ] {
            let source = limit.get(source).and_then(Value::as_object).cloned();
            let source = source.unwrap_or_default();
            if !source.is_empty() {
                let fields = fields_mut(limit, target);
                for (name, quantity) in source {
                    set_in(fields, &name, || quantity);
                }
            }
        }
    }
}

fn set_daemon_set_defaults(set_of_pods: &mut Value) {
    set_template_defaults(set_of_pods);
    let spec = &mut set_of_pods["spec"];
    set(spec, "updateStrategy", || json!({"type": "RollingUpdate"}));
    if let Some(strategy) = spec.get_mut("updateStrategy") {
        set(strategy, "type", || json!("RollingUpdate"));
        if strategy["type"] == "RollingUpdate" {
            let rolling = fields_mut(strategy, "rollingUpdate");
            set_in(rolling, "maxUnavailable", || json!(1));
            set_in(rolling, "maxSurge", || json!(0));
        }
    }
    set(spec, "revisionHistoryLimit", || json!(10));
}

fn set_template_defaults(object: &mut Value) {
    if let Some(template) = object.pointer_mut("/spec/template/spec")
        && let Some(spec) = template.as_object_mut()
    {
        pods::set_template_defaults(spec);
    }
}

fn set_network_policy_defaults(policy: &mut Value) {
    let spec = fields_mut(policy, "spec");
    let has_egress = spec.contains_key("egress");
    set_in(spec, "policyTypes", || {
        if has_egress {
            json!(["Ingress", "Egress"])
        } else {
            json!(["Ingress"])
        }
    });
    for direction in ["ingress", "egress"] {
        let rules = spec.get_mut(direction).and_then(Value::as_array_mut);
        for rule in rules.into_iter().flatten() {
            let ports = rule.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten() {
                set(port, "protocol", || json!("TCP"));
            }
        }
    }
}

fn set_match_defaults(resources: &mut Value) {
    if !resources.is_object() {
        return;
    }
    set(resources, "matchPolicy", || json!("Equivalent"));
    set(resources, "namespaceSelector", || json!({}));
    set(resources, "objectSelector", || json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        let rules = resources.get_mut(list).and_then(Value::as_array_mut);
        for rule in rules.into_iter().flatten() {
            set(rule, "scope", || json!("*"));
        }
    }
}
