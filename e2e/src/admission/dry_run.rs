//! Objects that are applied without being stored.

use anyhow::{Context as _, Result};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{self, Scope};
use kube::{Client, ResourceExt as _};

use crate::control_plane::FIELD_MANAGER;

/// Applies an object without storing it, strictly: an unknown field is an error. A namespaced
/// object goes to its own namespace, or to `namespace` if it names none.
///
/// # Errors
///
/// When the API server refuses the object or does not know its kind.
pub async fn dry_run(
    client: &Client,
    object: &DynamicObject,
    namespace: Option<&str>,
) -> Result<()> {
    let types = object.types.as_ref().context("no apiVersion and kind")?;
    let kind = GroupVersionKind::try_from(types)?;
    let (resource, capabilities) = discovery::pinned_kind(client, &kind).await?;
    let mut object = object.clone();
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let own = object.namespace();
            let namespace = namespace.map(str::to_owned).or(own);
            let namespace = namespace.context("no namespace")?;
            object.metadata.namespace = Some(namespace.clone());
            Api::namespaced_with(client.clone(), &namespace, &resource)
        }
    };
    let params = PatchParams::apply(FIELD_MANAGER)
        .force()
        .dry_run()
        .validation_strict();
    // An apply does not accept `generateName`, so this uses a name that it could generate.
    let generated = object.metadata.generate_name.take();
    let name = object.metadata.name.clone();
    let name = name.or_else(|| generated.map(|prefix| format!("{prefix}xxxxx")));
    let name = name.context("no name")?;
    object.metadata.name = Some(name.clone());
    api.patch(&name, &params, &Patch::Apply(&object)).await?;
    Ok(())
}
