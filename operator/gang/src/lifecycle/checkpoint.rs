//! Checkpoints that the pods report.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use trellis_api::job::CheckpointStatus;

use super::{Evaluation, add_seconds};
use crate::observed::PodCheckpoint;

/// Clock difference in seconds that is tolerated without a message.
const MAX_CLOCK_SKEW: i64 = 60;

impl Evaluation<'_> {
    /// Copies the latest reported checkpoint into the status. It stays there after its pod has
    /// ended.
    pub(super) fn record_checkpoint(&mut self) {
        let report = self.latest_checkpoint();
        self.status.checkpoint = (report != CheckpointStatus::default()).then_some(report);
    }

    /// Returns when the last checkpoint was complete.
    pub(super) fn last_checkpoint(&self) -> Option<Timestamp> {
        self.latest_checkpoint().last_time.map(|time| time.0)
    }

    /// Returns the latest checkpoint that any pod reports, because all pods write the same
    /// checkpoints. A time in the future, from a fast clock, counts as the time of the first
    /// evaluation with it.
    fn latest_checkpoint(&self) -> CheckpointStatus {
        let before = self.observed.status.checkpoint.clone().unwrap_or_default();
        let known = before.last_time.map(|time| time.0);
        let ahead = before.ahead_time.map(|time| time.0);
        let (mut latest, mut problem) = (None, None);
        for (name, report) in self.reports() {
            if let PodCheckpoint::At(at) = report {
                latest = latest.max(Some(*at));
            }
            problem = problem.or_else(|| self.report_error(name, report));
        }
        let (last, ahead) = match latest {
            // An earlier evaluation has replaced this time.
            Some(at) if ahead == Some(at) => (known, ahead),
            Some(at) if at > self.observed.now => (known.max(Some(self.observed.now)), Some(at)),
            at => (known.max(at), None),
        };
        CheckpointStatus {
            last_time: last.map(Time),
            ahead_time: ahead.map(Time),
            problem,
        }
    }

    /// Returns the reports of the job's pods, by name. Pods that are being stopped are included,
    /// because they may save a checkpoint before they end.
    fn reports(&self) -> impl Iterator<Item = (&str, &PodCheckpoint)> {
        self.own_pods()
            .filter_map(|(name, pod)| Some((name, &**pod.checkpoint.as_ref()?)))
    }

    /// Returns the error in a pod's report.
    fn report_error(&self, name: &str, report: &PodCheckpoint) -> Option<String> {
        let latest_plausible = add_seconds(self.observed.now, MAX_CLOCK_SKEW);
        match report {
            PodCheckpoint::At(at) if *at > latest_plausible => Some(format!(
                "pod {name:?} says that its checkpoint was complete at {at}, which is to come"
            )),
            PodCheckpoint::At(_) => None,
            PodCheckpoint::Unreadable(error) => Some(format!("pod {name:?}: {error}")),
        }
    }
}
