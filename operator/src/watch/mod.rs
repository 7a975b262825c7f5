//! What we know of the cluster: one task a watch, each with its own back-off,
//! so that a broken watch stalls no other.

mod health;
mod pods;
mod slim;
mod store;

pub use health::{GIVEN_UP_AFTER, LOST_AFTER, NodeHealth};
pub use pods::{Change, PodIndex, PodPhase, PodView, Pods};
pub use slim::{SlimMeta, SlimNamespace, SlimNode, SlimPod, SlimService};
pub use store::Store;

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tracing::{info, warn};

use crate::key::Key;

/// Longest watch call: load balancers cut at 240 s.
const WATCH_SECONDS: u32 = 200;
/// Longest wait for the next page of a list.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// Back-off of a broken watch.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Where the events of one watch go.
pub trait Sink<K>: Send + Sync + 'static {
    /// The object is there, new or changed.
    fn apply(&self, key: Key, object: K);
    /// The object is gone.
    fn delete(&self, key: &Key);
    /// Everything that there was at the start has been applied. Called once a list.
    fn synced(&self);
}

/// Follows one kind for ever. A re-list emits no deletions, so what it leaves
/// out is deleted here.
pub async fn follow<K, S>(api: Api<K>, config: watcher::Config, sink: Arc<S>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    S: Sink<K>,
{
    let kind = K::kind(&()).into_owned();
    let config = config.timeout(WATCH_SECONDS);
    let mut known: HashSet<Key> = HashSet::new();
    let mut listed: Option<HashSet<Key>> = None;
    let mut synced = false;
    let mut pause = FIRST_PAUSE;
    let start = || watcher::watcher(api.clone(), config.clone()).boxed();
    let mut stream = start();
    loop {
        // Until the first list is there, and while a later one is made, something
        // must come; afterwards silence is no fault.
        let listing = listed.is_some() || !synced;
        let bound = if listing { LIST_SILENCE } else { Duration::MAX };
        let Ok(event) = tokio::time::timeout(bound, stream.next()).await else {
            warn!(%kind, "a list is not answered; it starts over");
            listed = None;
            stream = start();
            continue;
        };
        let event = match event {
            None => return,
            Some(Ok(event)) => event,
            Some(Err(error)) => {
                warn!(%kind, %error, "a watch is broken; it starts over");
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                continue;
            }
        };
        pause = FIRST_PAUSE;
        match event {
            Event::Init => listed = Some(HashSet::new()),
            Event::InitApply(object) => {
                let key = Key::of(object.meta());
                if let Some(listed) = &mut listed {
                    listed.insert(key.clone());
                }
                sink.apply(key, object);
            }
            Event::InitDone => {
                let now = listed.take().unwrap_or_default();
                for gone in known.difference(&now) {
                    sink.delete(gone);
                }
                info!(%kind, objects = now.len(), "listed");
                known = now;
                synced = true;
                sink.synced();
            }
            Event::Apply(object) => {
                let key = Key::of(object.meta());
                known.insert(key.clone());
                sink.apply(key, object);
            }
            Event::Delete(object) => {
                let key = Key::of(object.meta());
                known.remove(&key);
                sink.delete(&key);
            }
        }
    }
}
