//! One gang under test, and helpers that describe its next step.

mod commit;
mod grace_period;
mod missing_pods;
mod phases;
mod pod_deletion;
mod preemption;
mod provisioning;
mod slice_replacement;
mod stages;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::pod_group::{Assignment, Plan};

use super::*;
use crate::desired_gang::DesiredGang;
use crate::fixtures::{PHASES, desired_run, desired_run_with};
use crate::observed::{PodPhase, PodView};

type Step = StepOf<CreatedMembers<'static>>;

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Returns the journal of a plan for attempt 1, valid until second 120.
fn journal(phase: PodGroupPhase) -> PodGroupStatus {
    let desired = desired_run(1);
    PodGroupStatus {
        phase: Some(phase),
        plan: Some(Plan {
            hash: "plan".to_owned(),
            attempt: 1,
            compiled: desired.attempt().unwrap().job.compiled().hash().to_owned(),
            deadline: Some(Time(second(120))),
            ..Plan::default()
        }),
        ..PodGroupStatus::default()
    }
}

/// Returns an assignment of one pod to that node.
fn assignment_on(node: &str) -> Assignment {
    Assignment {
        group: "worker".to_owned(),
        node: node.to_owned(),
        count: 1,
        pods: Vec::new(),
    }
}

fn pod(name: &str, job_uid: &str, phase: PodPhase) -> (String, PodView) {
    let view = PodView {
        uid: format!("uid-{name}"),
        job_uid: job_uid.to_owned(),
        is_owned: true,
        judged_spec: Default::default(),
        group: "worker".to_owned(),
        index: 0,
        attempt: 1,
        round: 0,
        epoch: None,
        ready: false,
        plan: "plan".to_owned(),
        created: None,
        node: Some(format!("node-{name}")),
        phase,
        start_obstacle: None,
        deleting: false,
        has_overlong_grace: false,
        deletion_requested: None,
        is_disrupted: false,
        checkpoint: None,
    };
    (name.to_owned(), view)
}

/// Returns attempt 1 of a gang at second 0, without requested deletions. The node "node-lost" is
/// lost.
fn gang<'a>(
    desired: &'a DesiredGang,
    journal: &'a PodGroupStatus,
    pods: &'a BTreeMap<String, PodView>,
) -> ObservedGang<'a, CreatedMembers<'a>> {
    static LOST_NODES: LazyLock<BTreeSet<String>> =
        LazyLock::new(|| BTreeSet::from(["node-lost".to_owned()]));
    static SURPLUS_REMOVALS: LazyLock<SurplusPods> = LazyLock::new(SurplusPods::default);
    static DELETIONS: LazyLock<Deletions> = LazyLock::new(Deletions::default);
    ObservedGang {
        journal,
        author: Some(PlanAuthor::ThisLeader),
        preemption_message: None,
        deletions: &DELETIONS,
        now: second(0),
        clock: Instant::now(),
        members: CreatedMembers {
            uid: "mine",
            stage_first_attempt: 1,
            keeps_finished_pods: true,
            attempt: 1,
            was_placed: false,
            desired,
            pods,
            lost_nodes: &LOST_NODES,
            grace: 300,
            surplus_removals: &SURPLUS_REMOVALS,
        },
    }
}

fn next_step(
    phase: PodGroupPhase,
    desired: &DesiredGang,
    pods: &BTreeMap<String, PodView>,
    now: i64,
) -> Step {
    ObservedGang {
        now: second(now),
        ..gang(desired, &journal(phase), pods)
    }
    .next_step()
}

fn join_names(pods: &[PodDeletion]) -> String {
    let names: Vec<_> = pods.iter().map(|p| p.name.as_str()).collect();
    names.join(" ")
}

/// Describes a step in a word, with the names of the pods that it removes.
fn describe_step(step: &Step) -> String {
    match step {
        GangStep::RollBack { reason, .. } => format!("roll back {reason}"),
        GangStep::Delete(pods) => format!("delete {}", join_names(pods)),
        GangStep::Evict(pods) => format!("evict {}", join_names(pods)),
        GangStep::Enqueue(WholeGang) => "Enqueue".to_owned(),
        GangStep::KeepPlace(missing) if missing.is_empty() => "KeepPlace".to_owned(),
        GangStep::Special(special) => format!("{special:?}"),
        other => format!("{other:?}"),
    }
}

fn all_desired() -> [DesiredGang; 6] {
    let finish = |keep| DesiredGang::Finish { keep, hurry: false };
    [
        desired_run(1),
        desired_run(2),
        DesiredGang::Wait,
        DesiredGang::stop(Reason::Suspended),
        finish(true),
        finish(false),
    ]
}
