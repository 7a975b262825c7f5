//! One request, evaluated against all policies that may be about it.

use cedar_policy::{Authorizer, Decision as Answer, PolicySet};
use trellis_api::Enforcement;

use super::ask::Ask;
use super::decision::{Beside, Decision, Undecided, Verdict};
use super::index::Index;
use super::scene::{Posed, Scene};
use super::subject::Subject;

/// Combined answer of several policy sets: the same as if they were one set.
#[derive(Default)]
struct Said {
    permits: Vec<String>,
    forbids: Vec<String>,
    errors: Vec<String>,
}

impl Said {
    fn of<'a>(sets: impl Iterator<Item = &'a PolicySet>, posed: &Posed) -> Self {
        let authorizer = Authorizer::new();
        let mut said = Self::default();
        for set in sets {
            let response = authorizer.is_authorized(&posed.request, set, &posed.entities);
            let diagnostics = response.diagnostics();
            let ids = diagnostics.reason().map(ToString::to_string);
            // The reasons for Deny are forbids; if no policy permits the request, there are none.
            match response.decision() {
                Answer::Allow => said.permits.extend(ids),
                Answer::Deny => said.forbids.extend(ids),
            }
            // Cedar ignores a policy that fails to evaluate; Trellis counts it.
            said.errors
                .extend(diagnostics.errors().map(ToString::to_string));
        }
        for list in [&mut said.permits, &mut said.forbids, &mut said.errors] {
            list.sort();
            list.dedup();
        }
        said
    }
}

/// Decides one request by Deny policies alone, and records the denials of the other policies beside
/// it. `kept`: the reason why only a forbid decides here.
pub(super) fn decide(
    indexes: &[&Index],
    subject: &Subject<'_>,
    scene: &Scene<'_>,
    ask: &Ask,
    kept: Option<&Undecided>,
) -> Decision {
    let posed = match scene.pose(ask) {
        Ok(posed) => posed,
        Err(unmade) => return Decision::undecided(Undecided::Unmade(unmade.0)),
    };
    let said = |enforcement| {
        let indexes = indexes.iter();
        let sets = indexes.flat_map(|index| index.candidates(enforcement, subject, ask.action()));
        Said::of(sets, &posed)
    };
    let beside = [Enforcement::Warn, Enforcement::Audit].map(|enforcement| {
        let Said {
            forbids, errors, ..
        } = said(enforcement);
        Beside {
            enforcement,
            policies: forbids,
            errors,
        }
    });
    let Said {
        permits,
        forbids,
        errors,
    } = said(Enforcement::Deny);
    // A matching forbid decides even if other policies could not be evaluated.
    let (verdict, policies) = if !forbids.is_empty() {
        (Verdict::Forbidden, forbids)
    } else if let Some(why) = kept {
        (Verdict::Undecided(why.clone()), Vec::new())
    } else if !errors.is_empty() {
        (Verdict::Undecided(Undecided::Error), Vec::new())
    } else if permits.is_empty() {
        (Verdict::NotPermitted, Vec::new())
    } else {
        (Verdict::Allowed, permits)
    };
    let evicting = policies.iter();
    let evicting = evicting.filter(|id| indexes.iter().any(|index| index.evicts(id)));
    Decision {
        evicting: evicting.cloned().collect(),
        hint: (verdict == Verdict::NotPermitted).then(|| posed.permit()),
        verdict,
        policies,
        errors,
        beside: beside
            .into_iter()
            .filter(|b| !b.policies.is_empty() || !b.errors.is_empty())
            .collect(),
    }
}
