//! One planned job, and the verdict on it.

use trellis_api::job::LevelPlacement;
use trellis_api::visibility::{PlanVerdict, PlannedClaim};
use trellis_api::{Reason, TrainingJob};
use trellis_compiler::CompiledJob;
use trellis_gang::JobHold;
use trellis_gang::key::Key;
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_gang::requirements::volumes::VolumeRequirements;
use trellis_scheduler::Victim;

/// A planned job with its compiled objects and its placement.
pub struct PlannedJob {
    /// The namespace and name.
    pub key: Key,
    /// The compiled job, if all objects that it refers to exist.
    pub compiled: Option<CompiledJob>,
    /// Task groups of the stages after the planned stage, with their stage numbers.
    pub later_groups: Vec<(u32, String)>,
    /// The attempt of the pods.
    pub attempt: i64,
    /// The placement, or the reason why the job would not run.
    pub place: Result<GangPlacement, JobHold>,
    /// How the ranks follow the topology, if the job has a placement.
    pub levels: Vec<LevelPlacement>,
    /// The gangs that would be preempted first.
    pub victims: Vec<Victim>,
    /// The claims that would be bound before the pods are created.
    pub claims: Vec<PlannedClaim>,
    /// Node requirements of its volumes.
    pub volumes: VolumeRequirements,
    /// Facts that the user might not expect.
    pub notes: Vec<String>,
    /// True if a job with this name has ended, so that it does not run again.
    pub has_ended: bool,
}

impl PlannedJob {
    /// Returns the reason of a job that the engine has not decided on yet.
    #[must_use]
    pub fn undecided() -> JobHold {
        JobHold::waiting(Reason::Queued, "not planned".to_owned())
    }

    /// Returns true if the job would run now.
    #[must_use]
    pub fn would_run(&self) -> bool {
        self.place.is_ok()
    }

    /// Returns the verdict.
    #[must_use]
    pub fn verdict(&self) -> PlanVerdict {
        match &self.place {
            Ok(_) => PlanVerdict::Runs,
            Err(_) if self.has_ended => PlanVerdict::Ended,
            Err(held) if held.is_refused() => PlanVerdict::Refused,
            Err(_) => PlanVerdict::Waits,
        }
    }
}

/// Returns the task groups of the stages after `stage`, with their stage numbers.
#[must_use]
pub fn later_groups(job: &TrainingJob, stage: u32) -> Vec<(u32, String)> {
    let groups = job.spec.task_groups.iter().map(|group| group.name.clone());
    let stages = job.spec.group_stages().into_iter().zip(groups);
    let mut later: Vec<_> = stages.filter(|(own_stage, _)| *own_stage > stage).collect();
    // The sort is stable: the groups of one stage keep the order of the spec.
    later.sort_by_key(|(own_stage, _)| *own_stage);
    later
}
