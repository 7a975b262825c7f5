//! Claims with volumes, as the controller manager binds them to each other.

use std::path::Path;

use serde_json::{Value, json};

/// A claim that names its volume, as YAML.
#[must_use]
pub fn claim(namespace: &str, name: &str) -> String {
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

/// The volume of [`claim`] that is a folder of this machine, as real nodes reach it, as YAML.
#[must_use]
pub fn folder(namespace: &str, name: &str, path: &Path) -> String {
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

/// The volume of [`claim`], as YAML; `nodes` is the term by which nodes reach it,
/// null for all.
#[must_use]
pub fn volume(namespace: &str, name: &str, nodes: &Value) -> String {
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

/// Claims that every node reaches, with their volumes, as YAML.
#[must_use]
pub fn bound(namespace: &str, names: &[&str]) -> String {
    let both = |name: &&str| {
        [
            claim(namespace, name),
            volume(namespace, name, &Value::Null),
        ]
    };
    let objects: Vec<String> = names.iter().flat_map(both).collect();
    objects.join("\n---\n")
}

fn volume_name(namespace: &str, claim: &str) -> String {
    format!("{namespace}-{claim}")
}
