//! Admission webhooks of a test that are down, or never answer.

use anyhow::{Result, bail};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::probe_pod;
use crate::control_plane::ControlPlane;

/// The webhook's name, which the API server reports when it gets no response.
const WEBHOOK_NAME: &str = "broken.trellis.dev";

/// A webhook for the pods of one namespace, with the name of the namespace. It never answers, so no
/// pod can be created while it exists.
pub struct BrokenWebhook {
    namespace: String,
    api: Api<ValidatingWebhookConfiguration>,
    listener: JoinHandle<()>,
}

impl std::fmt::Debug for BrokenWebhook {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("BrokenWebhook")
            .field(&self.namespace)
            .finish()
    }
}

impl BrokenWebhook {
    /// Creates a webhook whose port refuses connections.
    ///
    /// # Errors
    /// If the API server refuses the configuration.
    pub async fn refusing_connections(
        control_plane: &ControlPlane,
        namespace: &str,
    ) -> Result<Self> {
        // The port is free as soon as the listener is dropped.
        let port = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
        let listens = tokio::spawn(async {});
        Self::create(control_plane, namespace, port, listens).await
    }

    /// Creates a webhook that accepts connections and never answers, so that each call times out.
    ///
    /// # Errors
    /// If the API server refuses the configuration.
    pub async fn never_answering(control_plane: &ControlPlane, namespace: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let listens = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                open.push(connection);
            }
        });
        Self::create(control_plane, namespace, port, listens).await
    }

    async fn create(
        control_plane: &ControlPlane,
        namespace: &str,
        port: u16,
        listens: JoinHandle<()>,
    ) -> Result<Self> {
        let webhook = json!({
            "metadata": {"name": namespace},
            "webhooks": [{
                "name": WEBHOOK_NAME,
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "clientConfig": {"url": format!("https://127.0.0.1:{port}/")},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"],
                    "operations": ["CREATE"], "resources": ["pods"]}],
            }],
        });
        let api = Api::all(control_plane.client());
        let webhook = serde_json::from_value(webhook)?;
        api.create(&PostParams::default(), &webhook).await?;
        let broken = Self {
            namespace: namespace.to_owned(),
            api,
            listener: listens,
        };
        broken.wait_until_called(control_plane).await?;
        Ok(broken)
    }

    /// Waits until the API server calls it for new pods.
    async fn wait_until_called(&self, control_plane: &ControlPlane) -> Result<()> {
        let client = control_plane.client();
        probe_pod::probe_until(client, &self.namespace, |answer| match answer {
            Ok(_) => bail!("the API server does not call the webhook yet"),
            Err(error) => probe_pod::accept_refusal_by(WEBHOOK_NAME, error),
        })
        .await
    }

    /// Deletes the webhook.
    ///
    /// # Errors
    /// If the webhook does not exist any more.
    pub async fn delete(self) -> Result<()> {
        let params = DeleteParams::default();
        self.api.delete(&self.namespace, &params).await?;
        Ok(())
    }
}

impl Drop for BrokenWebhook {
    fn drop(&mut self) {
        self.listener.abort();
    }
}
