//! Small plugins: NamespaceLifecycle, DefaultStorageClass and StorageObjectInUseProtection.

use serde_json::{Value, json};

use super::AdmissionRequest;
use crate::kind::KindRef;
use crate::object::{metadata_mut, text_at};
use crate::status::Status;

const NAMESPACES: KindRef = KindRef::new("", "namespaces");
const STORAGE_CLASSES: KindRef = KindRef::new("storage.k8s.io", "storageclasses");
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Refuses new objects in a namespace that is absent or being deleted.
pub(super) fn check_namespace(request: &AdmissionRequest<'_>) -> Result<(), Status> {
    let name = request.namespace;
    // A server without the kind Namespace has all namespaces.
    if name.is_empty() || request.store.find(&NAMESPACES).is_none() {
        return Ok(());
    }
    let Some(namespace) = request.get(&NAMESPACES, "", name) else {
        let kind = request
            .store
            .find(&NAMESPACES)
            .map(|id| request.store.kind(id));
        return Err(kind.map_or_else(Status::unknown_path, |kind| Status::not_found(kind, name)));
    };
    if text_at(namespace, &["status", "phase"]) != "Terminating" {
        return Ok(());
    }
    let why =
        format!("unable to create new content in namespace {name} because it is being terminated");
    let cause = format!("namespace {name} is being terminated");
    let status = request.forbid(&why);
    Err(status.with_cause("NamespaceTerminating", &cause, "metadata.namespace"))
}

pub(super) fn check_immortal(request: &AdmissionRequest<'_>) -> Result<(), Status> {
    if request.is_on("namespaces") && IMMORTAL.contains(&request.name) {
        return Err(request.forbid("this namespace may not be deleted"));
    }
    Ok(())
}

/// Gives a claim without a class the newest default class.
pub(super) fn set_storage_class(request: &AdmissionRequest<'_>, claim: &mut Value) {
    let has_class = claim["spec"].get("storageClassName").is_some();
    if has_class || claim["spec"].is_null() {
        return;
    }
    let default = "storageclass.kubernetes.io/is-default-class";
    let classes = request.list(&STORAGE_CLASSES, "");
    let defaults = classes.filter(|class| class["metadata"]["annotations"][default] == "true");
    let created =
        |class: &&crate::Object| text_at(class, &["metadata", "creationTimestamp"]).to_owned();
    // The first by name counts among classes of the same second.
    let newest = defaults.fold(None, |best: Option<&crate::Object>, class| match best {
        Some(best) if created(&best) >= created(&class) => Some(best),
        _ => Some(class),
    });
    if let Some(class) = newest {
        claim["spec"]["storageClassName"] = class.name().into();
    }
}

/// Adds the finalizer that keeps volumes and claims while they are in use.
pub(super) fn protect_storage(request: &AdmissionRequest<'_>, object: &mut Value) {
    let finalizer = if request.is_on("persistentvolumeclaims") {
        "kubernetes.io/pvc-protection"
    } else if request.is_on("persistentvolumes") {
        "kubernetes.io/pv-protection"
    } else {
        return;
    };
    let finalizers = metadata_mut(object)
        .entry("finalizers")
        .or_insert_with(|| json!([]));
    if let Some(finalizers) = finalizers.as_array_mut()
        && !finalizers.iter().any(|other| other == finalizer)
    {
        finalizers.push(finalizer.into());
    }
}
