//! Answers a created Plan: what happens to TrainingJobs if the caller applies them now.
//!
//! `question` checks the jobs, `planner` plans them, `smaller_shapes` searches for shapes that would
//! start, and `redaction` reduces the answer to what the caller may see.

mod planner;
mod question;
mod redaction;
mod smaller_shapes;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::visibility::{Plan, PlanStatus};
use trellis_cache::policy::requester_from_user;
use trellis_compiler::Settings;
use trellis_dispatch::context::Context;

use super::jobs::to_timestamp;
use super::questions::QuestionTurn;
use super::review_scope;
use crate::callers::{Caller, Failure};
use crate::snapshot;
use planner::Planner;

/// The sources of an answer.
pub(super) struct PlanSources {
    pub(super) context: Arc<Context>,
    pub(super) settings: Arc<Settings>,
}

/// Answers a question about jobs of this namespace.
pub(super) async fn answer(
    plan: Plan,
    namespace: &str,
    sources: PlanSources,
    caller: &Caller<'_>,
    user: &UserInfo,
    turn: QuestionTurn,
) -> Result<Plan, Failure> {
    let jobs = question::read_jobs(&plan, namespace)?;
    let requester = requester_from_user(user);
    // A shared snapshot may be older than the caches, and lack a job that they have.
    let snapshot = snapshot::request(&sources.context).await?;
    let time = to_timestamp(snapshot.now).unwrap_or_default();
    let work = move || {
        let planner = Planner {
            context: &sources.context,
            settings: &sources.settings,
            snapshot: &snapshot,
            requester,
        };
        planner.plan(jobs)
    };
    let answer = turn.run(work).await?;
    let (mut jobs, priorities) = answer.ok_or_else(Failure::unavailable)?;
    let foreign: BTreeSet<String> = jobs
        .iter()
        .flat_map(redaction::foreign_namespaces)
        .collect();
    let sees = review_scope(foreign, caller, user).await?;
    for job in &mut jobs {
        redaction::redact(job, &priorities, &sees);
    }
    Ok(Plan {
        status: Some(PlanStatus {
            time: Time(time),
            jobs,
        }),
        ..plan
    })
}
