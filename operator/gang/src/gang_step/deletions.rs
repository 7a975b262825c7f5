//! Requested deletes. The watch shows their effect late or never, because a finalizer can keep a
//! pod for any time. So Trellis repeats the delete of a pod after growing pauses.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::observed::PodView;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Requested deletes of one gang's pods, by uid.
#[derive(Clone, Debug, Default)]
pub struct Deletions {
    requests: BTreeMap<String, DeleteRequest>,
}

#[derive(Clone, Debug)]
struct DeleteRequest {
    force: bool,
    pause: Duration,
    retry_at: Instant,
}

impl Deletions {
    /// Returns true if the pod may be deleted now: its delete was not requested yet, or only
    /// without force and now with force, or the pause is over.
    #[must_use]
    pub fn is_due(&self, uid: &str, force: bool, now: Instant) -> bool {
        self.requests
            .get(uid)
            .is_none_or(|request| (force && !request.force) || request.retry_at <= now)
    }

    /// Records that the delete of a pod is requested.
    pub fn record_request(&mut self, uid: &str, force: bool, now: Instant) {
        let pause = match self.requests.get(uid) {
            Some(before) if before.force == force => {
                before.pause.saturating_mul(2).min(LONGEST_PAUSE)
            }
            _ => FIRST_PAUSE,
        };
        let request = DeleteRequest {
            force,
            pause,
            retry_at: now.checked_add(pause).unwrap_or(now),
        };
        self.requests.insert(uid.to_owned(), request);
    }

    /// Forgets pods that no longer exist.
    pub fn retain_pods(&mut self, pods: &BTreeMap<String, PodView>) {
        self.retain_uids(pods.values().map(|pod| pod.uid.as_str()));
    }

    /// Forgets all pods except these, by uid.
    pub fn retain_uids<'a>(&mut self, uids: impl Iterator<Item = &'a str>) {
        if self.requests.is_empty() {
            return;
        }
        let there: HashSet<&str> = uids.collect();
        self.requests.retain(|uid, _| there.contains(uid.as_str()));
    }

    /// Returns the uids of the pods whose delete was requested.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn uids(&self) -> impl Iterator<Item = &String> {
        self.requests.keys()
    }

    /// Returns when the next pause is over.
    #[must_use]
    pub fn next_retry(&self, now: Instant) -> Option<Instant> {
        let later = self.requests.values().map(|request| request.retry_at);
        later.filter(|again| *again > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delete_of_a_remaining_pod_is_repeated_after_growing_pauses() {
        let start = Instant::now();
        let mut deletions = Deletions::default();
        let mut requests = Vec::new();
        for second in 0..2000 {
            let now = start + Duration::from_secs(second);
            if deletions.is_due("a", true, now) {
                deletions.record_request("a", true, now);
                requests.push(second);
            }
        }
        assert_eq!(
            requests,
            [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111, 1411, 1711]
        );
        assert_eq!(
            deletions.next_retry(start),
            Some(start + Duration::from_secs(2011))
        );
    }

    #[test]
    fn forced_delete_is_due_during_the_pause_of_the_first_delete() {
        let now = Instant::now();
        let mut deletions = Deletions::default();
        deletions.record_request("a", false, now);
        assert!(!deletions.is_due("a", false, now));
        assert!(deletions.is_due("a", true, now));
        assert!(deletions.is_due("b", false, now));
        deletions.record_request("a", true, now);
        assert!(!deletions.is_due("a", true, now));
        deletions.retain_pods(&BTreeMap::new());
        assert!(deletions.is_due("a", false, now));
    }
}
