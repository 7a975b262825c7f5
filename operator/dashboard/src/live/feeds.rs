//! The lists that tabs follow now, by user.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::feed::Versions;
use super::{Feed, ListName};
use crate::credential::{Caller, Identity};

/// Time for which a list is kept after an answer, so that a stream can go on from that answer.
const KEPT_AFTER_ANSWER: Duration = Duration::from_secs(20);

/// The lists that tabs follow now. No list is shared by two users.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    feeds: Mutex<HashMap<(Identity, ListName), Weak<Feed>>>,
    versions: Arc<Versions>,
}

impl Feeds {
    /// Returns the list of this user. Reads it from now on, if no tab follows it yet.
    pub(crate) fn follow(&self, caller: &Caller, name: ListName) -> Arc<Feed> {
        let mut feeds = self.feeds.lock();
        feeds.retain(|_, feed| feed.strong_count() > 0);
        let key = (caller.identity, name.clone());
        if let Some(feed) = feeds.get(&key).and_then(Weak::upgrade) {
            return feed;
        }
        let feed = Feed::start(name, caller.reader.clone(), self.versions.clone());
        feeds.insert(key, Arc::downgrade(&feed));
        feed
    }

    /// Keeps the list for a while, so that a stream can go on from its last answer.
    pub(crate) fn keep(feed: Arc<Feed>) {
        tokio::spawn(async move {
            tokio::time::sleep(KEPT_AFTER_ANSWER).await;
            drop(feed);
        });
    }
}
