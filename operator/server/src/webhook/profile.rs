//! Judges a RuntimeProfile: whether jobs can be compiled with it, with the messages of its status.

use std::collections::BTreeSet;

use trellis_api::{Reason, RuntimeProfile};
use trellis_controller::undecodable_message;
use trellis_gang::lookup::{CachedProfile, describe_several_defaults};

use super::answer::ReviewAnswer;
use super::judgement::{Judge, JudgedRequest};
use super::review::{self, ReviewRequest};

pub(super) fn judge_profile(judge: &Judge, request: ReviewRequest) -> JudgedRequest {
    let object: RuntimeProfile = match review::decode_object(request) {
        Ok(object) => object,
        Err(error) => {
            let message = undecodable_message(&error);
            return JudgedRequest::independent(ReviewAnswer::refused(
                Reason::InvalidSpec,
                &message,
            ));
        }
    };
    let name = object.metadata.name.clone().unwrap_or_default();
    let profile = CachedProfile::from(object);
    JudgedRequest::independent(match &profile.profile {
        Err(wrong) => ReviewAnswer::refused(Reason::InvalidSpec, wrong),
        Ok(_) => ReviewAnswer::allowed(second_default_warning(judge, &name, &profile)),
    })
}

/// Warns of a second default profile, because jobs without a profile would wait. It is only a
/// warning, because moving the default takes two writes.
fn second_default_warning(judge: &Judge, name: &str, profile: &CachedProfile) -> Option<String> {
    let all = judge.context.cache.profiles.defaults();
    let mut names: BTreeSet<&str> = all.keys().map(String::as_str).collect();
    names.insert(name);
    let names: Vec<&str> = names.into_iter().collect();
    (profile.is_default && names.len() > 1).then(|| {
        let reason = Reason::ProfileMisconfigured;
        format!("{reason}: {}", describe_several_defaults(&names))
    })
}
