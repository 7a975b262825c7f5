//! Dependencies of a workload: Secrets, Services and volumes.

use std::collections::BTreeMap;

use serde_json::json;
use trellis_api::job::{JobSecret, SecretStore, SecretStoreKind, TrafficRule};

use crate::draft::JobDraft;
use crate::fields::Fields;

/// Reads the resources that a workload declares.
pub(super) fn read_dependencies(workload: &Fields<'_>, draft: &mut JobDraft) {
    for (name, resource) in workload.object_entries("resources") {
        match resource.text("type").as_deref() {
            Some("secret") => read_secret(&name, &resource, draft),
            Some("service") => read_service(&name, &resource, draft),
            Some("volume") => resource.note(
                "is a volume that Lattice creates, and Trellis creates none",
                "create a PersistentVolumeClaim of that name",
            ),
            Some("external-service") => resource.note(
                "is outside of the cluster, and in Trellis the network is closed",
                "open its addresses in spec.network.egress",
            ),
            _ => resource.note("has a type that Trellis does not support", "leave it out"),
        }
    }
}

/// Reads a secret of an external store. In both systems External Secrets fetches it.
fn read_secret(name: &str, resource: &Fields<'_>, draft: &mut JobDraft) {
    resource.ignore(&["direction"]);
    let params = resource.object("params");
    let (id, store) = (
        resource.text("id"),
        params.as_ref().and_then(|params| params.text("provider")),
    );
    let keys = params
        .map(|params| params.texts("keys"))
        .unwrap_or_default();
    let (Some(id), Some(store)) = (id, store) else {
        resource.note(
            "does not state where the secret is stored",
            "create a Secret of that name, or write it into spec.secrets",
        );
        return;
    };
    if draft.spec.secrets.iter().any(|secret| secret.name == name) {
        return;
    }
    let data = keys.iter().map(|key| (key.clone(), format!("{id}#{key}")));
    let data: BTreeMap<String, String> = data.collect();
    if data.is_empty() {
        resource.note_at(
            "params",
            "names no keys, and Trellis needs the name of each",
            "add them to spec.secrets[].data",
        );
        return;
    }
    resource.log().note(
        &resource.field_path("params.provider"),
        Some(&json!(store)),
        "is a SecretProvider of Lattice, and becomes a ClusterSecretStore of External Secrets with that name",
        "correct spec.secrets[].store if the store has another name (docs/secrets.md)",
    );
    draft.spec.secrets.push(JobSecret {
        name: name.to_owned(),
        store: Some(SecretStore {
            kind: SecretStoreKind::ClusterSecretStore,
            name: store,
        }),
        data,
        refresh_seconds: None,
    });
}

/// Reads a Service that the pods connect to. The network policy allows no other connections.
fn read_service(name: &str, resource: &Fields<'_>, draft: &mut JobDraft) {
    let direction = resource.text("direction");
    let id = resource.text("id").unwrap_or_else(|| name.to_owned());
    let mut rule = TrafficRule::default();
    match resource.text("namespace") {
        Some(namespace) => {
            resource.note_at(
                "namespace",
                "has a service of another namespace, and Trellis opens the whole namespace",
                "close it with a NetworkPolicy in that namespace, or name addresses in spec.network",
            );
            rule.namespace = Some(namespace);
        }
        None => rule.service = Some(id),
    }
    let network = draft.spec.network.get_or_insert_default();
    let (out, inward) = match direction.as_deref() {
        Some("inbound") => (false, true),
        Some("both") => (true, true),
        None | Some("outbound") => (true, false),
        Some(_) => {
            let message = "must be inbound, outbound or both: write one of them";
            resource
                .log()
                .add_problem(&resource.field_path("direction"), message);
            return;
        }
    };
    for (is_needed, rules) in [(out, &mut network.egress), (inward, &mut network.ingress)] {
        if is_needed && !rules.contains(&rule) {
            rules.push(rule.clone());
        }
    }
}
