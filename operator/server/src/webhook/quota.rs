//! Judges a QuotaPolicy: whether its limits take effect, with the messages of its status.

use trellis_api::{QuotaPolicy, Reason};
use trellis_controller::quotas::no_effect_message;
use trellis_policies::quota::{QuotaPolicies, UnusableReason};

use super::answer::ReviewAnswer;
use super::judgement::JudgedRequest;
use super::review::{self, ReviewRequest};

pub(super) fn judge_quota_policy(request: ReviewRequest) -> JudgedRequest {
    let fault = match review::decode_object::<QuotaPolicy>(request) {
        Ok(policy) => {
            let read = QuotaPolicies::load([&policy], []);
            read.unusable().first().map(|(_, why)| why.clone())
        }
        Err(error) => Some(UnusableReason::Unreadable(error.to_string())),
    };
    JudgedRequest::independent(match fault {
        Some(why) => {
            ReviewAnswer::refused(Reason::InvalidSpec, &no_effect_message(&why.to_string()))
        }
        None => ReviewAnswer::allowed(Vec::new()),
    })
}
