//! The one task of a gang.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use trellis_gang::{AuthorizedAttempt, DesiredGang};

/// The writes in flight for one gang. A gang has one task at a time, for one incarnation of its
/// job. The result does not apply to another incarnation.
#[derive(Debug)]
pub(in crate::driver) struct GangTask {
    /// Uid of the job.
    pub(in crate::driver) uid: String,
    /// The run that the task starts. None: the task has to finish in any case.
    pub(in crate::driver) run: Option<Arc<AuthorizedAttempt>>,
    /// Cancels the task.
    pub(in crate::driver) stop: CancellationToken,
}

impl GangTask {
    /// Returns true if the task's work is still wanted: the same attempt of the same job, compiled
    /// to the same result.
    pub(in crate::driver) fn is_wanted(&self, desired: Option<&DesiredGang>) -> bool {
        let Some(started) = &self.run else {
            return true;
        };
        desired.and_then(DesiredGang::attempt).is_some_and(|run| {
            run.attempt.number == started.attempt.number
                && run.uid == self.uid
                && run.job.compiled().hash() == started.job.compiled().hash()
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trellis_gang::fixtures::{desired_run, desired_run_with};

    use super::*;

    #[test]
    fn task_is_wanted_only_for_its_own_attempt_and_job() {
        let task = |uid: &str, desired: Option<&DesiredGang>| GangTask {
            uid: uid.to_owned(),
            run: desired.and_then(DesiredGang::attempt).cloned(),
            stop: CancellationToken::new(),
        };
        let (first, second) = (desired_run(1), desired_run(2));
        let own_task = task("mine", Some(&first));
        assert!(own_task.is_wanted(Some(&first)));
        // The job was compiled again, with the same result.
        assert!(own_task.is_wanted(Some(&desired_run(1))));
        assert!(!own_task.is_wanted(Some(&second)));
        let changed = desired_run_with(1, json!({"preemptibility": "ProtectedWithinQuota"}));
        assert!(!own_task.is_wanted(Some(&changed)));
        assert!(!task("another", Some(&first)).is_wanted(Some(&first)));
        assert!(!own_task.is_wanted(Some(&DesiredGang::Wait)));
        assert!(!own_task.is_wanted(None));
        // A task without a run has to finish in any case.
        assert!(task("another", None).is_wanted(None));
    }
}
