//! Policy changes that are not loaded yet: those of the cluster and those of each namespace, in the
//! order of their first change.

use std::collections::BTreeMap;

use tokio::time::Instant;

/// The namespace, or None for the cluster.
pub type PolicyScope = Option<String>;

/// Policy changes that are not loaded yet.
#[derive(Debug, Default)]
pub struct PendingChanges {
    /// Number of changes so far, over all scopes.
    changes: u64,
    scopes: BTreeMap<PolicyScope, UnloadedChanges>,
}

/// The changes of one scope that are not loaded.
#[derive(Debug)]
struct UnloadedChanges {
    /// Number of the latest change.
    latest: u64,
    /// All changes of the scope up to this number are loaded.
    loaded: u64,
    /// When the oldest change that is not loaded arrived.
    since: Instant,
}

impl PendingChanges {
    /// Records that an object of the scope was created, changed or deleted.
    pub fn record_change(&mut self, scope: PolicyScope, now: Instant) {
        self.changes = self.changes.saturating_add(1);
        let changes = self.changes;
        let unloaded = self.scopes.entry(scope).or_insert(UnloadedChanges {
            latest: changes,
            loaded: changes.saturating_sub(1),
            since: now,
        });
        unloaded.latest = changes;
    }

    /// Records that the policies of the scope include its first `latest` changes.
    pub fn mark_loaded(&mut self, scope: &PolicyScope, latest: u64, now: Instant) {
        let Some(unloaded) = self.scopes.get_mut(scope) else {
            return;
        };
        if unloaded.latest <= latest {
            self.scopes.remove(scope);
        } else {
            unloaded.loaded = latest;
            unloaded.since = now;
        }
    }

    /// Returns the number of the latest change of a scope. None if all its changes are loaded.
    pub fn latest_change(&self, scope: &PolicyScope) -> Option<u64> {
        self.scopes.get(scope).map(|unloaded| unloaded.latest)
    }

    /// Returns true if all changes of the scope up to that number are loaded.
    pub fn is_loaded(&self, scope: &PolicyScope, latest: Option<u64>) -> bool {
        let loaded = self.scopes.get(scope).map(|unloaded| unloaded.loaded);
        latest.is_none_or(|latest| loaded.is_none_or(|loaded| loaded >= latest))
    }

    /// Returns the namespaces with changes that are not loaded, longest wait first, each with the
    /// start of its wait.
    pub fn namespaces(&self) -> Vec<(&str, Instant)> {
        let mut all: Vec<_> = self
            .scopes
            .iter()
            .filter_map(|(scope, unloaded)| Some((scope.as_deref()?, unloaded)))
            .collect();
        all.sort_by_key(|(_, unloaded)| unloaded.loaded);
        all.into_iter()
            .map(|(namespace, unloaded)| (namespace, unloaded.since))
            .collect()
    }

    /// Records that every change is loaded.
    pub fn clear(&mut self) {
        self.scopes.clear();
    }
}
