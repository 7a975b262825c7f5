//! Reports of a decision: in the job's status, and in the status of policies.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::Enforcement;
use trellis_api::job::{PolicyDecision, PolicyVerdict};

use super::evaluation::RequestVerdict;
use super::job_decision::{JobDecision, NotAuthorized};
use super::request::PolicyRequest;
use crate::denial::MAX_LISTED;

impl JobDecision {
    /// The decision as the job's status shows it; `outcome` is the final result.
    #[must_use]
    pub fn to_policy_verdict<T>(&self, outcome: &Result<T, NotAuthorized>) -> PolicyVerdict {
        let (decision, verdict): (_, fn(&RequestVerdict) -> bool) = match outcome {
            Ok(_) => (PolicyDecision::Allowed, |v| *v == RequestVerdict::Allowed),
            Err(NotAuthorized::Denied(_)) => {
                (PolicyDecision::Denied, |v| *v == RequestVerdict::Forbidden)
            }
            Err(NotAuthorized::Undecided { .. }) => (PolicyDecision::Undecided, |v| {
                matches!(v, RequestVerdict::Undecided(_))
            }),
        };
        let decisions = || self.required().map(|(_, decision)| decision);
        let deciding = decisions().filter(|d| verdict(&d.verdict));
        let undecided = matches!(outcome, Err(NotAuthorized::Undecided { .. }));
        let errors = decisions().filter(|_| undecided);
        PolicyVerdict {
            decision: Some(decision),
            requester: None,
            requester_unknown: None,
            set_hash: self.set_hash.clone(),
            policies: first_distinct(deciding.flat_map(|d| d.policies.clone())),
            missing_permits: first_distinct(decisions().filter_map(|d| d.missing_permit.clone())),
            errors: first_distinct(errors.filter_map(super::RequestDecision::undecided_message)),
            warnings: first_distinct(self.warnings()),
        }
    }

    fn warnings(&self) -> impl Iterator<Item = String> {
        self.decisions.iter().flat_map(|(demanded, decision)| {
            let warn = decision.unenforced.iter();
            let warn = warn.filter(|b| b.enforcement == Enforcement::Warn);
            warn.flat_map(|unenforced| {
                let ids = unenforced.policies.iter();
                let denied = ids.map(|id| {
                    let words = demanded.descriptions.join(", ");
                    format!("{words}, which the policy {id:?} is to forbid")
                });
                let errors = unenforced.errors.iter().cloned();
                denied.chain(errors).collect::<Vec<_>>()
            })
        })
    }

    /// Reasons to evict a running job, by the id of each policy that evicts it. `does` tells
    /// whether the running pods do what a request is about.
    ///
    /// A missing permit is no reason, nor is an undecided request: the running job was allowed, and
    /// only a forbid is certain.
    #[must_use]
    pub fn eviction_reasons(
        &self,
        does: impl Fn(&PolicyRequest) -> bool,
    ) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for (demanded, decision) in self.decisions.iter().filter(|(d, _)| does(&d.request)) {
            for id in &decision.evicting_policies {
                all.entry(id.clone())
                    .or_insert_with(|| demanded.descriptions.join(", "));
            }
        }
        all
    }

    /// Denied demands and the enforcement, by the id of each policy that forbids them.
    #[must_use]
    pub fn forbidden_demands(&self) -> BTreeMap<String, (Enforcement, String)> {
        let mut all: BTreeMap<String, (Enforcement, String)> = BTreeMap::new();
        for (demanded, decision) in &self.decisions {
            let denies = decision.verdict == RequestVerdict::Forbidden;
            let decides = decision.policies.iter().filter(|_| denies);
            let decides = decides.map(|id| (id, Enforcement::Deny));
            let unenforced = decision.unenforced.iter();
            let unenforced =
                unenforced.flat_map(|b| b.policies.iter().map(|id| (id, b.enforcement)));
            for (id, enforcement) in decides.chain(unenforced) {
                let words = || (enforcement, demanded.descriptions.join(", "));
                all.entry(id.clone()).or_insert_with(words);
            }
        }
        all
    }
}

/// Each once, in order, the first of them.
fn first_distinct(all: impl IntoIterator<Item = String>) -> Vec<String> {
    let all: BTreeSet<String> = all.into_iter().collect();
    all.into_iter().take(MAX_LISTED).collect()
}
