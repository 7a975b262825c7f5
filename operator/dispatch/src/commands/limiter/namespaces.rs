//! The permits that each namespace holds, and the writes that wait for one.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;

/// Namespaces that hold a permit, or wait for one.
#[derive(Debug, Default)]
pub(super) struct NamespacePermits(HashMap<Box<str>, NamespaceUsage>);

/// Permits and waiting writes of one namespace.
#[derive(Debug, Default)]
pub(super) struct NamespaceUsage {
    /// Permits that the namespace holds, or is about to hold.
    pub(super) permits: usize,
    /// Writes that wait until the namespace holds fewer permits.
    pub(super) waiting_writes: usize,
    /// Notified when the namespace returns a permit.
    pub(super) permit_returned: Arc<Notify>,
}

impl NamespacePermits {
    /// Returns true if the namespace may hold another of `limit` permits: it never holds more than
    /// three quarters.
    pub(super) fn has_room(&self, namespace: &str, limit: usize) -> bool {
        let kept = limit.div_ceil(4);
        let share = limit.saturating_sub(kept).max(1);
        self.0
            .get(namespace)
            .is_none_or(|here| here.permits < share)
    }

    /// Counts one more permit for the namespace.
    pub(super) fn take_permit(&mut self, namespace: &str) {
        let here = self.0.entry(namespace.into()).or_default();
        here.permits = here.permits.saturating_add(1);
    }

    /// Counts a waiting write. Returns the `Notify` that wakes it.
    pub(super) fn add_waiting_write(&mut self, namespace: &str) -> Arc<Notify> {
        let here = self.0.entry(namespace.into()).or_default();
        here.waiting_writes = here.waiting_writes.saturating_add(1);
        here.permit_returned.clone()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Applies a change that removes a permit or a waiting write. Forgets a namespace that has
    /// neither.
    pub(super) fn release(&mut self, namespace: &str, change: impl FnOnce(&mut NamespaceUsage)) {
        if let Some(here) = self.0.get_mut(namespace) {
            change(here);
            if here.permits == 0 && here.waiting_writes == 0 {
                self.0.remove(namespace);
            }
        }
    }
}
