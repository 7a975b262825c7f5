//! How many permits each namespace holds, and who waits there for one.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;

/// Namespaces that have a permit, or wait for one.
#[derive(Debug, Default)]
pub(super) struct Namespaces(HashMap<Box<str>, Namespace>);

/// What one namespace has.
#[derive(Debug, Default)]
pub(super) struct Namespace {
    /// Permits that it holds, or is about to.
    pub(super) taken: usize,
    /// Writes that wait until it holds fewer.
    pub(super) waiting: usize,
    /// It holds one less.
    pub(super) left: Arc<Notify>,
}

impl Namespaces {
    /// True if the namespace may hold one more of so many: of four it never holds the fourth.
    pub(super) fn has_room(&self, namespace: &str, limit: usize) -> bool {
        let kept = limit.div_ceil(4);
        let share = limit.saturating_sub(kept).max(1);
        self.0.get(namespace).is_none_or(|here| here.taken < share)
    }

    /// The namespace holds one more.
    pub(super) fn take(&mut self, namespace: &str) {
        let here = self.0.entry(namespace.into()).or_default();
        here.taken = here.taken.saturating_add(1);
    }

    /// A write waits there: says what to wait for.
    pub(super) fn wait(&mut self, namespace: &str) -> Arc<Notify> {
        let here = self.0.entry(namespace.into()).or_default();
        here.waiting = here.waiting.saturating_add(1);
        here.left.clone()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One holds, or waits, no longer. Nothing is kept of a namespace to which nobody writes.
    pub(super) fn leave(&mut self, namespace: &str, change: impl FnOnce(&mut Namespace)) {
        if let Some(here) = self.0.get_mut(namespace) {
            change(here);
            if here.taken == 0 && here.waiting == 0 {
                self.0.remove(namespace);
            }
        }
    }
}
