//! The shared state of the connections of a proxy.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use serde_json::Value;

use super::{
    ProxyFault, Request, RequestCounts, RequestKey, TrafficTotals, request::RequestFilter,
    trap::Trap,
};
use crate::oracle::{ActiveFault, FaultLog};

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(super) type FaultHook = Arc<dyn Fn(&Request) -> ProxyFault + Send + Sync>;
pub(super) type EventFilter = Arc<dyn Fn(&Request, &Value) -> bool + Send + Sync>;

/// State shared by the connections of a proxy.
#[derive(Default)]
pub(super) struct ProxyState {
    pub(super) counts: RwLock<RequestCounts>,
    pub(super) hook: RwLock<Option<FaultHook>>,
    pub(super) trap: RwLock<Option<Arc<Trap>>>,
    pub(super) stall_filter: tokio::sync::watch::Sender<Option<RequestFilter>>,
    pub(super) cut_filter: tokio::sync::watch::Sender<Option<RequestFilter>>,
    pub(super) lost_event_filter: RwLock<Option<EventFilter>>,
    /// The faults of the control plane.
    pub(super) faults: FaultLog,
    /// Present while the proxy injects faults.
    pub(super) active_fault: Mutex<Option<ActiveFault>>,
    /// Changes when held requests may pass.
    pub(super) release_signal: tokio::sync::watch::Sender<()>,
}

impl std::fmt::Debug for ProxyState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("State")
    }
}

impl ProxyState {
    /// Records that the proxy injects faults from now on.
    pub(super) fn begin_fault(&self) {
        let mut active = self.active_fault();
        active.get_or_insert_with(|| self.faults.begin());
    }

    /// Records that the proxy injects no more faults.
    pub(super) fn end_fault(&self) {
        drop(self.active_fault().take());
    }

    fn active_fault(&self) -> MutexGuard<'_, Option<ActiveFault>> {
        self.active_fault
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_traffic(&self, key: &RequestKey, totals: TrafficTotals) {
        let mut counts = self.counts.write().unwrap_or_else(PoisonError::into_inner);
        counts.add(key, totals);
    }

    pub(super) fn count_success(&self, key: &RequestKey) {
        let totals = TrafficTotals {
            successes: 1,
            ..TrafficTotals::default()
        };
        self.add_traffic(key, totals);
    }

    pub(super) fn count_failure(&self, key: &RequestKey) {
        let totals = TrafficTotals {
            failures: 1,
            ..TrafficTotals::default()
        };
        self.add_traffic(key, totals);
    }
}

pub(super) fn set_value<T>(lock: &RwLock<T>, value: T) {
    *lock.write().unwrap_or_else(PoisonError::into_inner) = value;
}

pub(super) fn cloned_value<T: Clone>(lock: &RwLock<T>) -> T {
    lock.read().unwrap_or_else(PoisonError::into_inner).clone()
}
