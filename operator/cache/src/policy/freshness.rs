//! How recent the policies in the cache are. Policies and jobs come by different watches. So the
//! engine could place a job before the cache has the policy that was applied with it. Therefore,
//! before the operator writes a plan, it reads the policies from the API server with a consistent
//! read. The plan waits until the watches have shown the same versions.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, Client, Resource, ResourceExt as _};
use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{debug, warn};
use trellis_api::{ClusterJobPolicy, JobPolicy, QuotaPolicy};
use trellis_gang::key::Key;

use super::object_key;
use crate::Cache;
use crate::watch::{Store, Undecodable};

/// Objects of one page.
const PAGE_SIZE: u32 = 500;
/// Interval at which the stored policies are compared with those that the watches have shown.
const COMPARE_INTERVAL: Duration = Duration::from_millis(10);
/// After this time the operator reads the policies again, because they may have changed.
const REREAD_INTERVAL: Duration = Duration::from_secs(1);

/// How recent the policies in the cache are.
/// [`PolicySet::wait_settled`](super::PolicySet::wait_settled) tells which of them are in force for
/// a namespace.
#[derive(Debug, Default)]
pub struct Freshness {
    /// The cache holds every policy that was stored before this time.
    fresh_as_of: RwLock<Option<Instant>>,
    /// The latest time that a caller waits for.
    requested: RwLock<Option<Instant>>,
    /// Why the policies are not yet that recent.
    lag: RwLock<Option<String>>,
    request_changed: Notify,
    read_complete: Notify,
}

impl Freshness {
    /// Waits until the cache holds all policies that were stored by `since`.
    pub async fn wait_until_fresh(&self, since: Instant) {
        loop {
            let read = self.read_complete.notified();
            if self.fresh_as_of.read().is_some_and(|as_of| as_of >= since) {
                return;
            }
            self.request_read(since);
            read.await;
        }
    }

    fn request_read(&self, since: Instant) {
        let mut requested = self.requested.write();
        *requested = (*requested).max(Some(since));
        self.request_changed.notify_one();
    }

    /// Returns why plans still wait for policies.
    #[must_use]
    pub fn lag(&self) -> String {
        let lag = self.lag.read().clone();
        lag.unwrap_or_else(|| "the policies that were applied last are being loaded".to_owned())
    }

    /// Waits until a caller needs newer policies.
    async fn wait_for_request(&self) {
        loop {
            let changed = self.request_changed.notified();
            let (requested, as_of) = (*self.requested.read(), *self.fresh_as_of.read());
            if requested.is_some() && requested > as_of {
                return;
            }
            changed.await;
        }
    }

    fn set_lag(&self, why: String) {
        *self.lag.write() = Some(why);
    }

    fn set_fresh(&self, began: Instant) {
        *self.lag.write() = None;
        *self.fresh_as_of.write() = Some(began);
        self.read_complete.notify_waiters();
    }
}

/// Reads the policies whenever a plan waits for newer ones, until the process ends. All plans that
/// wait at the same time share one read.
pub async fn keep_policies_fresh(cache: Arc<Cache>, client: Client) {
    loop {
        cache.freshness.wait_for_request().await;
        let began = Instant::now();
        match StoredPolicies::read(&client).await {
            Ok(stored) if wait_until_shown(&cache, &stored).await => {
                debug!(took = ?began.elapsed(), "policies are as new as those that are stored");
                cache.freshness.set_fresh(began);
            }
            Ok(_) => {}
            Err(error) => {
                warn!(%error, "the policies were not read; places wait");
                let why = format!("the policies cannot be read: {error}");
                cache.freshness.set_lag(why);
                tokio::time::sleep(REREAD_INTERVAL).await;
            }
        }
    }
}

/// Waits until the watches have shown the stored policies. Returns false if that takes longer than
/// [`REREAD_INTERVAL`].
async fn wait_until_shown(cache: &Cache, stored: &StoredPolicies) -> bool {
    let until = tokio::time::sleep(REREAD_INTERVAL);
    let mut until = std::pin::pin!(until);
    while let Some(lag) = stored.find_lag(cache) {
        cache.freshness.set_lag(lag);
        tokio::select! {
            () = &mut until => return false,
            () = tokio::time::sleep(COMPARE_INTERVAL) => {}
        }
    }
    true
}

