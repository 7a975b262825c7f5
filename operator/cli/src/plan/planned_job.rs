//! One planned job, and the verdict on it.

use trellis_api::job::LevelPlacement;
use trellis_compiler::CompiledJob;
use trellis_gang::JobHold;
use trellis_gang::key::Key;
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_scheduler::Victim;

use super::job_preparation::PlacementInputs;

/// A planned job with its compiled objects and its placement.
pub(super) struct PlannedJob {
    /// The namespace and name.
    pub(super) key: Key,
    /// The compiled job, if all objects that it refers to exist.
    pub(super) compiled: Option<CompiledJob>,
    /// Task groups of the stages after the planned stage, with their stage numbers.
    pub(super) later_groups: Vec<(u32, String)>,
    /// The attempt of the pods.
    pub(super) attempt: i64,
    /// The placement, or the reason why the job would not run.
    pub(super) place: Result<GangPlacement, JobHold>,
    /// How the ranks follow the topology, if the job has a placement.
    pub(super) levels: Vec<LevelPlacement>,
    /// The gangs that would be preempted first.
    pub(super) victims: Vec<Victim>,
    /// The volumes that its claims would be bound to before the pods are created.
    pub(super) claims: Vec<String>,
    /// The inputs for its placement. Empty if it may not be placed.
    pub(super) inputs: PlacementInputs,
    /// Jobs before it in its queue that the plan does not consider.
    pub(super) jobs_ahead: usize,
    /// True if a job with this name has ended, so that it does not run again.
    pub(super) has_ended: bool,
}

impl PlannedJob {
    /// Returns true if the job would run now.
    pub(super) fn would_run(&self) -> bool {
        self.place.is_ok()
    }

    /// Returns true if the job would be Refused.
    pub(super) fn is_refused(&self) -> bool {
        !self.has_ended && self.place.as_ref().is_err_and(JobHold::is_refused)
    }

    /// The verdict in a few words.
    pub(super) fn verdict(&self) -> &'static str {
        match &self.place {
            Ok(_) => "would run",
            Err(_) if self.has_ended => "would not run",
            Err(held) if held.is_refused() => "would be Refused",
            Err(_) => "would wait",
        }
    }
}
