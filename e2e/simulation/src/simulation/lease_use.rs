//! Judges by the Lease when a replica may write. The history of objects does not show when a request
//! was sent.

use std::time::Duration;

use http::Method;

use super::single_writes::is_write_of;
use super::{Simulation, WorldEvent};
use crate::cluster;
use crate::script::{Fault, FaultScript, WriteKind};
use crate::time::VirtualTime;
use crate::transport::SentRequest;

/// Longest time for which the operator waits for an answer.
const REQUEST_TIME: Duration = Duration::from_secs(15);

/// Returns true if a request takes or renews the Lease.
pub(super) fn is_lease_write(request: &SentRequest) -> bool {
    let request = &request.request;
    request.method() != Method::GET && request.uri().path().contains("/leases")
}

/// Returns true if only the leader may send the request.
fn needs_lease(request: &SentRequest) -> bool {
    let kinds = [
        WriteKind::Journal,
        WriteKind::PodCreation,
        WriteKind::PodDeletion,
        WriteKind::JobStatus,
    ];
    kinds
        .into_iter()
        .any(|kind| is_write_of(kind, &request.request))
}

/// The Lease of one process.
#[derive(Debug, Default)]
pub(super) struct LeaseUse {
    /// End of the Lease by the last renewal that the API server has accepted.
    end: Option<VirtualTime>,
}

impl LeaseUse {
    /// Records that the API server has accepted a renewal.
    fn renew(&mut self, sent_at: VirtualTime, lease: Duration) {
        self.end = self.end.max(Some(sent_at + lease));
    }

    /// Records that the machine stood still with its clocks for this time.
    pub(super) fn pause(&mut self, time: Duration) {
        self.end = self.end.map(|end| end + time);
    }

    /// Describes a request that the process sends without the Lease.
    pub(super) fn find_late_write(
        &self,
        sent_at: VirtualTime,
        request: &SentRequest,
    ) -> Option<String> {
        if !needs_lease(request) || self.end.is_some_and(|end| sent_at <= end) {
            return None;
        }
        let (method, path) = (request.request.method(), request.request.uri().path());
        Some(match self.end {
            Some(end) => format!(
                "late-write: {method} {path} was sent {:?} after the end of the Lease",
                sent_at.since(end)
            ),
            None => format!("late-write: {method} {path} was sent without a Lease"),
        })
    }
}

impl Simulation<'_> {
    /// Returns the holder of the Lease. None: the Lease does not exist.
    pub(super) fn lease_holder(&self) -> Option<String> {
        let lease = self.server.list(&cluster::LEASES).next()?;
        let holder = lease.value()["spec"]["holderIdentity"].as_str()?;
        Some(holder.to_owned())
    }

    /// Handles a write of the Lease that the API server has accepted. `former`: the holder before it.
    pub(super) fn judge_lease_write(
        &mut self,
        replica: usize,
        sent_at: VirtualTime,
        former: Option<String>,
    ) {
        let lease = Duration::from_secs(self.script.lease_seconds);
        self.replicas[replica].lease.renew(sent_at, lease);
        let is_pause = |fault: &FaultScript| matches!(fault.fault, Fault::Pause(_));
        if self.script.faults.iter().any(is_pause) {
            // A machine that stood still sends what it would have sent before.
            return;
        }
        let (Some(former), Some(holder)) = (former, self.lease_holder()) else {
            return;
        };
        // A holder that gives the Lease away has no request under way.
        if former.is_empty() || former == holder {
            return;
        }
        let under_way = self.events.values().filter_map(|event| match event {
            WorldEvent::Request(request) if needs_lease(&request.sent) => {
                Some((request.sent_at, request.name.as_str()))
            }
            _ => None,
        });
        let hasty = find_hasty_takeover(&holder, self.now, lease, under_way);
        self.request_problems.extend(hasty);
    }
}

/// Describes a write of the former leader that is under way when another process, the holder, takes
/// the Lease. Its sender has not given it up yet.
fn find_hasty_takeover<'r>(
    holder: &str,
    now: VirtualTime,
    lease: Duration,
    mut under_way: impl Iterator<Item = (VirtualTime, &'r str)>,
) -> Option<String> {
    let is_awaited = |sent_at: VirtualTime| sent_at + REQUEST_TIME.min(lease) > now;
    let (sent_at, name) = under_way.find(|(sent_at, _)| is_awaited(*sent_at))?;
    Some(format!(
        "hasty-takeover: {holder} took the Lease while {name}, sent {:?} before, was under way",
        now.since(sent_at)
    ))
}
