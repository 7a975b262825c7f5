//! Nodes whose kubelets refused a pod of a job: kept away from for a while,
//! and longer each time. Pure.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::Reason;
use trellis_api::job::{JobPhase, LastFailure, TrainingJobStatus};

use super::failure;

/// How long a node that refused a pod is kept away from, the first time.
/// Devices are released late: then it is tried once more.
const AVOID: SignedDuration = SignedDuration::from_secs(60);
/// The longest that a node is kept away from.
const LONGEST_AVOID: SignedDuration = SignedDuration::from_mins(15);

/// What was refused to one job since it last ran. The last refusal stands in
/// the job's status too, and so outlives the operator; the ones before it do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Refusals {
    nodes: BTreeMap<String, Refused>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused {
    attempt: i64,
    last: Timestamp,
    times: u32,
}

/// How long a node is kept away from that has refused so many times.
#[must_use]
pub fn avoid_for(times: u32) -> SignedDuration {
    let doubled = 1_i32
        .checked_shl(times.saturating_sub(1))
        .filter(|d| *d > 0)
        .unwrap_or(i32::MAX);
    let wait = AVOID.checked_mul(doubled).unwrap_or(LONGEST_AVOID);
    wait.min(LONGEST_AVOID)
}

impl Refused {
    fn until(&self) -> Timestamp {
        self.last
            .saturating_add(avoid_for(self.times))
            .unwrap_or(Timestamp::MAX)
    }
}

impl Refusals {
    /// Takes a status as it is written: a refusal is remembered, and all are
    /// forgotten once the job runs or has ended.
    pub(super) fn take(&mut self, status: &TrainingJobStatus) {
        if status.phase == Some(JobPhase::Running) || status.has_ended() {
            self.nodes.clear();
            return;
        }
        let last = status.last_failure.as_ref().filter(|last| {
            status.reason == Some(Reason::KubeletRefused) || failure::is_refusal(&last.reason)
        });
        if let Some(last) = last {
            self.note(last);
        }
    }

    /// Remembers a failure, once for each attempt.
    fn note(&mut self, failure: &LastFailure) {
        let Some(node) = &failure.node else { return };
        if self.nodes.values().any(|r| r.attempt >= failure.attempt) {
            return;
        }
        let refused = Refused {
            attempt: failure.attempt,
            last: failure.time.0,
            times: 1,
        };
        self.nodes
            .entry(node.clone())
            .and_modify(|before| {
                *before = Refused {
                    times: before.times.saturating_add(1),
                    ..refused
                };
            })
            .or_insert(refused);
    }

    /// True if nothing is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Refusals that are remembered.
    pub(super) fn count(&self) -> u32 {
        self.nodes
            .values()
            .fold(0, |sum, r| sum.saturating_add(r.times))
    }

    /// Nodes to keep away from now.
    pub(super) fn excluded(&self, now: Timestamp) -> Vec<String> {
        self.nodes
            .iter()
            .filter(|(_, refused)| refused.until() > now)
            .map(|(node, _)| node.clone())
            .collect()
    }

    /// When the next of these nodes may be tried again.
    pub(super) fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        let ends = self.nodes.values().map(Refused::until);
        ends.filter(|end| *end > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn refused(node: &str, attempt: i64, second: i64) -> TrainingJobStatus {
        TrainingJobStatus {
            phase: Some(JobPhase::Restarting),
            reason: Some(Reason::KubeletRefused),
            last_failure: Some(LastFailure {
                pod: "j-worker-0".to_owned(),
                node: Some(node.to_owned()),
                exit_code: None,
                reason: "OutOfnvidia.com/gpu".to_owned(),
                attempt,
                time: Time(at(second)),
            }),
            ..TrainingJobStatus::default()
        }
    }

    fn of(statuses: &[TrainingJobStatus]) -> Refusals {
        let mut refusals = Refusals::default();
        for status in statuses {
            refusals.take(status);
        }
        refusals
    }

    #[test]
    fn a_node_is_kept_away_from_for_a_while_and_then_tried_again() {
        let refusals = of(&[refused("a", 1, 0)]);
        assert_eq!(refusals.excluded(at(59)), ["a"]);
        assert_eq!(refusals.next_end(at(59)), Some(at(60)));
        assert!(refusals.excluded(at(60)).is_empty());
        assert_eq!(refusals.next_end(at(60)), None);
        assert_eq!(refusals.count(), 1, "it has not run yet");
    }

    #[test]
    fn two_bad_nodes_are_kept_away_from_together() {
        let refusals = of(&[refused("a", 1, 0), refused("b", 2, 5)]);
        assert_eq!(refusals.excluded(at(10)), ["a", "b"]);
        assert_eq!(refusals.next_end(at(10)), Some(at(60)));
        assert_eq!(refusals.excluded(at(60)), ["b"]);
    }

    #[test]
    fn a_node_that_refuses_again_is_kept_away_from_for_longer() {
        let mut refusals = Refusals::default();
        let mut waits = Vec::new();
        let mut second = 0;
        for attempt in 1..40 {
            refusals.take(&refused("a", attempt, second));
            let end = refusals.next_end(at(second)).unwrap().as_second();
            waits.push(end - second);
            second = end;
        }
        assert_eq!(waits[..6], [60, 120, 240, 480, 900, 900]);
        assert_eq!(waits.last(), Some(&900));
    }

    #[test]
    fn the_same_status_seen_again_counts_once() {
        let mut queued = refused("a", 1, 0);
        queued.phase = Some(JobPhase::Queued);
        queued.reason = Some(Reason::Fragmented);
        let refusals = of(&[refused("a", 1, 0), queued, refused("a", 1, 0)]);
        assert_eq!(refusals.count(), 1);
    }

    #[test]
    fn a_job_that_runs_or_has_ended_forgets() {
        for phase in [JobPhase::Running, JobPhase::Failed] {
            let mut after = refused("b", 2, 1);
            after.phase = Some(phase);
            assert!(of(&[refused("a", 1, 0), after]).is_empty(), "{phase:?}");
        }
    }

    #[test]
    fn other_failures_are_none() {
        let mut failed = refused("a", 1, 0);
        failed.reason = Some(Reason::PodFailed);
        failed.last_failure.as_mut().unwrap().reason = "Error".to_owned();
        assert!(of(&[failed]).is_empty());
    }
}
