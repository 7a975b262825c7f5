//! What a decision depends on, and the decision.

use std::sync::Arc;

use kube::Resource;
use trellis_compiler::Settings;
use trellis_dispatch::context::Context;
use trellis_policies::cedar::{Policies, PolicyLoader};

use super::answer::ReviewAnswer;
use super::review::ReviewRequest;

/// Everything that a decision depends on.
#[derive(Clone)]
pub(super) struct Judge {
    pub(super) context: Arc<Context>,
    /// The policies in force.
    pub(super) policies: Option<Arc<Policies>>,
    pub(super) loader: PolicyLoader,
    pub(super) settings: Arc<Settings>,
}

/// Decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JudgedRequest {
    pub(super) answer: ReviewAnswer,
    /// True if the decision depends on other objects, whose cached state may be a moment old.
    pub(super) may_be_behind: bool,
}

impl JudgedRequest {
    /// Returns a decision that does not depend on other objects.
    pub(super) fn independent(answer: ReviewAnswer) -> Self {
        Self {
            answer,
            may_be_behind: false,
        }
    }
}

/// Returns the object as it will be stored. Its name and namespace may be in the request only.
pub(super) fn decode_object<K>(request: ReviewRequest) -> serde_json::Result<K>
where
    K: Resource<DynamicType = ()> + serde::de::DeserializeOwned,
{
    let object = serde_json::to_value(request.object)?;
    let mut object: K = serde_json::from_value(object)?;
    let meta = object.meta_mut();
    let namespace = request.namespace.filter(|namespace| !namespace.is_empty());
    if meta.namespace.is_none() {
        meta.namespace = namespace;
    }
    if meta.name.is_none() && !request.name.is_empty() {
        meta.name = Some(request.name);
    }
    Ok(object)
}
