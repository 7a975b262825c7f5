//! Judges a request. Depends only on the request and the known state.

use std::sync::Arc;

use kube::Resource;
use trellis_api::{ClusterJobPolicy, JobPolicy, QuotaPolicy, RuntimeProfile, TrainingJob};
use trellis_compiler::Settings;
use trellis_dispatch::context::Context;
use trellis_policies::cedar::{Policies, PolicyLoader};

use super::answer::ReviewAnswer;
use super::review::{self, ReviewRequest};
use super::{job, policy, profile, quota};

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

/// Kind of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Job,
    ClusterPolicy,
    Policy,
    Quota,
    Profile,
    Other,
}

impl ObjectKind {
    pub(super) fn from_request(request: &ReviewRequest) -> Self {
        let looked_at = [
            (is_kind::<TrainingJob>(request), Self::Job),
            (is_kind::<ClusterJobPolicy>(request), Self::ClusterPolicy),
            (is_kind::<JobPolicy>(request), Self::Policy),
            (is_kind::<QuotaPolicy>(request), Self::Quota),
            (is_kind::<RuntimeProfile>(request), Self::Profile),
        ];
        let mut kinds = looked_at.into_iter().filter(|(is, _)| *is);
        kinds.next().map_or(Self::Other, |(_, kind)| kind)
    }

    /// Returns the name of the kind in metrics, which never comes from a user.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Job => "TrainingJob",
            Self::ClusterPolicy => "ClusterJobPolicy",
            Self::Policy => "JobPolicy",
            Self::Quota => "QuotaPolicy",
            Self::Profile => "RuntimeProfile",
            Self::Other => "Other",
        }
    }
}

fn is_kind<K: Resource<DynamicType = ()>>(request: &ReviewRequest) -> bool {
    request.kind.group == K::group(&()) && request.kind.kind == K::kind(&())
}

impl Judge {
    /// Judges the request.
    pub(super) fn judge(&self, request: ReviewRequest) -> JudgedRequest {
        let kind = ObjectKind::from_request(&request);
        if kind == ObjectKind::Other || !review::writes_spec(&request) {
            return JudgedRequest::independent(ReviewAnswer::passed());
        }
        match kind {
            ObjectKind::Job => job::judge_job(self, request),
            ObjectKind::ClusterPolicy => policy::judge_policy::<ClusterJobPolicy>(self, request),
            ObjectKind::Policy => policy::judge_policy::<JobPolicy>(self, request),
            ObjectKind::Quota => quota::judge_quota_policy(request),
            ObjectKind::Profile => profile::judge_profile(self, request),
            ObjectKind::Other => JudgedRequest::independent(ReviewAnswer::passed()),
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

#[cfg(test)]
mod tests;
