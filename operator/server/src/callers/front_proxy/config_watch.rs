//! Watches the API server's front proxy configuration.

use std::pin::pin;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use parking_lot::RwLock;
use tracing::{info, warn};

use super::{CONFIG_MAP, FrontProxy};

/// The front proxy whose headers are trusted. None: no headers are trusted now.
pub(crate) type TrustedProxy = Arc<RwLock<Option<Arc<FrontProxy>>>>;

/// Follows the ConfigMap. Never returns. If the ConfigMap cannot be read, its last content stays
/// valid. If it is deleted or invalid, no headers are trusted.
pub(crate) async fn follow_config(client: Client, proxy: TrustedProxy) {
    let (namespace, name) = CONFIG_MAP;
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    apply_updates(watcher::watch_object(api, name).default_backoff(), &proxy).await;
    // The watch should never end. If it does, its last content could be outdated.
    *proxy.write() = None;
    std::future::pending().await
}

async fn apply_updates<E: std::fmt::Display>(
    updates: impl Stream<Item = Result<Option<ConfigMap>, E>>,
    proxy: &TrustedProxy,
) {
    let (namespace, name) = CONFIG_MAP;
    let mut updates = pin!(updates);
    let (mut last, mut reported) = (None, None);
    while let Some(update) = updates.next().await {
        let data = match update {
            Ok(config_map) => config_map.and_then(|config_map| config_map.data),
            Err(error) => {
                let error = error.to_string();
                if reported.as_ref() != Some(&error) {
                    warn!(%error, "ConfigMap {namespace}/{name} cannot be watched: its last content stays in use");
                    reported = Some(error);
                }
                continue;
            }
        };
        reported = None;
        if last.as_ref() == Some(&data) {
            continue;
        }
        let read = FrontProxy::read(&data.clone().unwrap_or_default());
        last = Some(data);
        *proxy.write() = match read {
            Ok(Some(proxy)) => {
                info!("the front proxy of the API server is trusted");
                Some(Arc::new(proxy))
            }
            Ok(None) => {
                warn!(
                    "ConfigMap {namespace}/{name} names no front proxy (--requestheader-client-ca-file of kube-apiserver): the aggregated API refuses all requests"
                );
                None
            }
            Err(error) => {
                warn!(error = %format!("{error:#}"), "ConfigMap {namespace}/{name} cannot be used: the aggregated API refuses all requests");
                None
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use futures::channel::mpsc;

    use super::super::tests::{TestAuthority, headers_of_ann};
    use super::*;

    type WatchResult = Result<Option<ConfigMap>, &'static str>;

    struct ConfigWatchFixture {
        sender: mpsc::UnboundedSender<WatchResult>,
        proxy: TrustedProxy,
    }

    impl ConfigWatchFixture {
        fn new() -> Self {
            let (sender, updates) = mpsc::unbounded();
            let proxy = TrustedProxy::default();
            let proxy_copy = proxy.clone();
            tokio::spawn(async move { apply_updates(updates, &proxy_copy).await });
            Self { sender, proxy }
        }

        async fn send(&self, update: WatchResult) {
            self.sender.unbounded_send(update).unwrap();
            while !self.sender.is_empty() {
                tokio::task::yield_now().await;
            }
            tokio::task::yield_now().await;
        }

        async fn send_data(&self, data: BTreeMap<String, String>) {
            let config_map = ConfigMap {
                data: Some(data),
                ..ConfigMap::default()
            };
            self.send(Ok(Some(config_map))).await;
        }

        fn trusts(&self, authority: &TestAuthority) -> bool {
            let proxy = self.proxy.read().clone();
            proxy.is_some_and(|proxy| {
                proxy
                    .user(&authority.client("any"), &headers_of_ann())
                    .is_ok()
            })
        }
    }

    #[tokio::test]
    async fn trusted_proxy_follows_the_config_map() {
        let (old, new) = (TestAuthority::new(), TestAuthority::new());
        let followed = ConfigWatchFixture::new();
        followed.send_data(old.data(&[])).await;
        assert!(followed.trusts(&old) && !followed.trusts(&new));
        // This also holds for an open connection: the new front proxy does not reuse the
        // verification by the old one.
        let certificates = old.client("any");
        let user = |certificates| {
            let proxy = followed.proxy.read().clone();
            proxy.unwrap().user(certificates, &headers_of_ann())
        };
        assert!(user(&certificates).is_ok());
        followed.send_data(new.data(&[])).await;
        assert!(!followed.trusts(&old) && followed.trusts(&new));
        assert!(user(&certificates).is_err());
        // A failed read changes nothing. Malformed content and a deletion count at once.
        followed.send(Err("timed out")).await;
        assert!(followed.trusts(&new));
        let mut malformed = new.data(&[]);
        malformed.insert("requestheader-allowed-names".to_owned(), "{".to_owned());
        followed.send_data(malformed).await;
        assert!(!followed.trusts(&new));
        followed.send_data(new.data(&[])).await;
        assert!(followed.trusts(&new));
        followed.send(Ok(None)).await;
        assert!(!followed.trusts(&new));
    }
}
