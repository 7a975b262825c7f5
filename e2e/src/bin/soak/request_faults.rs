//! The faults of requests and watches that the proxies of the replicas inject now.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use trellis_e2e::proxy::{Proxy, ProxyFault, Request, Verb};
use trellis_simulation::{Fault, RandomSequence, WriteFault, WriteKind};

use crate::replica::Replica;

/// A fault that lasts.
pub(crate) struct RequestFault {
    fault: Fault,
    /// Requests for the Lease pass.
    spares_lease: bool,
    /// Number of writes since its begin, of the kind that the fault meets.
    writes: AtomicU64,
    /// Replicas and kinds whose watches have already been told that their revision is compacted.
    expired: Mutex<BTreeSet<(String, String)>>,
}

impl RequestFault {
    pub(crate) fn new(fault: &Fault, spares_lease: bool) -> Self {
        Self {
            fault: fault.clone(),
            spares_lease,
            writes: AtomicU64::new(0),
            expired: Mutex::default(),
        }
    }

    /// Returns the kind whose watches show nothing.
    fn stalled_kind(&self) -> Option<&str> {
        match &self.fault {
            Fault::StallWatches(kind) => Some(kind),
            Fault::OnWrite(write, WriteFault::StallWatches(kind))
                if self.writes.load(Ordering::Relaxed) >= write.number =>
            {
                Some(kind)
            }
            _ => None,
        }
    }

    /// Returns true if watches of a kind show nothing.
    pub(crate) fn has_stalled(&self) -> bool {
        self.stalled_kind().is_some()
    }

    fn find(&self, replica: &str, request: &Request, random: &mut RandomSequence) -> ProxyFault {
        if self.spares_lease && request.is_lease() {
            return ProxyFault::Pass;
        }
        // A client notices a cut connection at once, and a missing answer after its time-out.
        let is_cut = random.chance(500);
        let lost_request = [ProxyFault::Hang, ProxyFault::DropRequest][usize::from(is_cut)];
        let lost_answer = [ProxyFault::HangResponse, ProxyFault::DropResponse][usize::from(is_cut)];
        match &self.fault {
            Fault::LoseRequests(share) if random.chance(*share) => lost_request,
            // The proxies of both replicas have the fault.
            Fault::LoseLease(_) if request.is_lease() => lost_request,
            Fault::LoseAnswers(share) if random.chance(*share) => lost_answer,
            Fault::Unavailable(share) if random.chance(*share) => ProxyFault::unavailable(),
            Fault::Slow(longest) => {
                ProxyFault::Delay(random.log_uniform_millis(1, (*longest).max(2)))
            }
            Fault::Compact if request.verb == Verb::Watch => {
                let mut expired = self.expired.lock();
                match expired.insert((replica.to_owned(), request.resource.clone())) {
                    true => ProxyFault::ExpireVersion,
                    false => ProxyFault::Pass,
                }
            }
            Fault::OnWrite(write, fault) if is_write_of(write.kind, request) => {
                let count = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
                let is_reached = count == write.number;
                match fault {
                    WriteFault::Delay(millis) if is_reached => {
                        ProxyFault::Delay(Duration::from_millis(*millis))
                    }
                    WriteFault::Deny if is_reached => ProxyFault::Status(403, None),
                    WriteFault::LoseRequest if is_reached => lost_request,
                    WriteFault::LoseAnswer if is_reached => lost_answer,
                    _ => ProxyFault::Pass,
                }
            }
            _ => ProxyFault::Pass,
        }
    }
}

/// Returns true if a request is a write of the kind.
pub(crate) fn is_write_of(kind: WriteKind, request: &Request) -> bool {
    let method = match request.verb {
        Verb::Get | Verb::List | Verb::Watch => Method::GET,
        Verb::Create => Method::POST,
        Verb::Update => Method::PUT,
        Verb::Patch | Verb::Apply => Method::PATCH,
        Verb::Delete | Verb::DeleteCollection => Method::DELETE,
    };
    request.is_write() && kind.includes(&method, &request.path)
}

/// All faults that last.
pub(crate) struct RequestFaults {
    active: Mutex<Vec<Arc<RequestFault>>>,
    random: Mutex<RandomSequence>,
}

