//! Who submits the jobs that are planned, as policies and quotas will know it.

use trellis_api::TrainingJob;
use trellis_api::quota_policy::QuotaEach;
use trellis_policies::cedar::Requester;

use super::snapshot::ClusterSnapshot;
use crate::requester_options::{RequesterOptions, known_requester};

/// Who submits them.
pub(crate) enum PlanRequester {
    /// Whom the user names, whatever is there.
    Named(Requester),
    /// Who asks for the plan on a cluster. None: it does not say who that is.
    CurrentUser(Option<Requester>),
    /// Nobody knows: no cluster is asked.
    Unknown,
}

impl PlanRequester {
    /// Whom the user names, else what `otherwise` finds out.
    pub(crate) fn from_submitter(
        submitter: &RequesterOptions,
        otherwise: impl FnOnce() -> Self,
    ) -> Self {
        submitter.requester().map_or_else(otherwise, Self::Named)
    }

    /// Who submits a job. Applied unchanged, one that is there stays whose it is.
    pub(crate) fn requester_of(
        &self,
        job: &TrainingJob,
        there: Option<&TrainingJob>,
    ) -> Option<Requester> {
        let unchanged = there.filter(|there| there.spec == job.spec);
        match (self, unchanged) {
            (Self::Named(requester), _) => Some(requester.clone()),
            (_, Some(there)) => known_requester(there),
            (Self::CurrentUser(requester), None) => requester.clone(),
            (Self::Unknown, None) => None,
        }
    }

    /// What is assumed, where anybody asks for it. None: the user has said who it is, or no
    /// policy looks at it.
    pub(crate) fn assumption_note(&self, snapshot: &ClusterSnapshot) -> Option<String> {
        let assumed = match self {
            Self::Named(_) => return None,
            Self::CurrentUser(Some(requester)) => format!("you, {:?}", requester.user),
            Self::CurrentUser(None) => {
                "unknown, since the cluster does not say who you are".to_owned()
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

/// True if what a policy or quota policy decides may hang on who submits a job.
fn needs_requester(snapshot: &ClusterSnapshot) -> bool {
    let mut policies = snapshot.policies.objects();
    let mut quotas = snapshot.quota_policies.values().map(|quota| &quota.spec);
    // Nobody can ask for it without its name.
    policies.any(|object| object.cedar.contains("requester"))
        || quotas.any(|quota| {
            quota.subject.requester.is_some() || quota.each == Some(QuotaEach::Requester)
        })
}
