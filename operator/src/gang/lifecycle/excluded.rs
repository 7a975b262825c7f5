//! Nodes that the next attempts keep away from: for a while, and longer each time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::Reason;
use trellis_api::job::{ExcludedNode, TrainingJobStatus};

use super::Evaluation;
use crate::gang::failure::{Blame, Fault};

/// How long a node is kept away from, the first time. Devices are released late: then it is
/// tried once more.
const AVOID: SignedDuration = SignedDuration::from_secs(60);
/// The longest that a node is kept away from.
const LONGEST_AVOID: SignedDuration = SignedDuration::from_mins(15);
/// Most nodes that are remembered: the last ones.
const MOST: usize = 64;

/// How long a node is kept away from after so many times.
#[must_use]
pub fn avoid_for(times: u32) -> SignedDuration {
    let doubled = 1_i32
        .checked_shl(times.saturating_sub(1))
        .filter(|d| *d > 0)
        .unwrap_or(i32::MAX);
    let wait = AVOID.checked_mul(doubled).unwrap_or(LONGEST_AVOID);
    wait.min(LONGEST_AVOID)
}

impl Evaluation<'_> {
    /// A fault may say something about its node: a kubelet that refuses, or cannot set up, or on which ranks
    /// of two attempts in a row have failed first.
    pub(super) fn exclude(&mut self, fault: &Fault) {
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
            note(&mut self.status, (node, fault.reason), attempt, self.o.now);
        }
    }

    /// Those that are kept away from now, for such a reason. A kubelet that refuses would
    /// again; that ranks failed on a node may be chance, or their own doing.
    pub(super) fn kept_away_from(&self, is_why: impl Fn(Reason) -> bool) -> Vec<String> {
        let nodes = self.status.excluded_nodes.iter();
        let nodes = nodes.filter(|node| node.until.0 > self.o.now && is_why(node.reason));
        nodes.map(|node| node.node.clone()).collect()
    }

    /// When the next of them may be tried again.
    pub(super) fn next_tried(&self) -> Option<Timestamp> {
        let ends = self.status.excluded_nodes.iter().map(|e| e.until.0);
        ends.filter(|end| *end > self.o.now).min()
    }
}

/// All pods run: the nodes that refused some are forgotten.
pub(super) fn forget_refusals(status: &mut TrainingJobStatus) {
    let nodes = &mut status.excluded_nodes;
    nodes.retain(|node| node.reason != Reason::KubeletRefused);
}

fn note(
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
    let wait = avoid_for(u32::try_from(times).unwrap_or(u32::MAX));
    nodes.push(ExcludedNode {
        node: node.to_owned(),
        reason,
        times,
        attempt,
        until: Time(now.saturating_add(wait).unwrap_or(Timestamp::MAX)),
    });
    let surplus = nodes.len().saturating_sub(MOST);
    nodes.drain(..surplus);
}
