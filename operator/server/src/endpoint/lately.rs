//! Caches of recent answers. Only hashes of tokens are kept.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// Entries kept at most.
const MOST: usize = 1024;
/// Longest question in bytes that is kept: some users are in very many groups.
const LARGEST: usize = 8 * 1024;

/// Hash of a token.
pub(super) type Hash = [u8; 32];

/// The hash of a token.
pub(super) fn hash(token: &str) -> Hash {
    Sha256::digest(token).into()
}

/// The key of a review. None: it is too long to keep.
pub(super) fn question(spec: &SubjectAccessReviewSpec) -> Option<String> {
    let question = serde_json::to_string(spec).ok()?;
    (question.len() <= LARGEST).then_some(question)
}

/// Entries with the time of their answer and a value.
#[derive(Debug)]
pub(super) struct Lately<T, V = ()> {
    /// How long an entry holds.
    holds: Duration,
    since: Mutex<BTreeMap<T, (Instant, V)>>,
}

impl<T: Ord, V: Clone> Lately<T, V> {
    pub(super) fn new(holds: Duration) -> Self {
        let since = Mutex::default();
        Self { holds, since }
    }

    /// The value of an entry that still holds.
    pub(super) fn get(&self, thing: &T) -> Option<V> {
        let since = self.since.lock();
        let (at, known) = since.get(thing)?;
        (at.elapsed() < self.holds).then(|| known.clone())
    }

    /// True if there is an entry that still holds.
    pub(super) fn has(&self, thing: &T) -> bool {
        self.get(thing).is_some()
    }

    /// Stores an answer to a question that was asked at that time.
    pub(super) fn keep(&self, thing: T, asked: Instant, known: V) {
        let mut since = self.since.lock();
        if since.len() >= MOST {
            since.retain(|_, (at, _)| at.elapsed() < self.holds);
        }
        // Replacing an entry takes no more room.
        if since.len() < MOST || since.contains_key(&thing) {
            since.insert(thing, (asked, known));
        }
    }

    /// Removes an entry.
    pub(super) fn forget(&self, thing: &T) {
        self.since.lock().remove(thing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDS: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn what_was_so_is_asked_again_after_a_while() {
        let allowed = Lately::new(HOLDS);
        allowed.keep("a", Instant::now(), 1);
        allowed.keep("b", Instant::now(), 2);
        allowed.forget(&"b");
        assert_eq!((allowed.get(&"a"), allowed.get(&"b")), (Some(1), None));
        tokio::time::sleep(HOLDS).await;
        assert!(!allowed.has(&"a"));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_is_kept_than_there_is_room_for() {
        let allowed = Lately::new(HOLDS);
        for number in 0..2 * MOST {
            allowed.keep(number, Instant::now(), ());
        }
        assert_eq!(allowed.since.lock().len(), MOST);
        // An entry can be renewed although the cache is full.
        tokio::time::sleep(HOLDS / 2).await;
        allowed.keep(0, Instant::now(), ());
        tokio::time::sleep(HOLDS / 2).await;
        assert!(allowed.has(&0) && !allowed.has(&1));
        allowed.keep(usize::MAX, Instant::now(), ());
        assert!(allowed.has(&usize::MAX));
        let long = SubjectAccessReviewSpec {
            user: Some("a".repeat(LARGEST)),
            ..SubjectAccessReviewSpec::default()
        };
        assert_eq!(question(&long), None);
    }
}
