//! Nodes that the next attempts avoid, for a time that grows with each failure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::Reason;
use trellis_api::job::{ExcludedNode, TrainingJobStatus};

use crate::failure::fault::{Blame, Fault};
use crate::lifecycle::Evaluation;

/// How long a node is avoided the first time. Devices may only be released late, so the node is
/// tried again.
const FIRST_EXCLUSION: SignedDuration = SignedDuration::from_secs(60);
/// Longest time for which a node is avoided.
const MAX_EXCLUSION: SignedDuration = SignedDuration::from_mins(15);
/// Most nodes in the status: the latest ones stay.
const MAX_EXCLUDED_NODES: usize = 64;

/// Returns how long a node is avoided after its `times`-th exclusion.
#[must_use]
pub fn exclusion_time(times: u32) -> SignedDuration {
    let doubled = 1_i32
        .checked_shl(times.saturating_sub(1))
        .filter(|d| *d > 0)
        .unwrap_or(i32::MAX);
    let wait = FIRST_EXCLUSION
        .checked_mul(doubled)
        .unwrap_or(MAX_EXCLUSION);
    wait.min(MAX_EXCLUSION)
}

impl Evaluation<'_> {
    /// Excludes the node of a fault if the fault is probably the node's: its kubelet refuses pods
    /// or cannot set them up, or ranks of two attempts in a row have failed on it.
    pub(in crate::lifecycle) fn exclude_node(&mut self, fault: &Fault) {
        let Some(node) = &fault.node else { return };
        let attempt = self.attempt();
        let before = self.status.last_failure.as_ref();
        let twice = before.is_some_and(|before| {
            let follows = before.attempt.saturating_add(1) == attempt;
            follows && before.node.as_ref() == Some(node) && before.exit_code.is_some()
        });
        let excludes = match fault.reason {
            Reason::KubeletRefused | Reason::ClaimNotBound => true,
            Reason::PodFailed => twice,
            Reason::ContainerConfigError => fault.blame == Blame::Cluster,
            _ => false,
        };
        if excludes {
            record_exclusion(
                &mut self.status,
                (node, fault.reason),
                attempt,
                self.observed.now,
            );
        }
    }

    /// Returns the nodes that are avoided now for a reason that matches. A kubelet that refuses
    /// pods would do so again; failed ranks may be chance, or the job's own fault.
    pub(in crate::lifecycle) fn excluded_nodes(
        &self,
        is_why: impl Fn(Reason) -> bool,
    ) -> Vec<String> {
        let nodes = self.status.excluded_nodes.iter();
        let nodes = nodes.filter(|node| node.until.0 > self.observed.now && is_why(node.reason));
        nodes.map(|node| node.node.clone()).collect()
    }

    /// Returns when the next avoided node may be tried again.
    pub(in crate::lifecycle) fn next_exclusion_end(&self) -> Option<Timestamp> {
        let ends = self.status.excluded_nodes.iter().map(|e| e.until.0);
        ends.filter(|end| *end > self.observed.now).min()
    }
}

/// Forgets the nodes that refused pods, because all pods run.
pub(in crate::lifecycle) fn forget_refusals(status: &mut TrainingJobStatus) {
    let nodes = &mut status.excluded_nodes;
    nodes.retain(|node| node.reason != Reason::KubeletRefused);
}

fn record_exclusion(
    status: &mut TrainingJobStatus,
    (node, reason): (&str, Reason),
    attempt: i64,
    now: Timestamp,
) {
    let nodes = &mut status.excluded_nodes;
    let before = nodes.iter().position(|excluded| excluded.node == node);
    let before = before.map(|at| nodes.remove(at));
    let times = before.filter(|before| before.reason == reason);
    let times = times.map_or(0, |before| before.times).saturating_add(1);
    let wait = exclusion_time(u32::try_from(times).unwrap_or(u32::MAX));
    nodes.push(ExcludedNode {
        node: node.to_owned(),
        reason,
        times,
        attempt,
        until: Time(now.saturating_add(wait).unwrap_or(Timestamp::MAX)),
    });
    let surplus = nodes.len().saturating_sub(MAX_EXCLUDED_NODES);
    nodes.drain(..surplus);
}
