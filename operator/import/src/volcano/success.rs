//! Tasks whose end completes the job.

use trellis_api::job::{Framework, Role, SuccessPolicy};

use crate::draft::JobDraft;
use crate::field_log::FieldLog;

/// Sets the success policy for a policy that completes the job at the end of a task.
pub(super) fn set_success(path: &str, task: Option<&str>, draft: &mut JobDraft, log: &FieldLog) {
    // With only one task, the default policy is the same.
    if draft.pods.len() == 1 {
        return;
    }
    let success = draft.spec.success.as_ref();
    if success.and_then(|success| success.policy) == Some(SuccessPolicy::Any) {
        let reason = "completes the job at the end of a task, and minSuccess completes it at the end of any pod";
        log.note(path, None, reason, CHOOSE_POLICY);
        return;
    }
    let Some(task) = task else {
        let reason = "completes the job at the end of any task, which has no equivalent";
        log.note(path, None, reason, CHOOSE_POLICY);
        return;
    };
    let at = draft.pods.iter().position(|pods| pods.group.name == task);
    let Some(group) = at.and_then(|at| draft.pods.get(at)).map(|pods| &pods.group) else {
        return;
    };
    if group.replicas() != 1 {
        let reason =
            "completes the job at the end of a task of several pods, which has no equivalent";
        log.note(path, None, reason, CHOOSE_POLICY);
        return;
    }
    if !super::task::has_rank_0(group, &draft.pods) {
        let has_leader = draft.pods.iter().any(|pods| pods.group.role().has_rank_0());
        let has_role = group.role.is_some() || draft.spec.framework == Some(Framework::MPI);
        if has_leader || has_role || !group.is_in_gang() {
            let reason = "completes the job at the end of a pod that does not have rank 0";
            log.note(path, None, reason, CHOOSE_POLICY);
            return;
        }
        let reason = "completes the job at the end of this task: in Trellis it gets rank 0 by the role Coordinator";
        log.note(
            path,
            None,
            reason,
            "check that the other tasks do not depend on their old ranks",
        );
    }
    let mut pods = draft.pods.iter_mut();
    if let Some(pods) = pods.find(|pods| pods.group.name == task && pods.group.role.is_none()) {
        pods.group.role = Some(Role::Coordinator);
    }
    draft.set_success(SuccessPolicy::Leader);
}

const CHOOSE_POLICY: &str = "choose All, Any or Leader in spec.success.policy";
