//! Judges a TrainingJob as the controller will.

use trellis_api::{Reason, TrainingJob};
use trellis_cache::policy::requester_of;
use trellis_controller::{does_not_decode, foresee};
use trellis_gang::key::Key;

use super::answer::Answer;
use super::judge::{self, Judge, Judged};
use super::review::Request;

pub(super) fn judge(by: &Judge, request: Request) -> Judged {
    // The requester is the user of this request, whatever stamp the object has.
    let requester = requester_of(&request.user_info);
    let job: TrainingJob = match judge::object(request) {
        Ok(job) => job,
        Err(error) => {
            let message = does_not_decode(&error);
            return Judged::of_itself(Answer::refused(Reason::InvalidSpec, &message));
        }
    };
    if let Some(why) = unknown(by, &job) {
        return Judged::of_itself(Answer::undecided(&why));
    }
    let foreseen = foresee(
        &by.context.cache,
        job,
        requester,
        by.policies.clone(),
        &by.settings,
    );
    match foreseen.held {
        None => Judged::of_itself(Answer::allowed(foreseen.warnings)),
        Some(held) if held.is_refused() => Judged {
            may_be_behind: held.reason != Reason::InvalidSpec,
            answer: Answer::refused(held.reason, &held.message),
        },
        Some(held) => {
            Judged::of_itself(Answer::waits(held.reason, &held.message, foreseen.warnings))
        }
    }
}

/// Why the job cannot be judged yet. A job is not refused for that: its namespace may have been
/// created together with it.
fn unknown(by: &Judge, job: &TrainingJob) -> Option<String> {
    if !by.context.cache.is_synced() {
        return Some("the cluster has not been read yet".to_owned());
    }
    if let Some(kind) = by.context.cache.unseen() {
        return Some(format!("what is known of {kind} is minutes old"));
    }
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let known = by.context.cache.namespaces.get(&Key::new("", namespace));
    let is_new = || format!("the namespace {namespace:?} has not been seen yet");
    known.is_none().then(is_new)
}
