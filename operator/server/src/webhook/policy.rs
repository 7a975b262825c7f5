//! Judges a policy object: whether it takes effect. Only its own text and tests count, as when it
//! is loaded.

use kube::Resource;
use serde::de::DeserializeOwned;
use trellis_api::Reason;
use trellis_controller::does_not_decode;
use trellis_controller::policies::problems;
use trellis_policies::cedar::PolicyObject;

use super::answer::Answer;
use super::judge::{self, Judge, Judged};
use super::review::Request;

pub(super) fn judge<K>(by: &Judge, request: Request) -> Judged
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
    for<'a> PolicyObject: From<&'a K>,
{
    let object: K = match judge::object(request) {
        Ok(object) => object,
        Err(error) => {
            let message = does_not_decode(&error);
            return Judged::of_itself(Answer::refused(Reason::InvalidSpec, &message));
        }
    };
    let object = PolicyObject::from(&object);
    let (_, verdicts) = by.loader.load(None, vec![object]);
    let wrong = verdicts.iter().find(|verdict| !verdict.problems.is_empty());
    Judged::of_itself(match wrong {
        Some(verdict) => Answer::refused(Reason::InvalidSpec, &problems(verdict)),
        None => {
            let said = verdicts.iter().flat_map(|verdict| &verdict.warnings);
            // A warning leaves out the line of the policy that it refers to.
            let first = said.map(|said| said.to_string().lines().take(1).collect());
            Answer::allowed(first)
        }
    })
}
