//! What the pods say of their checkpoints.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use trellis_api::job::CheckpointStatus;

use super::{Evaluation, after};
use crate::watch::Checkpoint;

/// Seconds by which clocks differ that are nothing to tell of.
const SKEW: i64 = 60;

impl Evaluation<'_> {
    /// Takes over what they say. What was said once stays, whatever becomes of the pod.
    pub(super) fn note_checkpoint(&mut self) {
        if let Some(at) = self.said().filter(|at| *at > self.o.now).min() {
            self.look_again(at);
        }
        let said = CheckpointStatus {
            last_time: self.last_checkpoint().map(Time),
            problem: self.wrong_checkpoint(),
        };
        self.status.checkpoint = (said != CheckpointStatus::default()).then_some(said);
    }

    /// When the last checkpoint was complete: the latest that any pod names, since the others
    /// write to the same one. What a clock that is fast says counts when it has come.
    pub(super) fn last_checkpoint(&self) -> Option<Timestamp> {
        let before = self.o.status.checkpoint.as_ref();
        let before = before.and_then(|known| known.last_time.as_ref());
        let said = self.said().filter(|at| *at <= self.o.now);
        said.chain(before.map(|time| time.0)).max()
    }

    fn said(&self) -> impl Iterator<Item = Timestamp> {
        self.members()
            .filter_map(|pod| match &**pod.checkpoint.as_ref()? {
                Checkpoint::At(at) => Some(*at),
                Checkpoint::Unreadable(_) => None,
            })
    }

    fn wrong_checkpoint(&self) -> Option<String> {
        let to_come = after(self.o.now, SKEW);
        self.named_members()
            .find_map(|(name, pod)| match &**pod.checkpoint.as_ref()? {
                Checkpoint::At(at) if *at > to_come => Some(format!(
                    "pod {name:?} says that its checkpoint was complete at {at}, which is to come"
                )),
                Checkpoint::At(_) => None,
                Checkpoint::Unreadable(why) => Some(format!("pod {name:?}: {why}")),
            })
    }
}
