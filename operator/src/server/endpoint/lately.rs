//! What was so a moment ago, so that it need not be asked about each time. Of tokens their hashes
//! alone are kept.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// Things that are kept at most.
const MOST: usize = 1024;
/// Bytes of a question at most: some users are in very many groups.
const LARGEST: usize = 8 * 1024;

/// A token, as it is kept.
pub(super) type Hash = [u8; 32];

/// A token, as it is kept.
pub(super) fn hash(token: &str) -> Hash {
    Sha256::digest(token).into()
}

/// A question, as it is kept. None: it is too long for that.
pub(super) fn question(spec: &SubjectAccessReviewSpec) -> Option<String> {
    let question = serde_json::to_string(spec).ok()?;
    (question.len() <= LARGEST).then_some(question)
}

/// Things, since when they are so, and what else is known of them.
#[derive(Debug)]
pub(super) struct Lately<T, V = ()> {
    /// How long that is believed in.
    holds: Duration,
    since: Mutex<BTreeMap<T, (Instant, V)>>,
}

impl<T: Ord, V: Clone> Lately<T, V> {
    pub(super) fn new(holds: Duration) -> Self {
        let since = Mutex::default();
        Self { holds, since }
    }

    /// What is known of it, if it was so a moment ago.
    pub(super) fn get(&self, thing: &T) -> Option<V> {
        let since = self.since.lock();
        let (at, known) = since.get(thing)?;
        (at.elapsed() < self.holds).then(|| known.clone())
    }

    /// Whether it was so a moment ago.
    pub(super) fn has(&self, thing: &T) -> bool {
        self.get(thing).is_some()
    }

    /// It is so, as it was asked at that moment.
    pub(super) fn keep(&self, thing: T, asked: Instant, known: V) {
        let mut since = self.since.lock();
        if since.len() >= MOST {
            since.retain(|_, (at, _)| at.elapsed() < self.holds);
        }
        // What is there already takes no more room.
        if since.len() < MOST || since.contains_key(&thing) {
            since.insert(thing, (asked, known));
        }
    }

    /// It is so no more.
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
        // What is there is told anew, though there is no more room.
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
