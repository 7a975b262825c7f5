//! Reads objects from the API server instead of a cache, for decisions that need the current state.

use std::time::Duration;

use kube::Resource;
use kube::api::{GetParams, ListParams};
use kube::core::{NamespaceResourceScope, Request as KubeRequest};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;
use tracing::warn;
use trellis_cache::watch;

use super::{Commands, WriteError};

/// Pause between failed reads, and the longest such pause.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

impl Commands {
    /// Reads the objects of a namespace from the API server instead of a cache.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn list<K>(&self, namespace: &str, params: &ListParams) -> Result<Vec<K>, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
    {
        self.list_at(K::url_path(&(), Some(namespace)), params)
            .await
    }

    /// Reads the objects of the whole cluster from the API server instead of a cache.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn list_all<K>(&self, params: &ListParams) -> Result<Vec<K>, WriteError>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        self.list_at(K::url_path(&(), None), params).await
    }

    async fn list_at<K: DeserializeOwned>(
        &self,
        path: String,
        params: &ListParams,
    ) -> Result<Vec<K>, WriteError> {
        let list: RawList = self
            .send_request(KubeRequest::new(path).list(params))
            .await?;
        let items = list
            .items
            .iter()
            .map(|item| watch::decode_object(item.get()));
        let items: serde_json::Result<_> = items.collect();
        Ok(items.map_err(kube::Error::SerdeError)?)
    }

    /// Reads one object from the API server instead of a cache.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn get<K>(&self, namespace: &str, name: &str) -> Result<Option<K>, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
    {
        let request = KubeRequest::new(K::url_path(&(), Some(namespace)));
        let answer = self.send_request(request.get(name, &GetParams::default()));
        match answer.await.map_err(WriteError::from) {
            Ok(object) => Ok(Some(object)),
            Err(WriteError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns an object, or None if it does not exist. Repeats the read until it is answered.
    ///
    /// # Errors
    /// If this replica no longer leads. It must not decide on what it reads then.
    pub async fn get_until_answered<K>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<K>, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
    {
        let mut pause = FIRST_PAUSE;
        loop {
            self.epoch().map_err(WriteError::from)?;
            match self.get(namespace, name).await {
                Ok(object) => return Ok(object),
                Err(error) => {
                    let kind = K::kind(&());
                    warn!(%namespace, %name, %kind, %error, "an object was not read");
                }
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    /// Returns true if an object exists now. Reads only its metadata.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn exists<K>(&self, namespace: &str, name: &str) -> Result<bool, WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let request = KubeRequest::new(K::url_path(&(), Some(namespace)));
        let answer = self.send_request(request.get_metadata(name, &GetParams::default()));
        match answer.await.map_err(WriteError::from) {
            Ok(IgnoredAny) => Ok(true),
            Err(WriteError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A list whose items the caller decodes one by one.
#[derive(Deserialize)]
struct RawList {
    items: Vec<Box<RawValue>>,
}
