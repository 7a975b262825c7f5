//! Caches of recent answers. Only hashes of tokens are kept.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// Most entries in the cache.
const MAX_ENTRIES: usize = 1024;
/// Longest key in bytes that the cache keeps. Some users are in very many groups.
const MAX_KEY_LENGTH: usize = 8 * 1024;

/// Hash of a token.
pub(super) type TokenHash = [u8; 32];

/// Returns the hash of a token.
pub(super) fn hash_token(token: &str) -> TokenHash {
    Sha256::digest(token).into()
}

/// Returns the key of a review. None: it is too long to keep.
pub(super) fn review_key(spec: &SubjectAccessReviewSpec) -> Option<String> {
    let question = serde_json::to_string(spec).ok()?;
    (question.len() <= MAX_KEY_LENGTH).then_some(question)
}

/// Returns the key of a user with all groups. None: it is too long to keep.
pub(crate) fn user_key(user: &UserInfo) -> Option<String> {
    let user = serde_json::to_string(user).ok()?;
    (user.len() <= MAX_KEY_LENGTH).then_some(user)
}

/// Answers, with the time at which each was requested.
#[derive(Debug)]
pub(crate) struct TtlCache<T, V = ()> {
    /// How long an entry is valid.
    ttl: Duration,
    entries: Mutex<BTreeMap<T, (Instant, V)>>,
}

impl<T: Ord, V: Clone> TtlCache<T, V> {
    pub(crate) fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            entries: Mutex::default(),
        }
    }

    /// Returns the value of an entry that has not expired.
    pub(crate) fn get(&self, key: &T) -> Option<V> {
        let entries = self.entries.lock();
        let (asked_at, value) = entries.get(key)?;
        (asked_at.elapsed() < self.ttl).then(|| value.clone())
    }

    /// Returns true if there is an entry that has not expired.
    pub(super) fn contains(&self, key: &T) -> bool {
        self.get(key).is_some()
    }

    /// Stores the answer to a request that was sent at `asked_at`.
    pub(crate) fn insert(&self, key: T, asked_at: Instant, value: V) {
        let mut entries = self.entries.lock();
        if entries.len() >= MAX_ENTRIES {
            entries.retain(|_, (asked_at, _)| asked_at.elapsed() < self.ttl);
        }
        // Replacing an entry takes no further memory.
        if entries.len() < MAX_ENTRIES || entries.contains_key(&key) {
            entries.insert(key, (asked_at, value));
        }
    }

    /// Removes an entry.
    pub(super) fn remove(&self, key: &T) {
        self.entries.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn cache_entry_expires_after_its_ttl() {
        let allowed = TtlCache::new(TTL);
        allowed.insert("a", Instant::now(), 1);
        allowed.insert("b", Instant::now(), 2);
        allowed.remove(&"b");
        assert_eq!((allowed.get(&"a"), allowed.get(&"b")), (Some(1), None));
        tokio::time::sleep(TTL).await;
        assert!(!allowed.contains(&"a"));
    }

    #[tokio::test(start_paused = true)]
    async fn full_cache_accepts_no_new_entry() {
        let allowed = TtlCache::new(TTL);
        for number in 0..2 * MAX_ENTRIES {
            allowed.insert(number, Instant::now(), ());
        }
        assert_eq!(allowed.entries.lock().len(), MAX_ENTRIES);
        // A full cache can still renew an entry.
        tokio::time::sleep(TTL / 2).await;
        allowed.insert(0, Instant::now(), ());
        tokio::time::sleep(TTL / 2).await;
        assert!(allowed.contains(&0) && !allowed.contains(&1));
        allowed.insert(usize::MAX, Instant::now(), ());
        assert!(allowed.contains(&usize::MAX));
        let long = SubjectAccessReviewSpec {
            user: Some("a".repeat(MAX_KEY_LENGTH)),
            ..SubjectAccessReviewSpec::default()
        };
        assert_eq!(review_key(&long), None);
    }
}
