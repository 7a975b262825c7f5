//! Checkpoints that the pods report.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use trellis_api::job::CheckpointStatus;

use super::{Evaluation, add_seconds};
use crate::observed::PodCheckpoint;

/// Clock difference in seconds that is tolerated without a message.
const MAX_CLOCK_SKEW: i64 = 60;

impl Evaluation<'_> {
    /// Copies the reported checkpoints into the status. A checkpoint stays there, whatever happens
    /// to its pod.
    pub(super) fn record_checkpoint(&mut self) {
        let said = self.latest_checkpoint();
        self.status.checkpoint = (said != CheckpointStatus::default()).then_some(said);
    }

    /// Returns when the last checkpoint was complete.
    pub(super) fn last_checkpoint(&self) -> Option<Timestamp> {
        self.latest_checkpoint().last_time.map(|time| time.0)
    }

    /// Returns the latest checkpoint that any pod reports, because all pods write to the same one.
    /// A time in the future, from a clock that is fast, counts as the moment at which it was first
    /// seen.
    fn latest_checkpoint(&self) -> CheckpointStatus {
        let before = self.observed.status.checkpoint.clone().unwrap_or_default();
        let known = before.last_time.map(|time| time.0);
        let ahead = before.ahead_time.map(|time| time.0);
        let (mut latest, mut problem) = (None, None);
        for (name, said) in self.reports() {
            if let PodCheckpoint::At(at) = said {
                latest = latest.max(Some(*at));
            }
            problem = problem.or_else(|| self.report_error(name, said));
        }
        let (last, ahead) = match latest {
            // Its time was replaced by the time of observation before.
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

    /// Returns the reports of the job's pods, by name. They include pods that are being stopped,
    /// which save before they end.
    fn reports(&self) -> impl Iterator<Item = (&str, &PodCheckpoint)> {
        self.own_pods()
            .filter_map(|(name, pod)| Some((name, &**pod.checkpoint.as_ref()?)))
    }

    /// Returns the error in a pod's report.
    fn report_error(&self, name: &str, said: &PodCheckpoint) -> Option<String> {
        let to_come = add_seconds(self.observed.now, MAX_CLOCK_SKEW);
        match said {
            PodCheckpoint::At(at) if *at > to_come => Some(format!(
                "pod {name:?} says that its checkpoint was complete at {at}, which is to come"
            )),
            PodCheckpoint::At(_) => None,
            PodCheckpoint::Unreadable(why) => Some(format!("pod {name:?}: {why}")),
        }
    }
}
