//! What the API server says of its front proxy, as of now.

use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use parking_lot::RwLock;
use tracing::{info, warn};

use super::{CONFIG_MAP, FrontProxy};

/// Whom headers are believed of. None: of nobody, yet or any more.
pub(in crate::endpoint) type Known = Arc<RwLock<Option<Arc<FrontProxy>>>>;

/// Keeps up with the ConfigMap. Never ends. Where it cannot be read, what it said last holds; where it is gone or
/// says what cannot be used, nobody is believed.
pub(in crate::endpoint) async fn follow(client: Client, known: Known) {
    let (namespace, name) = CONFIG_MAP;
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    let shown = watcher::watch_object(api, name).default_backoff();
    let mut shown = pin!(shown);
    let mut last = None;
    while let Some(shown) = shown.next().await {
        let data = match shown {
            Ok(config_map) => config_map.and_then(|config_map| config_map.data),
            Err(error) => {
                warn!(%error, "ConfigMap {namespace}/{name} cannot be watched: who asks through the API server is known by what it said last");
                continue;
            }
        };
        if last.as_ref() == Some(&data) {
            continue;
        }
        let read = FrontProxy::read(&data.clone().unwrap_or_default());
        last = Some(data);
        *known.write() = match read {
            Ok(Some(proxy)) => {
                info!("who asks through the API server is believed");
                Some(Arc::new(proxy))
            }
            Ok(None) => {
                warn!(
                    "ConfigMap {namespace}/{name} names no front proxy (--requestheader-client-ca-file of kube-apiserver): nobody can ask through the API server"
                );
                None
            }
            Err(error) => {
                warn!(error = %format!("{error:#}"), "ConfigMap {namespace}/{name} cannot be used: nobody can ask through the API server");
                None
            }
        };
    }
    // It has no end. If it had, nobody would be believed by what may be old.
    *known.write() = None;
    std::future::pending().await
}
