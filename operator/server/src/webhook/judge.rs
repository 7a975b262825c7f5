//! Judges a request. Depends only on the request and the known state.

use kube::Resource;
use trellis_api::{ClusterJobPolicy, JobPolicy, QuotaPolicy, RuntimeProfile, TrainingJob};

use super::answer::ReviewAnswer;
use super::judgement::{Judge, JudgedRequest};
use super::review::{self, ReviewRequest};
use super::{job, policy, profile, quota};

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

#[cfg(test)]
mod tests;
