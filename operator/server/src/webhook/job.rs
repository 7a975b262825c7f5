//! Judges a TrainingJob as the controller will.

use trellis_api::{Reason, TrainingJob};
use trellis_cache::policy::requester_from_user;
use trellis_controller::{predict_job, undecodable_message};
use trellis_gang::key::Key;

use super::answer::ReviewAnswer;
use super::judgement::{Judge, JudgedRequest};
use super::review::{self, ReviewRequest};

pub(super) fn judge_job(judge: &Judge, request: ReviewRequest) -> JudgedRequest {
    // The requester is the user of this request, even if the object's stamp names another user.
    let requester = requester_from_user(&request.user_info);
    let job: TrainingJob = match review::decode_object(request) {
        Ok(job) => job,
        Err(error) => {
            let message = undecodable_message(&error);
            return JudgedRequest::independent(ReviewAnswer::refused(
                Reason::InvalidSpec,
                &message,
            ));
        }
    };
    if let Some(why) = undecidable_reason(judge, &job) {
        return JudgedRequest::independent(ReviewAnswer::undecided(&why));
    }
    let prediction = predict_job(
        &judge.context.cache,
        job,
        requester,
        judge.policies.clone(),
        &judge.settings,
    );
    match prediction.held {
        None => JudgedRequest::independent(ReviewAnswer::allowed(prediction.warnings)),
        Some(hold) if hold.is_refused() => JudgedRequest {
            may_be_behind: hold.reason != Reason::InvalidSpec,
            answer: ReviewAnswer::refused(hold.reason, &hold.message),
        },
        Some(hold) => JudgedRequest::independent(ReviewAnswer::will_wait(
            hold.reason,
            &hold.message,
            prediction.warnings,
        )),
    }
}

/// Returns why the job cannot be judged yet. The webhook does not refuse the job for this reason,
/// because its namespace may be as new as the job.
fn undecidable_reason(judge: &Judge, job: &TrainingJob) -> Option<String> {
    if !judge.context.cache.is_synced() {
        return Some("the cluster has not been read yet".to_owned());
    }
    if let Some(kind) = judge.context.cache.stale_watch() {
        return Some(format!("what is known of {kind} is minutes old"));
    }
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let namespace_object = judge.context.cache.namespaces.get(&Key::new("", namespace));
    let is_new = || format!("the namespace {namespace:?} has not been seen yet");
    namespace_object.is_none().then(is_new)
}
