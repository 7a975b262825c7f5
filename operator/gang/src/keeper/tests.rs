//! One gang under test, and helpers that describe its next step.

mod committing;
mod deleting;
mod filling;
mod grace;
mod leaving;
mod phases;
mod stages;

use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::pod_group::{Assignment, Plan};

use super::*;
use crate::fixtures::{PHASES, run};
use crate::observed::PodPhase;

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// The journal of a plan for attempt 1, valid until second 120.
fn journal(phase: PodGroupPhase) -> PodGroupStatus {
    let wish = run(1);
    PodGroupStatus {
        phase: Some(phase),
        plan: Some(Plan {
            hash: "plan".to_owned(),
            attempt: 1,
            compiled: wish.run().unwrap().job.compiled().hash().to_owned(),
            deadline: Some(Time(second(120))),
            ..Plan::default()
        }),
        ..PodGroupStatus::default()
    }
}

/// One pod of the gang on that node.
fn on(node: &str) -> Assignment {
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
        judged: Default::default(),
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
        stuck: None,
        deleting: false,
        stops_too_late: false,
        deleted: None,
        disrupted: false,
        checkpoint: None,
    };
    (name.to_owned(), view)
}

/// Attempt 1 of a gang at second 0, without pods that are being deleted; one node is lost.
fn gang<'a>(
    wish: &'a Wish,
    journal: &'a PodGroupStatus,
    pods: &'a BTreeMap<String, PodView>,
) -> Gang<'a> {
    static LOST: LazyLock<BTreeSet<String>> =
        LazyLock::new(|| BTreeSet::from(["node-lost".to_owned()]));
    static DISMISSED: LazyLock<Dismissed> = LazyLock::new(Dismissed::default);
    static DELETIONS: LazyLock<Deletions> = LazyLock::new(Deletions::default);
    Gang {
        uid: "mine",
        stage: 1,
        keeps_done: true,
        attempt: 1,
        was_placed: false,
        wish,
        told: None,
        journal,
        pods,
        lost: &LOST,
        grace: 300,
        dismissed: &DISMISSED,
        deletions: &DELETIONS,
        now: second(0),
        clock: Instant::now(),
    }
}

fn step(phase: PodGroupPhase, wish: &Wish, pods: &BTreeMap<String, PodView>, now: i64) -> Step {
    Gang {
        now: second(now),
        ..gang(wish, &journal(phase), pods)
    }
    .next()
}

fn names(pods: &[Doomed]) -> String {
    let names: Vec<_> = pods.iter().map(|p| p.name.as_str()).collect();
    names.join(" ")
}

/// A step as a word, with the names of the pods that it deletes.
fn word(step: &Step) -> String {
    match step {
        Step::Undo { reason, .. } => format!("undo {reason}"),
        Step::Delete(pods) => format!("delete {}", names(pods)),
        Step::Evict(pods) => format!("evict {}", names(pods)),
        other => format!("{other:?}"),
    }
}

fn wishes() -> [Wish; 6] {
    let finish = |keep| Wish::Finish { keep, hurry: false };
    [
        run(1),
        run(2),
        Wish::Wait,
        Wish::stop(Reason::Suspended),
        finish(true),
        finish(false),
    ]
}
