//! Reports of a decision: in the job's status, and in the status of policies.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::Enforcement;
use trellis_api::job::{PolicyDecision, PolicyVerdict};

use super::ask::Ask;
use super::decision::Verdict;
use super::door::{JobDecision, NotAuthorized};
use crate::denial::TOLD;

impl JobDecision {
    /// The decision as the job's status shows it; `outcome` is the final result.
    #[must_use]
    pub fn status<T>(&self, outcome: &Result<T, NotAuthorized>) -> PolicyVerdict {
        let (decision, verdict): (_, fn(&Verdict) -> bool) = match outcome {
            Ok(_) => (PolicyDecision::Allowed, |v| *v == Verdict::Allowed),
            Err(NotAuthorized::Denied(_)) => (PolicyDecision::Denied, |v| *v == Verdict::Forbidden),
            Err(NotAuthorized::Undecided { .. }) => (PolicyDecision::Undecided, |v| {
                matches!(v, Verdict::Undecided(_))
            }),
        };
        let decisions = || self.decided.iter().map(|(_, decision)| decision);
        let deciding = decisions().filter(|d| verdict(&d.verdict));
        let undecided = matches!(outcome, Err(NotAuthorized::Undecided { .. }));
        let errors = decisions().filter(|_| undecided);
        PolicyVerdict {
            decision: Some(decision),
            requester: None,
            requester_unknown: None,
            set_hash: self.set.clone(),
            policies: shown(deciding.flat_map(|d| d.policies.clone())),
            missing_permits: shown(decisions().filter_map(|d| d.hint.clone())),
            errors: shown(errors.filter_map(super::Decision::why_undecided)),
            warnings: shown(self.warnings()),
        }
    }

    fn warnings(&self) -> impl Iterator<Item = String> {
        self.decided.iter().flat_map(|(demanded, decision)| {
            let warn = decision.beside.iter();
            let warn = warn.filter(|b| b.enforcement == Enforcement::Warn);
            warn.flat_map(|beside| {
                let ids = beside.policies.iter();
                let denied = ids.map(|id| {
                    let words = demanded.words.join(", ");
                    format!("{words}, which the policy {id:?} is to forbid")
                });
                let errors = beside.errors.iter().cloned();
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
    pub fn evicting(&self, does: impl Fn(&Ask) -> bool) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for (demanded, decision) in self.decided.iter().filter(|(d, _)| does(&d.ask)) {
            for id in &decision.evicting {
                all.entry(id.clone())
                    .or_insert_with(|| demanded.words.join(", "));
            }
        }
        all
    }

    /// Denied demands and the enforcement, by the id of each policy that forbids them.
    #[must_use]
    pub fn forbidden(&self) -> BTreeMap<String, (Enforcement, String)> {
        let mut all: BTreeMap<String, (Enforcement, String)> = BTreeMap::new();
        for (demanded, decision) in &self.decided {
            let denies = decision.verdict == Verdict::Forbidden;
            let decides = decision.policies.iter().filter(|_| denies);
            let decides = decides.map(|id| (id, Enforcement::Deny));
            let beside = decision.beside.iter();
            let beside = beside.flat_map(|b| b.policies.iter().map(|id| (id, b.enforcement)));
            for (id, enforcement) in decides.chain(beside) {
                let words = || (enforcement, demanded.words.join(", "));
                all.entry(id.clone()).or_insert_with(words);
            }
        }
        all
    }
}

/// Each once, in order, the first of them.
fn shown(all: impl IntoIterator<Item = String>) -> Vec<String> {
    let all: BTreeSet<String> = all.into_iter().collect();
    all.into_iter().take(TOLD).collect()
}
