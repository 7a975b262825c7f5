//! Judges a policy object: whether it takes effect. The webhook checks only the policy's own text
//! and tests, as the operator does when it loads the policy.

use kube::Resource;
use serde::de::DeserializeOwned;
use trellis_api::Reason;
use trellis_controller::policies::format_problems;
use trellis_controller::undecodable_message;
use trellis_policies::cedar::PolicyObject;

use super::answer::ReviewAnswer;
use super::judgement::{Judge, JudgedRequest};
use super::review::{self, ReviewRequest};

pub(super) fn judge_policy<K>(judge: &Judge, request: ReviewRequest) -> JudgedRequest
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
    for<'a> PolicyObject: From<&'a K>,
{
    let object: K = match review::decode_object(request) {
        Ok(object) => object,
        Err(error) => {
            let message = undecodable_message(&error);
            return JudgedRequest::independent(ReviewAnswer::refused(
                Reason::InvalidSpec,
                &message,
            ));
        }
    };
    let object = PolicyObject::from(&object);
    let (_, verdicts) = judge.loader.load(None, vec![object]);
    let wrong = verdicts.iter().find(|verdict| !verdict.problems.is_empty());
    JudgedRequest::independent(match wrong {
        Some(verdict) => ReviewAnswer::refused(Reason::InvalidSpec, &format_problems(verdict)),
        None => {
            let warnings = verdicts.iter().flat_map(|verdict| &verdict.warnings);
            // A warning leaves out the quoted line of the policy.
            let first = warnings.map(|warning| warning.to_string().lines().take(1).collect());
            ReviewAnswer::allowed(first)
        }
    })
}
