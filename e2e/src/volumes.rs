//! Claims with volumes that the controller manager binds.

use std::path::Path;

use serde_json::{Value, json};

/// Returns a claim that names its volume, as YAML.
#[must_use]
pub fn claim_yaml(namespace: &str, name: &str) -> String {
    let claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": volume_name(namespace, name),
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    claim.to_string()
}

/// Returns the volume of [`claim_yaml`] as a folder of this machine, for real nodes, as YAML.
#[must_use]
pub fn folder_volume_yaml(namespace: &str, name: &str, path: &Path) -> String {
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name(namespace, name)},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": namespace, "name": name},
            "hostPath": {"path": path, "type": "Directory"},
        },
    });
    volume.to_string()
}

/// Returns the volume of [`claim_yaml`], as YAML. `nodes` is the node selector term of the volume;
/// null: all nodes.
#[must_use]
pub fn volume_yaml(namespace: &str, name: &str, nodes: &Value) -> String {
    let mut volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name(namespace, name)},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Ti"},
            "claimRef": {"namespace": namespace, "name": name},
            "nfs": {"server": "nfs.example", "path": "/"},
        },
    });
    if !nodes.is_null() {
        volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [nodes]}});
    }
    volume.to_string()
}

/// Returns claims that every node reaches, with their volumes, as YAML.
#[must_use]
pub fn bound_claims_yaml(namespace: &str, names: &[&str]) -> String {
    let class_and_claim = |name: &&str| {
        [
            claim_yaml(namespace, name),
            volume_yaml(namespace, name, &Value::Null),
        ]
    };
    let objects: Vec<String> = names.iter().flat_map(class_and_claim).collect();
    objects.join("\n---\n")
}

/// Returns a StorageClass that binds claims with their first consumer, as YAML. `provisioner`
/// creates the volumes; without one, only existing volumes are bound.
#[must_use]
pub fn late_binding_class_yaml(name: &str, provisioner: Option<&str>) -> String {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner.unwrap_or("kubernetes.io/no-provisioner"),
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    class.to_string()
}

/// Returns a claim of such a class, as YAML.
#[must_use]
pub fn late_binding_claim_yaml(
    namespace: &str,
    name: &str,
    class: &str,
    mode: &str,
    size: &str,
) -> String {
    let claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "accessModes": [mode],
            "storageClassName": class,
            "resources": {"requests": {"storage": size}},
        },
    });
    claim.to_string()
}

/// Returns a volume of 10Gi on one node, of such a class, as YAML.
#[must_use]
pub fn disk_yaml(name: &str, class: &str, node: &str) -> String {
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "capacity": {"storage": "10Gi"},
            "storageClassName": class,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/mnt/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
            ]}]}},
        },
    });
    volume.to_string()
}

fn volume_name(namespace: &str, claim: &str) -> String {
    format!("{namespace}-{claim}")
}
