//! One request, evaluated against all policies that may be about it.

use cedar_policy::{Authorizer, Decision as Answer, PolicySet};
use trellis_api::Enforcement;

use super::decision::{RequestDecision, RequestVerdict, UndecidedReason, UnenforcedResult};
use super::policy_index::PolicyIndex;
use crate::cedar::request::{CedarRequest, PolicyRequest, RequestContext, RequestingNamespace};

/// Combined answer of several policy sets: the same as if they were one set.
#[derive(Default)]
struct CombinedResponse {
    permits: Vec<String>,
    forbids: Vec<String>,
    errors: Vec<String>,
}

impl CombinedResponse {
    fn from_sets<'a>(sets: impl Iterator<Item = &'a PolicySet>, request: &CedarRequest) -> Self {
        let authorizer = Authorizer::new();
        let mut combined = Self::default();
        for set in sets {
            let response = authorizer.is_authorized(&request.request, set, &request.entities);
            let diagnostics = response.diagnostics();
            let ids = diagnostics.reason().map(ToString::to_string);
            // The reasons for Deny are forbids; if no policy permits the request, there are none.
            match response.decision() {
                Answer::Allow => combined.permits.extend(ids),
                Answer::Deny => combined.forbids.extend(ids),
            }
            // Cedar ignores a policy that fails to evaluate; Trellis counts it.
            combined
                .errors
                .extend(diagnostics.errors().map(ToString::to_string));
        }
        for list in [
            &mut combined.permits,
            &mut combined.forbids,
            &mut combined.errors,
        ] {
            list.sort();
            list.dedup();
        }
        combined
    }
}

/// Decides one request by Deny policies alone, and records the denials of the other policies beside
/// it. `undecided`: the reason why only a forbid decides here.
pub(crate) fn decide_request(
    indexes: &[&PolicyIndex],
    subject: &RequestingNamespace<'_>,
    context: &RequestContext<'_>,
    policy_request: &PolicyRequest,
    undecided: Option<&UndecidedReason>,
) -> RequestDecision {
    let request = match context.build_request(policy_request) {
        Ok(request) => request,
        Err(error) => {
            return RequestDecision::from_undecided(UndecidedReason::InvalidRequest(error.0));
        }
    };
    let combined = |enforcement| {
        let indexes = indexes.iter();
        let sets = indexes
            .flat_map(|index| index.candidates(enforcement, subject, policy_request.action()));
        CombinedResponse::from_sets(sets, &request)
    };
    let unenforced = [Enforcement::Warn, Enforcement::Audit].map(|enforcement| {
        let CombinedResponse {
            forbids, errors, ..
        } = combined(enforcement);
        UnenforcedResult {
            enforcement,
            policies: forbids,
            errors,
        }
    });
    let CombinedResponse {
        permits,
        forbids,
        errors,
    } = combined(Enforcement::Deny);
    // A matching forbid decides even if other policies could not be evaluated.
    let (verdict, policies) = if !forbids.is_empty() {
        (RequestVerdict::Forbidden, forbids)
    } else if let Some(why) = undecided {
        (RequestVerdict::Undecided(why.clone()), Vec::new())
    } else if !errors.is_empty() {
        (
            RequestVerdict::Undecided(UndecidedReason::EvaluationError),
            Vec::new(),
        )
    } else if permits.is_empty() {
        (RequestVerdict::NotPermitted, Vec::new())
    } else {
        (RequestVerdict::Allowed, permits)
    };
    let evicting = policies.iter();
    let evicting = evicting.filter(|id| indexes.iter().any(|index| index.is_evicting(id)));
    RequestDecision {
        evicting_policies: evicting.cloned().collect(),
        missing_permit: (verdict == RequestVerdict::NotPermitted).then(|| request.missing_permit()),
        verdict,
        policies,
        errors,
        unenforced: unenforced
            .into_iter()
            .filter(|b| !b.policies.is_empty() || !b.errors.is_empty())
            .collect(),
    }
}
