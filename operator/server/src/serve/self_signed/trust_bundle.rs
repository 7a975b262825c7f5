//! The object in which API servers read the authorities to trust.

use anyhow::{Context as _, bail};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tracing::info;
use trellis_api::names;
use trellis_dispatch::commands::WriteError;

/// The object in which API servers read the authorities to trust.
#[derive(Clone, Debug)]
pub(super) enum TrustBundle {
    /// For a webhook.
    Webhook(Api<ValidatingWebhookConfiguration>, &'static str),
    /// For an API group.
    Group(Api<APIService>, &'static str),
}

impl TrustBundle {
    pub(super) fn webhook(client: &Client, name: &'static str) -> Self {
        Self::Webhook(Api::all(client.clone()), name)
    }

    pub(super) fn group(client: &Client, name: &'static str) -> Self {
        Self::Group(Api::all(client.clone()), name)
    }

    /// Describes the object for a log.
    fn describe(&self, file: &str) -> String {
        match self {
            Self::Webhook(_, name) => {
                format!("the ValidatingWebhookConfiguration {name:?}: apply {file} of the chart")
            }
            Self::Group(_, name) => format!("the APIService {name:?}: apply {file} of the chart"),
        }
    }

    /// Writes these authorities to the object, unless it already has them. Returns true if it had
    /// them.
    pub(super) async fn publish(&self, bundle: &str, file: &str) -> anyhow::Result<bool> {
        let what = || self.describe(file);
        let bytes = ByteString(bundle.as_bytes().to_vec());
        match self {
            Self::Webhook(api, name) => {
                let object = api.get(name).await.map_err(WriteError::from);
                let object = object.with_context(what)?;
                let hooks = object.webhooks.unwrap_or_default();
                if hooks.is_empty() {
                    bail!("{} has no webhooks in it", what());
                }
                let is_told = |bundle: &Option<ByteString>| bundle.as_ref() == Some(&bytes);
                if hooks.iter().all(|h| is_told(&h.client_config.ca_bundle)) {
                    return Ok(true);
                }
                let hooks_with_bundle = hooks
                    .iter()
                    .map(|hook| json!({"name": hook.name, "clientConfig": {"caBundle": bytes}}));
                let patch = json!({
                    "metadata": {"resourceVersion": object.metadata.resource_version},
                    "webhooks": hooks_with_bundle.collect::<Vec<_>>(),
                });
                patch_object(api, name, Patch::Strategic(patch))
                    .await
                    .with_context(what)?;
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
            }
        }
        Ok(false)
    }
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
