//! The objects in which API servers read the authorities to trust.

use anyhow::{Context as _, bail};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tracing::info;
use trellis_api::names;
use trellis_dispatch::commands::WriteError;

/// The objects in which API servers read the authorities to trust.
#[derive(Clone, Debug)]
pub(super) enum TrustBundle {
    /// For webhooks: configurations with the name, of which at least one exists.
    Webhook(Vec<Api<DynamicObject>>, &'static str),
    /// For an API group.
    Group(Box<Api<APIService>>, &'static str),
}

impl TrustBundle {
    pub(super) fn webhook(client: &Client, name: &'static str) -> Self {
        let api = |resource| Api::all_with(client.clone(), &resource);
        let configurations = vec![
            api(ApiResource::erase::<ValidatingWebhookConfiguration>(&())),
            api(ApiResource::erase::<MutatingWebhookConfiguration>(&())),
        ];
        Self::Webhook(configurations, name)
    }

    pub(super) fn group(client: &Client, name: &'static str) -> Self {
        Self::Group(Box::new(Api::all(client.clone())), name)
    }

    /// Describes the object for a log.
    fn describe(&self, file: &str) -> String {
        match self {
            Self::Webhook(_, name) => {
                format!("the webhook configuration {name:?}: apply {file} of the chart")
            }
            Self::Group(_, name) => format!("the APIService {name:?}: apply {file} of the chart"),
        }
    }

    /// Writes these authorities to the objects, unless they already have them. Returns true if they
    /// had them.
    pub(super) async fn publish(&self, bundle: &str, file: &str) -> anyhow::Result<bool> {
        let what = || self.describe(file);
        let bytes = ByteString(bundle.as_bytes().to_vec());
        match self {
            Self::Webhook(configurations, name) => {
                let (mut exists, mut had_them) = (false, true);
                for api in configurations {
                    let object = match api.get(name).await.map_err(WriteError::from) {
                        Err(WriteError::NotFound(_)) => continue,
                        object => object.with_context(what)?,
                    };
                    let published = publish_to_webhooks(api, &object, &bytes).await;
                    had_them &= published.with_context(what)?;
                    exists = true;
                }
                if !exists {
                    bail!("{} does not exist", what());
                }
                Ok(had_them)
            }
            Self::Group(api, name) => {
                let object = api.get(name).await.map_err(WriteError::from);
                let object = object.with_context(what)?;
                let published = object
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.ca_bundle.as_ref());
                if published == Some(&bytes) {
                    return Ok(true);
                }
                let patch = json!({
                    "metadata": {"resourceVersion": object.metadata.resource_version},
                    "spec": {"caBundle": bytes},
                });
                patch_object(api, name, Patch::Merge(patch))
                    .await
                    .with_context(what)?;
                Ok(false)
            }
        }
    }
}

/// Writes the authorities to each webhook of a configuration. Returns true if all had them.
async fn publish_to_webhooks(
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    bundle: &ByteString,
) -> anyhow::Result<bool> {
    let bundle = json!(bundle);
    let webhooks = object.data.get("webhooks").and_then(Value::as_array);
    let Some(webhooks) = webhooks.filter(|webhooks| !webhooks.is_empty()) else {
        bail!("it has no webhooks");
    };
    if webhooks
        .iter()
        .all(|webhook| webhook.pointer("/clientConfig/caBundle") == Some(&bundle))
    {
        return Ok(true);
    }
    let webhooks_with_bundle = webhooks
        .iter()
        .map(|webhook| json!({"name": webhook.get("name"), "clientConfig": {"caBundle": bundle}}));
    let patch = json!({
        "metadata": {"resourceVersion": object.metadata.resource_version},
        "webhooks": webhooks_with_bundle.collect::<Vec<_>>(),
    });
    let name = object.metadata.name.as_deref().unwrap_or_default();
    patch_object(api, name, Patch::Strategic(patch)).await?;
    Ok(false)
}

async fn patch_object<K>(api: &Api<K>, name: &str, patch: Patch<Value>) -> Result<(), WriteError>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let params = PatchParams {
        field_manager: Some(names::MANAGER.to_owned()),
        ..PatchParams::default()
    };
    match api
        .patch(name, &params, &patch)
        .await
        .map_err(WriteError::from)
    {
        Ok(_) => {
            info!(name, "the CA bundle for API servers is published");
            Ok(())
        }
        // Another replica has written them.
        Err(WriteError::Conflict(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
