//! DaemonSets, as the watch shows them. The engine reserves room for their pods on Trellis's own
//! nodes.

use std::sync::Arc;

use trellis_api::names;
use trellis_cache::watch::Sink;
use trellis_gang::key::Key;
use trellis_gang::observed::{SlimDaemonSet, SlimNode};

use super::{Context, WatchSink};
use crate::SchedulerEvent;

impl Context {
    /// Updates an own node after DaemonSet pods on it have come or gone.
    pub(super) fn reserve_changed(&self, node: Arc<str>) {
        let known = self.cache.nodes.get(&Key::new("", &node));
        if known.is_some_and(|node| is_labelled_own(&node)) {
            self.send_event(SchedulerEvent::Node(node));
        }
    }

    /// Updates all own nodes.
    fn reserves_changed(&self) {
        for node in self.cache.nodes.all() {
            if is_labelled_own(&node) {
                self.send_event(SchedulerEvent::Node(Key::from_meta(&node.metadata).name));
            }
        }
    }
}

fn is_labelled_own(node: &SlimNode) -> bool {
    let labels = node.metadata.labels.as_ref();
    let value = labels.and_then(|l| l.get(names::DEDICATED_NODE));
    value.is_some_and(|value| value == names::DEDICATED_NODE_VALUE)
}

impl Sink<SlimDaemonSet> for WatchSink {
    fn apply(&self, key: Key, object: SlimDaemonSet) {
        let before = self.context.cache.daemon_sets.get(&key);
        // The status of a DaemonSet changes with every pod, so this does not compare it.
        let changed = before.is_none_or(|before| !before.is_equal_for_nodes(&object));
        self.context.cache.daemon_sets.insert_observed(key, object);
        if changed {
            self.context.reserves_changed();
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context.cache.daemon_sets.delete_observed(key, uid);
        self.context.reserves_changed();
    }

    fn synced(&self) {
        self.mark_listed();
    }
}
