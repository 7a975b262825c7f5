//! A job of several stages: when one is complete the next is queued, as a gang of its own.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, JobStage};

use super::{Evaluation, Named, Next, Observed};
use crate::gang::Wish;
use crate::gang::observed::PodView;

/// The stage that a job is at. None: it has but one.
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
    /// The gang has done its work: its job is complete, or its stage is.
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
        // What the next stage becomes is compiled once it is written that this one is complete.
        let wish = Wish::Stop {
            reason: Reason::StageComplete,
            hurry: true,
        };
        self.say(JobPhase::Queued, Reason::StageComplete, message, wish)
    }

    /// True of a pod that is done, as its stage is, and stays. Nobody waits for it to go.
    fn is_left(&self, pod: &PodView) -> bool {
        pod.phase.is_over()
            && self.status.is_of_earlier_stage(pod.attempt)
            && self.o.spec.keeps_done_pods()
    }

    /// The pods of the job, in whatever attempt, but for those that are left of earlier stages.
    pub(super) fn own_pods(&self) -> impl Iterator<Item = Named<'a>> {
        let own = self.own.iter().copied();
        own.filter(|(_, pod)| !self.is_left(pod))
    }
}
