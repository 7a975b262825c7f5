//! What the pods say of their checkpoints.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use trellis_api::job::CheckpointStatus;

use super::{Evaluation, after};
use crate::gang::observed::Checkpoint;

/// Seconds by which clocks differ that are nothing to tell of.
const SKEW: i64 = 60;

impl Evaluation<'_> {
    /// Takes over what they say. What was said once stays, whatever becomes of the pod.
    pub(super) fn note_checkpoint(&mut self) {
        let said = self.checkpoint();
        self.status.checkpoint = (said != CheckpointStatus::default()).then_some(said);
    }

    /// When the last checkpoint was complete.
    pub(super) fn last_checkpoint(&self) -> Option<Timestamp> {
        self.checkpoint().last_time.map(|time| time.0)
    }

    /// The latest that any pod names, since the others write to the same one. What is still to
    /// come, by a clock that is fast, is taken for the moment at which it was first seen.
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
            // It was taken for then.
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

    /// What the job's pods say, by name: also those that stop, and save before they do.
    fn said(&self) -> impl Iterator<Item = (&str, &Checkpoint)> {
        self.own_pods()
            .filter_map(|(name, pod)| Some((name, &**pod.checkpoint.as_ref()?)))
    }

    /// What is wrong with what a pod says.
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
