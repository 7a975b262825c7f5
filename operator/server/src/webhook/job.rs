//! Judges a TrainingJob as the controller will.

use trellis_api::{Reason, TrainingJob};
use trellis_cache::policy::requester_from_user;
use trellis_controller::{predict_job, undecodable_message};
use trellis_gang::key::Key;

use super::answer::ReviewAnswer;
use super::judgement::{self, Judge, JudgedRequest};
use super::review::ReviewRequest;

pub(super) fn judge_job(by: &Judge, request: ReviewRequest) -> JudgedRequest {
    // The requester is the user of this request, even if the object's stamp names another user.
    let requester = requester_from_user(&request.user_info);
    let job: TrainingJob = match judgement::decode_object(request) {
        Ok(job) => job,
        Err(error) => {
            let message = undecodable_message(&error);
            return JudgedRequest::independent(ReviewAnswer::refused(
                Reason::InvalidSpec,
                &message,
            ));
        }
    };
    if let Some(why) = undecidable_reason(by, &job) {
        return JudgedRequest::independent(ReviewAnswer::undecided(&why));
    }
    let foreseen = predict_job(
        &by.context.cache,
        job,
        requester,
        by.policies.clone(),
        &by.settings,
    );
    match foreseen.held {
        None => JudgedRequest::independent(ReviewAnswer::allowed(foreseen.warnings)),
        Some(held) if held.is_refused() => JudgedRequest {
            may_be_behind: held.reason != Reason::InvalidSpec,
            answer: ReviewAnswer::refused(held.reason, &held.message),
        },
        Some(held) => JudgedRequest::independent(ReviewAnswer::will_wait(
            held.reason,
            &held.message,
            foreseen.warnings,
        )),
    }
}

/// Returns why the job cannot be judged yet. The webhook does not refuse the job for this reason,
/// because its namespace may be as new as the job.
fn undecidable_reason(by: &Judge, job: &TrainingJob) -> Option<String> {
    if !by.context.cache.is_synced() {
        return Some("the cluster has not been read yet".to_owned());
    }
    if let Some(kind) = by.context.cache.stale_watch() {
        return Some(format!("what is known of {kind} is minutes old"));
    }
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let known = by.context.cache.namespaces.get(&Key::new("", namespace));
    let is_new = || format!("the namespace {namespace:?} has not been seen yet");
    known.is_none().then(is_new)
}
