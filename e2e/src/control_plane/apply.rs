//! Applies YAML like `kubectl apply --server-side`, without starting a process.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
    discovery::{self, Scope},
};
use serde_json::Value;

use super::ControlPlane;
use crate::wait::eventually;

/// The field manager of objects that tests apply.
pub const FIELD_MANAGER: &str = "trellis-e2e";

/// Longest time until a new CRD can be used.
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time until discovery shows an established kind.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(30);

impl ControlPlane {
    /// Applies every document of `yaml` in its order, by server-side apply with force, strictly (an
    /// unknown field is an error), and waits until a CRD can be used. Namespaced objects without a
    /// namespace go to `default`. Returns the stored objects.
    ///
    /// # Errors
    ///
    /// At the first refused object, with its kind and name.
    pub async fn apply_yaml(&self, yaml: &str) -> Result<Vec<DynamicObject>> {
        apply(&self.client(), yaml, "default").await
    }

    /// Like [`ControlPlane::apply_yaml`], with another default namespace.
    ///
    /// # Errors
    ///
    /// The first refusal, with the kind and name of the object.
    pub async fn apply_yaml_in(&self, namespace: &str, yaml: &str) -> Result<Vec<DynamicObject>> {
        apply(&self.client(), yaml, namespace).await
    }
}

/// Applies every document of `yaml` with the rights of `client`.
///
/// # Errors
///
/// At the first refused object, with its kind and name; the `kube::Error` is in the chain.
pub async fn apply(client: &Client, yaml: &str, namespace: &str) -> Result<Vec<DynamicObject>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).context("read YAML")?;
    let mut stored = Vec::new();
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        let object: DynamicObject = serde_json::from_value(document)?;
        stored.push(apply_one(client, &object, namespace).await?);
    }
    Ok(stored)
}

async fn apply_one(
    client: &Client,
    object: &DynamicObject,
    namespace: &str,
) -> Result<DynamicObject> {
    let types = object
        .types
        .as_ref()
        .context("a document without apiVersion and kind")?;
    let name = object.name_any();
    let what = format!("{} \"{name}\"", types.kind);
    let gvk = GroupVersionKind::try_from(types)?;
    let (resource, scope) = resolve_kind(client, &gvk)
        .await
        .with_context(|| format!("apply {what}"))?;
    let api: Api<DynamicObject> = match scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let namespace = object.namespace().unwrap_or_else(|| namespace.to_owned());
            Api::namespaced_with(client.clone(), &namespace, &resource)
        }
    };
    let params = PatchParams::apply(FIELD_MANAGER)
        .force()
        .validation_strict();
    let stored = api
        .patch(&name, &params, &Patch::Apply(object))
        .await
        .with_context(|| format!("apply {what}"))?;
    if types.kind == "CustomResourceDefinition" {
        wait_until_established(&api, &name).await?;
    }
    Ok(stored)
}

/// Returns the resource of a kind. Discovery shows a newly established CRD after a moment.
async fn resolve_kind(client: &Client, gvk: &GroupVersionKind) -> Result<(ApiResource, Scope)> {
    eventually(DISCOVERY_TIMEOUT, || async {
        let (resource, capabilities) = discovery::pinned_kind(client, gvk).await?;
        Ok((resource, capabilities.scope))
    })
    .await
}

async fn wait_until_established(api: &Api<DynamicObject>, name: &str) -> Result<()> {
    eventually(ESTABLISHED_TIMEOUT, || async {
        let crd = api.get(name).await?;
        let conditions = crd
            .data
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        let established = conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
        if !established {
            bail!(
                "CustomResourceDefinition \"{name}\" is not established: {}",
                crd.data["status"]
            );
        }
        Ok(())
    })
    .await
}
