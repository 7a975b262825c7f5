//! The shared state of the connections of a proxy.

use std::collections::BTreeMap;
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
    /// The faults that the proxy injects now. The trap holds its own fault.
    pub(super) active_faults: Mutex<BTreeMap<FaultKind, ActiveFault>>,
    /// Changes when held requests may pass.
    pub(super) release_signal: tokio::sync::watch::Sender<()>,
}

/// A fault that a proxy injects for a while. Each ends by itself, so that the oracle judges the
/// control plane again as soon as the last one has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FaultKind {
    /// From the first request that the hook disturbs until the hook is removed. A hook that only
    /// reads requests is no fault. A hook that has disturbed one request counts until it is
    /// removed, because a client that waits longer and longer between its tries meets it late.
    Hook,
    /// From the stall of watches until they are resumed.
    StalledWatches,
    /// While the proxy drops events.
    LostEvents,
}

impl std::fmt::Debug for ProxyState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("State")
    }
}

impl ProxyState {
    /// Records that the proxy injects a fault from now on.
    pub(super) fn begin_fault(&self, kind: FaultKind) {
        let mut active = self.active_faults();
        active.entry(kind).or_insert_with(|| self.faults.begin());
    }

    /// Records the end of a fault.
    pub(super) fn end_fault(&self, kind: FaultKind) {
        drop(self.active_faults().remove(&kind));
    }

    /// Records the end of all faults but that of the trap.
    pub(super) fn end_faults(&self) {
        self.active_faults().clear();
    }

    fn active_faults(&self) -> MutexGuard<'_, BTreeMap<FaultKind, ActiveFault>> {
        self.active_faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the fault of a request.
    pub(super) fn find_fault(&self, request: &Request) -> ProxyFault {
        let hook = cloned_value(&self.hook);
        let fault = hook.map_or(ProxyFault::Pass, |hook| hook(request));
        if fault != ProxyFault::Pass {
            self.begin_fault(FaultKind::Hook);
        }
        fault
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

#[cfg(test)]
mod tests {
    use hyper::body::Bytes;

    use super::super::Verb;
    use super::*;

    fn any_request(path: &str) -> Request {
        Request {
            user_agent: String::new(),
            verb: Verb::Get,
            resource: "pods".to_owned(),
            namespace: None,
            name: None,
            dry_run: false,
            path: path.to_owned(),
            body: Bytes::new(),
        }
    }

    #[test]
    fn hook_is_a_fault_from_the_first_request_that_it_disturbs() {
        let state = ProxyState::default();
        set_value(
            &state.hook,
            Some(Arc::new(|request: &Request| {
                match request.path.ends_with("/broken") {
                    true => ProxyFault::DropRequest,
                    false => ProxyFault::Pass,
                }
            })),
        );
        state.find_fault(&any_request("/api/v1/pods"));
        assert!(!state.faults.has_active_fault());
        state.find_fault(&any_request("/api/v1/broken"));
        state.find_fault(&any_request("/api/v1/pods"));
        assert!(state.faults.has_active_fault());
        state.end_fault(FaultKind::Hook);
        assert!(!state.faults.has_active_fault());
    }

    #[test]
    fn end_of_one_fault_does_not_end_another() {
        let state = ProxyState::default();
        state.begin_fault(FaultKind::StalledWatches);
        state.begin_fault(FaultKind::LostEvents);
        state.end_fault(FaultKind::StalledWatches);
        assert!(state.faults.has_active_fault());
        state.end_faults();
        assert!(!state.faults.has_active_fault());
    }
}
