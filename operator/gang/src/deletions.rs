//! Deletes that were requested. The watch shows their effect late or never: a finalizer can keep a
//! pod for any time. So the delete of a pod is repeated after growing pauses.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::observed::PodView;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Requested deletes of one gang's pods, by uid.
#[derive(Clone, Debug, Default)]
pub struct Deletions {
    asked: BTreeMap<String, Asked>,
}

#[derive(Clone, Debug)]
struct Asked {
    force: bool,
    pause: Duration,
    again: Instant,
}

impl Deletions {
    /// True if the pod may be deleted now: its delete was not requested yet, or only without force
    /// and now with force, or the pause is over.
    #[must_use]
    pub fn is_due(&self, uid: &str, force: bool, now: Instant) -> bool {
        self.asked
            .get(uid)
            .is_none_or(|asked| (force && !asked.force) || asked.again <= now)
    }

    /// Records that the delete of a pod is requested.
    pub fn ask(&mut self, uid: &str, force: bool, now: Instant) {
        let pause = match self.asked.get(uid) {
            Some(before) if before.force == force => {
                before.pause.saturating_mul(2).min(LONGEST_PAUSE)
            }
            _ => FIRST_PAUSE,
        };
        let asked = Asked {
            force,
            pause,
            again: now.checked_add(pause).unwrap_or(now),
        };
        self.asked.insert(uid.to_owned(), asked);
    }

    /// Forgets pods that no longer exist.
    pub fn retain_those_of(&mut self, pods: &BTreeMap<String, PodView>) {
        self.retain(pods.values().map(|pod| pod.uid.as_str()));
    }

    /// Forgets all but these, by uid.
    pub fn retain<'a>(&mut self, uids: impl Iterator<Item = &'a str>) {
        if self.asked.is_empty() {
            return;
        }
        let there: HashSet<&str> = uids.collect();
        self.asked.retain(|uid, _| there.contains(uid.as_str()));
    }

    /// Uids of the pods whose delete was requested.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn uids(&self) -> impl Iterator<Item = &String> {
        self.asked.keys()
    }

    /// When the next pause is over.
    #[must_use]
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let later = self.asked.values().map(|asked| asked.again);
        later.filter(|again| *again > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_stays_is_asked_for_ever_more_seldom() {
        let start = Instant::now();
        let mut deletions = Deletions::default();
        let mut asked = Vec::new();
        for second in 0..2000 {
            let now = start + Duration::from_secs(second);
            if deletions.is_due("a", true, now) {
                deletions.ask("a", true, now);
                asked.push(second);
            }
        }
        assert_eq!(
            asked,
            [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111, 1411, 1711]
        );
        assert_eq!(
            deletions.next(start),
            Some(start + Duration::from_secs(2011))
        );
    }

    #[test]
    fn force_need_not_wait_and_other_pods_do_not_count() {
        let now = Instant::now();
        let mut deletions = Deletions::default();
        deletions.ask("a", false, now);
        assert!(!deletions.is_due("a", false, now));
        assert!(deletions.is_due("a", true, now));
        assert!(deletions.is_due("b", false, now));
        deletions.ask("a", true, now);
        assert!(!deletions.is_due("a", true, now));
        deletions.retain_those_of(&BTreeMap::new());
        assert!(deletions.is_due("a", false, now));
    }
}