/// Uid and generation of each object of a kind, at one version.
#[derive(Debug, Default)]
struct StoredObjects {
    version: u64,
    objects: BTreeMap<Key, (String, Option<i64>)>,
}

/// The policies as the API server has stored them.
#[derive(Debug, Default)]
struct StoredPolicies {
    cluster: StoredObjects,
    namespaced: StoredObjects,
    quotas: StoredObjects,
}

impl StoredPolicies {
    /// Lists without a resource version. Such a list is consistent: it includes every earlier
    /// write.
    async fn read(client: &Client) -> kube::Result<Self> {
        let (cluster, namespaced, quotas) = tokio::try_join!(
            list_objects(Api::<ClusterJobPolicy>::all(client.clone())),
            list_objects(Api::<JobPolicy>::all(client.clone())),
            list_objects(Api::<QuotaPolicy>::all(client.clone())),
        )?;
        Ok(Self {
            cluster,
            namespaced,
            quotas,
        })
    }

    /// Describes the first object whose stored state the watches do not show yet.
    fn find_lag(&self, cache: &Cache) -> Option<String> {
        let unreadable = cache.policies.undecodable.read();
        let policy = |key: &Key| unreadable.get(&object_key(key)).cloned();
        let lag = self.cluster.find_lag(&cache.policies.cluster, policy);
        let lag = lag.or_else(|| self.namespaced.find_lag(&cache.policies.namespaced, policy));
        drop(unreadable);
        lag.or_else(|| {
            let unreadable = cache.quotas.undecodable_policies.read();
            let quota = |key: &Key| unreadable.get(&*key.name).cloned();
            self.quotas.find_lag(&cache.quotas.objects, quota)
        })
    }
}

impl StoredObjects {
    fn find_lag<K>(
        &self,
        listed: &Store<K>,
        unreadable: impl Fn(&Key) -> Option<Undecodable>,
    ) -> Option<String>
    where
        K: Resource<DynamicType = ()>,
    {
        let words = |key: &Key, what: &str| {
            let name = match key.namespace.is_empty() {
                true => key.name.to_string(),
                false => key.to_string(),
            };
            format!(
                "the {} {name:?} {what}, and the watch has not shown it yet",
                K::kind(&())
            )
        };
        for (key, (uid, generation)) in &self.objects {
            let is_read = listed.get(key).is_some_and(|object| {
                let meta = object.meta();
                meta.uid.as_ref() == Some(uid) && meta.generation >= *generation
            });
            let is_unreadable = unreadable(key)
                .is_some_and(|object| object.uid == *uid && object.generation >= *generation);
            if !is_read && !is_unreadable {
                return Some(words(key, "was applied"));
            }
        }
        // An object that is newer than the list need not be in it.
        let listed = listed.all().into_iter();
        let mut deleted = listed.filter(|object| {
            let key = Key::from_meta(object.meta());
            !self.objects.contains_key(&key) && version_number(object.as_ref()) <= self.version
        });
        deleted
            .next()
            .map(|object| words(&Key::from_meta(object.meta()), "was deleted"))
    }
}

/// Returns the resource version as a number. Versions of one kind increase (stable since Kubernetes
/// 1.35, KEP-5504).
fn version_number<K: Resource>(object: &K) -> u64 {
    let version = object.meta().resource_version.as_deref();
    version.and_then(|v| v.parse().ok()).unwrap_or(0)
}

