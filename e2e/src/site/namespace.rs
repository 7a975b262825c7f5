//! A namespace for one test.

use std::{
    process,
    sync::atomic::{AtomicU32, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Config,
    api::{DeleteParams, PostParams},
    core::{NamespaceResourceScope, Resource},
};
use serde_json::json;

use crate::{control_plane::ControlPlane, site::background, wait::wait_for_default_account};

/// A namespace with a unique name. It is deleted in the background when this value is dropped.
pub struct TestNamespace {
    name: String,
    config: Config,
    client: Client,
}

impl std::fmt::Debug for TestNamespace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("TestNamespace")
            .field(&self.name)
            .finish()
    }
}

impl TestNamespace {
    /// Creates `<prefix>-<suffix>` and waits until pods can be created in it.
    ///
    /// # Errors
    ///
    /// When the API server refuses it, for example because `prefix` is no DNS label.
    pub async fn create(control_plane: &ControlPlane, prefix: &str) -> Result<Self> {
        Self::create_with_labels(control_plane, prefix, &[]).await
    }

    /// Like [`TestNamespace::create`], with labels, such as those of Pod Security.
    ///
    /// # Errors
    ///
    /// When the API server refuses it.
    pub async fn create_with_labels(
        control_plane: &ControlPlane,
        prefix: &str,
        labels: &[(&str, &str)],
    ) -> Result<Self> {
        let client = control_plane.client();
        let name = unique_name(prefix);
        let labels: std::collections::BTreeMap<_, _> = labels.iter().copied().collect();
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        let api: Api<Namespace> = Api::all(client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(namespace)?)
            .await?;
        wait_for_default_account(&client, &name).await?;
        Ok(Self {
            name,
            config: control_plane.client_config(),
            client,
        })
    }

    /// The name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a client with all rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the objects of one kind in the namespace, with all rights.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }
}

impl Drop for TestNamespace {
    fn drop(&mut self) {
        let name = self.name.clone();
        background::run_with_client(self.config.clone(), async move |client| {
            let api: Api<Namespace> = Api::all(client);
            let _ = api.delete(&name, &DeleteParams::background()).await;
        });
    }
}

/// Returns `<prefix>-<hexadecimal>`, which is unique on this machine over all processes.
pub fn unique_name(prefix: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let millis = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() % 0x1000_0000);
    format!("{prefix}-{millis:x}-{:x}-{count:x}", process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_name_never_repeats() {
        let names: std::collections::BTreeSet<String> =
            (0..1000).map(|_| unique_name("t")).collect();
        assert_eq!(names.len(), 1000);
    }
}