impl RequestFaults {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            active: Mutex::default(),
            random: Mutex::new(RandomSequence::new(seed, "soak requests")),
        })
    }

    fn active(&self) -> Vec<Arc<RequestFault>> {
        self.active.lock().clone()
    }

    pub(crate) fn add(&self, fault: Arc<RequestFault>) {
        self.active.lock().push(fault);
    }

    pub(crate) fn remove(&self, fault: &Arc<RequestFault>) {
        let mut active = self.active.lock();
        active.retain(|other| !Arc::ptr_eq(other, fault));
    }

    fn find(&self, replica: &str, request: &Request) -> ProxyFault {
        let mut random = self.random.lock();
        let active = self.active();
        let mut faults = active
            .iter()
            .map(|fault| fault.find(replica, request, &mut random))
            .filter(|fault| *fault != ProxyFault::Pass);
        faults.next().unwrap_or(ProxyFault::Pass)
    }

    /// Makes the proxy of a replica inject the faults that last now.
    pub(crate) fn install(self: &Arc<Self>, replica: &Replica) {
        let (faults, name) = (Arc::clone(self), replica.name.clone());
        // A new hook is no fault for the oracle before it disturbs a request.
        let hook = move |request: &Request| faults.find(&name, request);
        replica.proxy.on_request(hook);
        self.stall_watches(&replica.proxy);
    }

    /// Stalls the watches of the kinds that show nothing now.
    fn stall_watches(&self, proxy: &Proxy) {
        let active = self.active();
        let stalled: BTreeSet<String> = active
            .iter()
            .filter_map(|fault| fault.stalled_kind().map(str::to_owned))
            .collect();
        match stalled.is_empty() {
            true => proxy.resume_watches(),
            false => proxy.stall_watches(move |watch| {
                let plural = watch.resource.split('.').next().unwrap_or_default();
                stalled.contains(plural)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use trellis_simulation::WriteChoice;

    use super::*;

    fn request(verb: Verb, resource: &str) -> Request {
        Request {
            user_agent: String::new(),
            verb,
            resource: resource.to_owned(),
            namespace: None,
            name: None,
            dry_run: false,
            path: format!("/api/v1/{resource}"),
            body: Vec::new().into(),
        }
    }

    #[test]
    fn write_with_the_number_of_the_fault_is_lost() {
        let random = &mut RandomSequence::new(1, "test");
        let write = WriteChoice {
            kind: WriteKind::PodCreation,
            number: 2,
        };
        let fault = RequestFault::new(&Fault::OnWrite(write, WriteFault::LoseAnswer), false);
        let mut find = |verb, resource| fault.find("operator-0", &request(verb, resource), random);
        assert_eq!(find(Verb::Create, "pods"), ProxyFault::Pass);
        for (verb, resource) in [
            (Verb::Update, "leases.coordination.k8s.io"),
            (Verb::Create, "podgroups.trellis.dev"),
            (Verb::List, "pods"),
        ] {
            assert_eq!(find(verb, resource), ProxyFault::Pass, "{resource}");
        }
        assert_ne!(find(Verb::Create, "pods"), ProxyFault::Pass);
        assert_eq!(find(Verb::Create, "pods"), ProxyFault::Pass);
    }

    #[test]
    fn watches_of_each_replica_and_kind_expire_once() {
        let random = &mut RandomSequence::new(1, "test");
        let fault = RequestFault::new(&Fault::Compact, false);
        let mut find =
            |replica, verb, resource| fault.find(replica, &request(verb, resource), random);
        for replica in ["operator-0", "operator-1"] {
            for kind in ["pods", "nodes"] {
                assert_eq!(find(replica, Verb::List, kind), ProxyFault::Pass);
                assert_eq!(find(replica, Verb::Watch, kind), ProxyFault::ExpireVersion);
                assert_eq!(find(replica, Verb::Watch, kind), ProxyFault::Pass);
            }
        }
    }

    #[test]
    fn lease_is_spared_when_the_leader_must_stay() {
        let random = &mut RandomSequence::new(1, "test");
        let fault = RequestFault::new(&Fault::Unavailable(1000), true);
        let mut find =
            |resource| fault.find("operator-0", &request(Verb::Update, resource), random);
        assert_eq!(find("leases.coordination.k8s.io"), ProxyFault::Pass);
        assert_eq!(find("pods"), ProxyFault::unavailable());
    }
}