async fn list_objects<K>(api: Api<K>) -> kube::Result<StoredObjects>
where
    K: Resource<DynamicType = ()> + Clone + Debug + serde::de::DeserializeOwned,
{
    let mut params = ListParams::default().limit(PAGE_SIZE);
    let mut all = StoredObjects::default();
    loop {
        let page = api.list_metadata(&params).await?;
        if params.continue_token.is_none() {
            let version = page.metadata.resource_version.as_deref();
            all.version = version.and_then(|v| v.parse().ok()).unwrap_or(0);
        }
        let read = |object: &PartialObjectMeta<K>| {
            let uid = object.uid().unwrap_or_default();
            (
                Key::from_meta(object.meta()),
                (uid, object.meta().generation),
            )
        };
        all.objects.extend(page.items.iter().map(read));
        params.continue_token = page.metadata.continue_.filter(|word| !word.is_empty());
        if params.continue_token.is_none() {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;
    use trellis_api::QuotaPolicy;

    use super::*;

    fn stored_objects(version: u64, objects: &[(&str, &str, i64)]) -> StoredObjects {
        let objects = objects.iter().map(|(name, uid, generation)| {
            (Key::new("", name), ((*uid).to_owned(), Some(*generation)))
        });
        StoredObjects {
            version,
            objects: objects.collect(),
        }
    }

    /// Returns the objects that the watch has shown: name, uid, generation and version.
    fn shown_objects(objects: &[(&str, &str, i64, u64)]) -> Store<QuotaPolicy> {
        let store = Store::default();
        for (name, uid, generation, version) in objects {
            let policy = json!({
                "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
                "metadata": {"name": name, "uid": uid, "generation": generation,
                    "resourceVersion": version.to_string()},
                "spec": {"subject": {}, "limits": {}},
            });
            store.insert_observed(Key::new("", name), serde_json::from_value(policy).unwrap());
        }
        store
    }

    #[test]
    fn watch_lags_until_it_shows_the_stored_policy() {
        let stored = stored_objects(10, &[("a", "1", 2)]);
        let lag =
            |objects: &[(&str, &str, i64, u64)]| stored.find_lag(&shown_objects(objects), |_| None);
        assert_eq!(
            lag(&[]).as_deref(),
            Some("the QuotaPolicy \"a\" was applied, and the watch has not shown it yet")
        );
        assert!(lag(&[("a", "1", 1, 5)]).is_some(), "an older spec");
        assert!(lag(&[("a", "0", 7, 5)]).is_some(), "another object");
        assert_eq!(lag(&[("a", "1", 2, 9)]), None);
        assert_eq!(lag(&[("a", "1", 3, 12)]), None, "a newer spec");
    }

    #[test]
    fn watch_lags_until_a_deleted_policy_is_gone() {
        let stored = stored_objects(10, &[]);
        let lag =
            |objects: &[(&str, &str, i64, u64)]| stored.find_lag(&shown_objects(objects), |_| None);
        assert!(lag(&[("a", "1", 1, 10)]).unwrap().contains("was deleted"));
        assert_eq!(lag(&[("a", "1", 1, 11)]), None, "it came after the list");
    }

    #[test]
    fn policy_that_does_not_decode_counts_as_shown() {
        let stored = stored_objects(10, &[("a", "1", 2)]);
        let unreadable = |generation: i64| {
            let object = Undecodable {
                uid: "1".to_owned(),
                generation: Some(generation),
                error: String::new(),
            };
            BTreeMap::from([(Key::new("", "a"), object)])
        };
        let lag = |generation| {
            let unreadable = unreadable(generation);
            stored.find_lag(&shown_objects(&[]), |key| unreadable.get(key).cloned())
        };
        assert!(lag(1).is_some());
        assert_eq!(lag(2), None);
    }

    #[tokio::test(start_paused = true)]
    async fn plan_waits_for_a_read_that_begins_after_it() {
        let freshness = std::sync::Arc::new(Freshness::default());
        let before = Instant::now();
        tokio::time::advance(COMPARE_INTERVAL).await;
        let (waits, since) = (freshness.clone(), Instant::now());
        let waits = tokio::spawn(async move { waits.wait_until_fresh(since).await });
        freshness.wait_for_request().await;
        freshness.set_fresh(before);
        tokio::time::advance(COMPARE_INTERVAL).await;
        assert!(!waits.is_finished(), "the read was older");
        freshness.wait_for_request().await;
        freshness.set_fresh(since);
        waits.await.unwrap();
        freshness.wait_until_fresh(since).await;
    }
}
