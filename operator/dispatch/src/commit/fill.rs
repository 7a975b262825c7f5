//! Creates pods of a gang that is placed: surplus pods, and replacements of lost pods.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;
use tracing::info;
use trellis_api::pod_group::Plan;
use trellis_compiler::CompiledGroup;
use trellis_gang::Run;
use trellis_gang::admitted::Admitted;
use trellis_gang::binding::Mounts;
use trellis_gang::keeper::Vacancy;
use trellis_gang::key::Key;

use super::create::Member;
use super::{Committer, Outcome, bind};
use crate::commands::WriteError;

/// How long the claims of a surplus pod may take to bind while other work for the gang waits. The
/// next try finds them bound.
const BOUND_WITHIN: SignedDuration = SignedDuration::from_secs(15);

impl Committer {
    /// Creates pods of a closed plan. A refused pod is tried again later; the gang's other pods
    /// continue.
    pub async fn fill(
        &self,
        job: &Key,
        run: &Run,
        plan: &Plan,
        vacancies: &[Vacancy],
        counted: &BTreeMap<String, Admitted>,
        stop: &CancellationToken,
    ) -> Outcome {
        let groups = run.job.compiled().groups();
        let templates: Vec<_> = groups.iter().map(CompiledGroup::template).collect();
        let of = |vacancy: &Vacancy| {
            let mut pods = templates.iter();
            pods.find(|pods| pods.group().name() == vacancy.group)
        };
        if let Err(outcome) = self.is_allowed(job, run) {
            return outcome;
        }
        let epoch = match self.commands.epoch() {
            Ok(epoch) => epoch.0,
            Err(error) => return WriteError::from(error).into(),
        };
        let missing = vacancies.iter().filter_map(|vacancy| {
            Some(Member {
                pods: of(vacancy)?,
                index: vacancy.index,
                node: &vacancy.node,
                round: vacancy.round,
                beyond: vacancy.brought.as_deref().map(|brought| (brought, epoch)),
            })
        });
        let _promise = self.promises.of(job);
        let (missing, unbound) = self.with_claims(job, run, counted, missing);
        let missing = match (missing.is_empty(), unbound) {
            (true, Some((first, mounts))) => {
                let until = Timestamp::now().saturating_add(BOUND_WITHIN);
                let until = until.unwrap_or(Timestamp::MAX);
                if let Err(outcome) = self.bind(job, plan, &mounts, until, stop).await {
                    return again(outcome);
                }
                vec![first]
            }
            _ => missing,
        };
        let pods = missing.len();
        match self
            .create_all(job, run, plan, missing, counted, stop)
            .await
        {
            None => {
                info!(%job, attempt = plan.attempt, pods, "filled up");
                Outcome::Done
            }
            Some(outcome) => again(outcome),
        }
    }
}

/// The pods whose claims are bound and reachable; and the first of the others, with its claims. A
/// surplus pod that waits for its claims must not delay the replacement of a member.
type Sorted<'a> = (Vec<Member<'a>>, Option<(Member<'a>, Mounts)>);

impl Committer {
    fn with_claims<'a>(
        &self,
        job: &Key,
        run: &Run,
        counted: &BTreeMap<String, Admitted>,
        pods: impl Iterator<Item = Member<'a>>,
    ) -> Sorted<'a> {
        let mut ready = Vec::new();
        let mut unbound = None;
        for pod in pods {
            let mounts = bind::of_pod(run, counted, pod.pods.group().name(), pod.node);
            // Members go where the plan has bound their claims.
            if pod.beyond.is_none() || mounts.is_empty() || self.are_bound(job, &mounts) {
                ready.push(pod);
            } else if unbound.is_none() {
                unbound = Some((pod, mounts));
            }
        }
        (ready, unbound)
    }
}

/// A pod of a closed plan never makes the plan roll back.
fn again(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Undo(_, message) | Outcome::PutOff(_, message) => Outcome::Again(message),
        Outcome::Avoid(nodes, outcome) => Outcome::Avoid(nodes, Box::new(again(*outcome))),
        outcome => outcome,
    }
}
