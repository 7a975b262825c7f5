//! Judges a request. Depends only on the request and the known state.

use std::sync::Arc;

use kube::Resource;
use trellis_api::{ClusterJobPolicy, JobPolicy, QuotaPolicy, RuntimeProfile, TrainingJob};
use trellis_compiler::Settings;
use trellis_dispatch::context::Context;
use trellis_policies::cedar::{Loader, Policies};

use super::answer::Answer;
use super::review::{self, Request};
use super::{job, policy, profile, quota};

/// Everything that a decision depends on.
#[derive(Clone)]
pub(super) struct Judge {
    pub(super) context: Arc<Context>,
    /// Policies in force.
    pub(super) policies: Option<Arc<Policies>>,
    pub(super) loader: Loader,
    pub(super) settings: Arc<Settings>,
}

/// Decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) answer: Answer,
    /// The decision depends on other objects, which may be a moment out of date.
    pub(super) may_be_behind: bool,
}

impl Judged {
    /// A decision that does not depend on other objects.
    pub(super) fn of_itself(answer: Answer) -> Self {
        Self {
            answer,
            may_be_behind: false,
        }
    }
}

/// Kind of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Job,
    ClusterPolicy,
    Policy,
    Quota,
    Profile,
    Other,
}

impl Kind {
    pub(super) fn of(request: &Request) -> Self {
        let looked_at = [
            (is::<TrainingJob>(request), Self::Job),
            (is::<ClusterJobPolicy>(request), Self::ClusterPolicy),
            (is::<JobPolicy>(request), Self::Policy),
            (is::<QuotaPolicy>(request), Self::Quota),
            (is::<RuntimeProfile>(request), Self::Profile),
        ];
        let mut kinds = looked_at.into_iter().filter(|(is, _)| *is);
        kinds.next().map_or(Self::Other, |(_, kind)| kind)
    }

    /// Name of the kind in metrics: never a value that a user writes.
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

fn is<K: Resource<DynamicType = ()>>(request: &Request) -> bool {
    request.kind.group == K::group(&()) && request.kind.kind == K::kind(&())
}

impl Judge {
    /// Judges the request.
    pub(super) fn judge(&self, request: Request) -> Judged {
        let kind = Kind::of(&request);
        if kind == Kind::Other || !review::writes_spec(&request) {
            return Judged::of_itself(Answer::passed());
        }
        match kind {
            Kind::Job => job::judge(self, request),
            Kind::ClusterPolicy => policy::judge::<ClusterJobPolicy>(self, request),
            Kind::Policy => policy::judge::<JobPolicy>(self, request),
            Kind::Quota => quota::judge(request),
            Kind::Profile => profile::judge(self, request),
            Kind::Other => Judged::of_itself(Answer::passed()),
        }
    }
}

/// The object as it will be stored. Its name and namespace may only be in the request.
pub(super) fn object<K>(request: Request) -> serde_json::Result<K>
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
