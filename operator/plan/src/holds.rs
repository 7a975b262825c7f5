//! Reasons why a job does not run that need neither the policies nor the engine.

use std::collections::BTreeMap;

use trellis_api::{Reason, TrainingJob, TrainingJobSpec};
use trellis_compiler::CompiledJob;
use trellis_gang::{JobHold, lookup};

/// Returns why a job does not run, whatever policies and the engine say. The order is that of the
/// lifecycle: an ended job is not evaluated again, and a suspended job is not checked for whether it
/// could run. `existing` is the job of that name in the cluster.
#[must_use]
pub fn hold_without_policies(
    spec: &TrainingJobSpec,
    existing: Option<&TrainingJob>,
) -> Option<JobHold> {
    let external = || {
        let manager = spec.external_manager()?;
        let message = format!("spec.managedBy is {manager:?}: Trellis does not run the job");
        Some(JobHold::waiting(Reason::NotApplicable, message))
    };
    let suspended = || {
        let hold = || JobHold::waiting(Reason::Suspended, "spec.suspend is true".to_owned());
        spec.is_suspended().then(hold)
    };
    check_ended(existing).or_else(external).or_else(suspended)
}

/// Returns the reason if the job has ended. A job that has ended never runs again.
fn check_ended(existing: Option<&TrainingJob>) -> Option<JobHold> {
    let status = existing?.status.as_ref()?;
    status.phase.filter(|_| status.has_ended()).map(|phase| {
        let message = format!(
            "the job of this name has ended, {phase:?}: delete it, or rename this one, to run again"
        );
        JobHold::waiting(status.reason.unwrap_or(Reason::Complete), message)
    })
}

/// Checks for a process with user id 0. Pod Security "restricted" refuses such a pod, even if the pod
/// meets all its other requirements.
///
/// # Errors
/// If the namespace, with these labels, enforces "restricted", and the job runs as root.
pub fn check_root(job: &CompiledJob, labels: &BTreeMap<String, String>) -> Result<(), JobHold> {
    let security = job.job().spec().security_context.as_ref();
    let root = security.is_some_and(|s| s.run_as_user == Some(0));
    if !root || !lookup::enforces_restricted(labels) {
        return Ok(());
    }
    let message = format!(
        "spec.securityContext.runAsUser: 0 is root, which namespace {:?} refuses by Pod Security \"restricted\": name another user, or leave it out",
        job.job().namespace()
    );
    Err(JobHold::waiting(Reason::PodRefused, message))
}
