//! Checkpoints that the pods report.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use trellis_api::job::CheckpointStatus;

use super::{Evaluation, after};
use crate::observed::Checkpoint;

/// Clock difference in seconds that is tolerated without a message.
const SKEW: i64 = 60;

impl Evaluation<'_> {
    /// Copies the reported checkpoints into the status. A checkpoint stays there, whatever happens
    /// to its pod.
    pub(super) fn note_checkpoint(&mut self) {
        let said = self.checkpoint();
        self.status.checkpoint = (said != CheckpointStatus::default()).then_some(said);
    }

    /// When the last checkpoint was complete.
    pub(super) fn last_checkpoint(&self) -> Option<Timestamp> {
        self.checkpoint().last_time.map(|time| time.0)
    }

    /// The latest checkpoint that any pod reports, because all pods write to the same one. A time
    /// in the future, from a clock that is fast, counts as the moment at which it was first seen.
    fn checkpoint(&self) -> CheckpointStatus {
        let before = self.o.status.checkpoint.clone().unwrap_or_default();
        let known = before.last_time.map(|time| time.0);
        let ahead = before.ahead_time.map(|time| time.0);
        let (mut latest, mut problem) = (None, None);
        for (name, said) in self.said() {
            if let Checkpoint::At(at) = said {
                latest = latest.max(Some(*at));
            }
            problem = problem.or_else(|| self.wrong(name, said));
        }
        let (last, ahead) = match latest {
            // Its time was replaced by the time of observation before.
            Some(at) if ahead == Some(at) => (known, ahead),
            Some(at) if at > self.o.now => (known.max(Some(self.o.now)), Some(at)),
            at => (known.max(at), None),
        };
        CheckpointStatus {
            last_time: last.map(Time),
            ahead_time: ahead.map(Time),
            problem,
        }
    }

    /// Reports of the job's pods, by name. They include pods that are being stopped, which save
    /// before they end.
    fn said(&self) -> impl Iterator<Item = (&str, &Checkpoint)> {
        self.own_pods()
            .filter_map(|(name, pod)| Some((name, &**pod.checkpoint.as_ref()?)))
    }

    /// The error in a pod's report.
    fn wrong(&self, name: &str, said: &Checkpoint) -> Option<String> {
        let to_come = after(self.o.now, SKEW);
        match said {
            Checkpoint::At(at) if *at > to_come => Some(format!(
                "pod {name:?} says that its checkpoint was complete at {at}, which is to come"
            )),
            Checkpoint::At(_) => None,
            Checkpoint::Unreadable(why) => Some(format!("pod {name:?}: {why}")),
        }
    }
}
