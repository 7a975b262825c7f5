//! Pods of a gang that has its place are created: those beyond it, and those in the place of others.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::info;
use trellis_api::pod_group::Plan;
use trellis_compiler::CompiledGroup;

use super::create::Member;
use super::{Committer, Outcome, bind};
use crate::commands::WriteError;
use crate::key::Key;
use crate::scheduling::admitted::Admitted;
use crate::scheduling::journal;
use crate::scheduling::keeper::Vacancy;
use crate::scheduling::wish::Run;

impl Committer {
    /// Creates pods of a plan that is closed. One that is refused is tried again: the others
    /// go on.
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
        let missing: Vec<_> = missing.collect();
        let pods = missing.len();
        let mounts = missing.iter().map(|m| (m.pods.group().name(), m.node));
        let mounts = bind::of_pods(run, counted, mounts);
        let until = Timestamp::now().saturating_add(journal::PLAN_TIME);
        let until = until.unwrap_or(Timestamp::MAX);
        let _promise = self.promises.of(job);
        if let Err(outcome) = self.bind(job, plan, &mounts, until, stop).await {
            return again(outcome);
        }
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

/// Nothing is undone for a pod of a plan that is closed.
fn again(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Undo(_, message) | Outcome::PutOff(_, message) => Outcome::Again(message),
        Outcome::Avoid(_, outcome) => again(*outcome),
        outcome => outcome,
    }
}
