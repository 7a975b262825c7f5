//! A job of several stages: when a stage is complete, the next one is queued as a gang of its own.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, JobStage};

use super::{Evaluation, Named, Next, Observed};
use crate::Wish;
use crate::observed::PodView;

/// The current stage of a job. None if the job has only one.
pub(super) fn stage(o: &Observed<'_>) -> Option<JobStage> {
    let of = i64::from(o.whole.stages());
    let stage = o.status.stage.clone().unwrap_or(JobStage {
        number: 1,
        of,
        first_attempt: 1,
        since: None,
    });
    (of > 1).then(|| JobStage {
        number: stage.number.clamp(1, of),
        of,
        ..stage
    })
}

impl<'a> Evaluation<'a> {
    /// Ends the job after its last stage; otherwise moves on to the next stage.
    pub(super) fn complete(mut self, message: String) -> Next {
        let stage = self.status.stage.clone();
        let Some(stage) = stage.filter(|stage| stage.number < stage.of) else {
            return self.all_complete(message);
        };
        let next = self.attempt().saturating_add(1);
        let number = stage.number.saturating_add(1);
        self.status.stage = Some(JobStage {
            number,
            of: stage.of,
            first_attempt: next,
            since: Some(Time(self.o.now)),
        });
        self.spec = self.o.whole.of_stage(self.status.stage_number());
        self.status.gpus = Some(i64::from(self.spec.gpu_count()));
        self.begin(next);
        self.status.scheduled_time = None;
        self.status.retry_time = None;
        self.status.internal.failed_starts = None;
        let JobStage { number, of, .. } = stage;
        let message = format!("stage {number} of {of} is complete: {message}");
        let message = self.until_they_are_gone(&message);
        // The next stage is compiled after the status records that this one is complete.
        let wish = Wish::Stop {
            reason: Reason::StageComplete,
            hurry: true,
        };
        self.say(JobPhase::Queued, Reason::StageComplete, message, wish)
    }

    /// True if the pod has finished, belongs to an earlier stage, and stays. The next stage does
    /// not wait for its deletion.
    fn is_left(&self, pod: &PodView) -> bool {
        pod.phase.is_over()
            && self.status.is_of_earlier_stage(pod.attempt)
            && self.o.spec.keeps_done_pods()
    }

    /// The pods of the job in all attempts, without those that earlier stages have left.
    pub(super) fn own_pods(&self) -> impl Iterator<Item = Named<'a>> {
        let own = self.own.iter().copied();
        own.filter(|(_, pod)| !self.is_left(pod))
    }
}
