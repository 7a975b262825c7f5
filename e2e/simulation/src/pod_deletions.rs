//! How often the operator asks for the deletion of each pod. The history of objects does not show
//! a deletion that is asked for again.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use hyper::body::Bytes;
use serde_json::Value;

use crate::time::VirtualTime;

/// Most accepted deletions of one pod. Each leader asks once, and again while the pod stays.
const MOST: u32 = 12;
/// Shortest time in which one process sends three equal deletions. The operator pauses for one second
/// and then for two. The first pause counts from the decision, and the request may leave later.
const SHORTEST_PAUSE: Duration = Duration::from_millis(950);

/// A replica, and the number of its start.
type Process = (usize, u64);

/// A pod that a process deletes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DeletedPod {
    path: String,
    uid: String,
    /// Seconds of the grace period, as far as the request sets them.
    grace: Option<u64>,
}

impl DeletedPod {
    /// Reads a request. None: it deletes no pod.
    fn from_request(request: &Request<Bytes>) -> Option<Self> {
        let path = request.uri().path();
        if request.method() != Method::DELETE || !path.contains("/pods/") {
            return None;
        }
        let options: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let uid = options["preconditions"]["uid"].as_str().unwrap_or_default();
        Some(Self {
            path: path.to_owned(),
            uid: uid.to_owned(),
            grace: options["gracePeriodSeconds"].as_u64(),
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct PodDeletions {
    accepted: BTreeMap<DeletedPod, u32>,
    /// When each process sent a deletion the last two times.
    sent: BTreeMap<(Process, DeletedPod), [Option<VirtualTime>; 2]>,
}

impl PodDeletions {
    /// Takes in a request that a process sends. Describes it if it repeats another one too soon.
    pub(crate) fn send(
        &mut self,
        process: Process,
        sent_at: VirtualTime,
        request: &Request<Bytes>,
    ) -> Option<String> {
        let pod = DeletedPod::from_request(request)?;
        let sent = self.sent.entry((process, pod.clone())).or_default();
        let [before, last] = *sent;
        *sent = [last, Some(sent_at)];
        let pause = sent_at.since(before?);
        (pause < SHORTEST_PAUSE).then(|| {
            let DeletedPod { path, uid, .. } = pod;
            format!("hasty-deletion: {path} ({uid}) was deleted three times in {pause:?}")
        })
    }

    /// Takes in a request with the answer of the API server.
    pub(crate) fn observe(&mut self, request: &Request<Bytes>, status: StatusCode) {
        if let Some(pod) = DeletedPod::from_request(request).filter(|_| status.is_success()) {
            *self.accepted.entry(pod).or_default() += 1;
        }
    }

    /// Describes the pods that were deleted too often.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        let repeated = self.accepted.iter().filter(|(_, count)| **count > MOST);
        repeated.map(|(DeletedPod { path, uid, .. }, count)| {
            format!("{path} ({uid}) was deleted {count} times")
        })
    }
}
