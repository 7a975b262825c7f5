//! A job of several stages: when a stage is complete, the next one is queued as a gang of its own.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, JobStage};

use super::{Evaluation, EvaluationResult, NamedPod, ObservedJob};
use crate::DesiredGang;
use crate::observed::PodView;

/// Returns the current stage of a job. None if the job has only one.
pub(super) fn current_stage(o: &ObservedJob<'_>) -> Option<JobStage> {
    let count = i64::from(o.whole_spec.stage_count());
    let stage = o.status.stage.clone().unwrap_or(JobStage {
        number: 1,
        of: count,
        first_attempt: 1,
        since: None,
    });
    (count > 1).then(|| JobStage {
        number: stage.number.clamp(1, count),
        of: count,
        ..stage
    })
}

impl<'a> Evaluation<'a> {
    /// Ends the job after its last stage; otherwise moves on to the next stage.
    pub(super) fn complete_stage(mut self, message: String) -> EvaluationResult {
        let stage = self.status.stage.clone();
        let Some(stage) = stage.filter(|stage| stage.number < stage.of) else {
            return self.complete_job(message);
        };
        let next = self.attempt().saturating_add(1);
        let number = stage.number.saturating_add(1);
        self.status.stage = Some(JobStage {
            number,
            of: stage.of,
            first_attempt: next,
            since: Some(Time(self.observed.now)),
        });
        self.spec = self
            .observed
            .whole_spec
            .for_stage(self.status.stage_number());
        self.status.gpus = Some(i64::from(self.spec.gpu_count()));
        self.begin_attempt(next);
        self.status.scheduled_time = None;
        self.status.retry_time = None;
        self.status.internal.failed_starts = None;
        let JobStage { number, of, .. } = stage;
        let message = format!("stage {number} of {of} is complete: {message}");
        let message = self.append_remaining_pods(&message);
        // The next stage is compiled after the status records that this one is complete.
        let desired = DesiredGang::Stop {
            reason: Reason::StageComplete,
            hurry: true,
        };
        self.report(JobPhase::Queued, Reason::StageComplete, message, desired)
    }

    /// Returns true if the pod has finished, belongs to an earlier stage, and stays. The next stage
    /// does not wait for its deletion.
    fn is_finished_stage_pod(&self, pod: &PodView) -> bool {
        pod.phase.is_over()
            && self.status.is_of_earlier_stage(pod.attempt)
            && self.observed.spec.keeps_finished_pods()
    }

    /// Returns the pods of the job in all attempts, without those that earlier stages have left.
    pub(super) fn own_pods(&self) -> impl Iterator<Item = NamedPod<'a>> {
        let own = self.job_pods.iter().copied();
        own.filter(|(_, pod)| !self.is_finished_stage_pod(pod))
    }
}
