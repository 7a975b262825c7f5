//! Uids of deleted objects. The answer to a create or a read may arrive after the watch has shown
//! the deletion. It must not bring the object back.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// Number of uids to keep: more than the deletions between a request's effect and its answer.
const MAX_UIDS: usize = 4096;

/// The uids of the objects that were deleted last.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    uids: HashSet<Arc<str>>,
    oldest_first: VecDeque<Arc<str>>,
}

impl Tombstones {
    /// Records a deletion. It is final: uids are not reused.
    pub(super) fn add(&mut self, uid: &str) {
        if uid.is_empty() || self.uids.contains(uid) {
            return;
        }
        if self.oldest_first.len() >= MAX_UIDS
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.uids.remove(&oldest);
        }
        let uid: Arc<str> = uid.into();
        self.uids.insert(uid.clone());
        self.oldest_first.push_back(uid);
    }

    /// Returns true if the object is known to be deleted.
    pub(super) fn contains(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tombstones_keep_a_bounded_number_of_uids() {
        let mut gone = Tombstones::default();
        for i in 0..=MAX_UIDS {
            gone.add(&i.to_string());
            gone.add(&i.to_string());
        }
        assert!(!gone.contains("0"));
        assert!(gone.contains("1"));
        assert!(gone.contains(&MAX_UIDS.to_string()));
        assert_eq!(gone.uids.len(), MAX_UIDS);
        gone.add("");
        assert!(!gone.contains(""));
    }
}
