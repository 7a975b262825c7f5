//! The requester of the planned jobs, for policies and quotas.

use trellis_api::TrainingJob;
use trellis_api::quota_policy::QuotaEach;
use trellis_policies::cedar::Requester;

use super::snapshot::ClusterSnapshot;
use crate::requester_options::{RequesterOptions, known_requester};

/// The requester of the planned jobs.
pub(crate) enum PlanRequester {
    /// The user named this requester in the options.
    Named(Requester),
    /// The user who runs the plan on a cluster.
    /// None: the cluster does not tell the name.
    CurrentUser(Option<Requester>),
    /// Unknown, because no cluster is read.
    Unknown,
}

impl PlanRequester {
    /// Returns the requester of the options, else the result of `otherwise`.
    pub(crate) fn from_submitter(
        submitter: &RequesterOptions,
        otherwise: impl FnOnce() -> Self,
    ) -> Self {
        submitter.requester().map_or_else(otherwise, Self::Named)
    }

    /// Returns the requester of a job.
    /// A job that is applied without a change keeps its requester.
    pub(crate) fn requester_of(
        &self,
        job: &TrainingJob,
        existing: Option<&TrainingJob>,
    ) -> Option<Requester> {
        let unchanged = existing.filter(|existing| existing.spec == job.spec);
        match (self, unchanged) {
            (Self::Named(requester), _) => Some(requester.clone()),
            (_, Some(existing)) => known_requester(existing),
            (Self::CurrentUser(requester), None) => requester.clone(),
            (Self::Unknown, None) => None,
        }
    }

    /// Returns a note about the assumed requester.
    /// Returns None if the user named the requester, or if no policy depends on it.
    pub(crate) fn assumption_note(&self, snapshot: &ClusterSnapshot) -> Option<String> {
        let assumed = match self {
            Self::Named(_) => return None,
            Self::CurrentUser(Some(requester)) => format!("you, {:?}", requester.user),
            Self::CurrentUser(None) => {
                "unknown, because the cluster does not report your user".to_owned()
            }
            Self::Unknown => "unknown".to_owned(),
        };
        needs_requester(snapshot).then(|| {
            format!(
                "policies or quota policies depend on the user who submits a job: assumed {assumed}; name the user with --as"
            )
        })
    }
}

/// Returns true if a policy or quota policy may depend on the requester.
fn needs_requester(snapshot: &ClusterSnapshot) -> bool {
    let mut policies = snapshot.policies.objects();
    let mut quotas = snapshot.quota_policies.values().map(|quota| &quota.spec);
    // A policy cannot use the requester without this name.
    policies.any(|object| object.cedar.contains("requester"))
        || quotas.any(|quota| {
            quota.subject.requester.is_some() || quota.each == Some(QuotaEach::Requester)
        })
}
