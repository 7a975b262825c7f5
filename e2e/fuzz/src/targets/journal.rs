//! The journal of a gang, as any writer may have left it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::pod_group::{Plan, PodGroupPhase, PodGroupStatus};
use trellis_gang::gang_step::deletions::Deletions;
use trellis_gang::gang_step::{CreatedMembers, GangStep, ObservedGang, PodDeletion, SurplusPods};
use trellis_gang::journal::epoch::Epoch;
use trellis_gang::journal::{self, PlanAuthor};
use trellis_gang::observed::{PodView, SlimPod};
use trellis_gang::{DesiredGang, fixtures};

use crate::Target;

/// The target. Any journal leads to a step, which touches only pods of the gang, and each write of
/// a journal reads as it was written.
pub const TARGET: Target = Target {
    check,
    words: &[
        "phase",
        "Pending",
        "Nominated",
        "Committing",
        "Placed",
        "Unwinding",
        "Finished",
        "epoch",
        "plan",
        "hash",
        "attempt",
        "generation",
        "compiled",
        "assignments",
        "group",
        "node",
        "count",
        "deadline",
        "retryTime",
        "failures",
        "evictUntil",
        "victims",
        "2026-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "-009999-01-01T00:00:00Z",
    ],
    inputs_per_case: 64,
};

/// A journal, and the pods of the name of its job.
#[derive(Deserialize)]
struct Input {
    status: PodGroupStatus,
    #[serde(default)]
    pods: Vec<SlimPod>,
}

const JOB_UID: &str = "mine";

static DESIRED: LazyLock<DesiredGang> = LazyLock::new(|| fixtures::desired_run(1));

fn check(input: &[u8]) {
    let Ok(Input { status, pods }) = serde_json::from_slice(input) else {
        return;
    };
    let now = Timestamp::from_second(1_767_225_600).expect("a time in 2026");
    check_writes(&status, now);
    let views = pods.iter().filter_map(|pod| {
        let name = pod.metadata.name.clone()?;
        Some((name, PodView::from_pod(pod)?.1))
    });
    let pods: BTreeMap<String, PodView> = views.collect();
    let authors = [
        None,
        Some(PlanAuthor::ThisLeader),
        Some(PlanAuthor::Predecessor),
        Some(PlanAuthor::Stale),
    ];
    for desired in [&*DESIRED, &DesiredGang::Wait] {
        for author in authors {
            check_step(&status, &pods, desired, author, now);
        }
    }
    let author = journal::plan_author(&status, Epoch(7), None);
    assert_eq!(author == PlanAuthor::ThisLeader, status.epoch == Some(7));
}

fn check_step(
    status: &PodGroupStatus,
    pods: &BTreeMap<String, PodView>,
    desired: &DesiredGang,
    author: Option<PlanAuthor>,
    now: Timestamp,
) {
    let gang = ObservedGang {
        journal: status,
        author,
        preemption_message: None,
        deletions: &Deletions::default(),
        now,
        clock: Instant::now(),
        members: CreatedMembers {
            uid: JOB_UID,
            attempt: 1,
            was_placed: false,
            stage_first_attempt: 1,
            keeps_finished_pods: true,
            desired,
            pods,
            lost_nodes: &BTreeSet::new(),
            grace: 300,
            surplus_removals: &SurplusPods::default(),
        },
    };
    let step = gang.next_step();
    let removed: &[PodDeletion] = match &step {
        GangStep::Delete(removed) | GangStep::Evict(removed) => removed,
        GangStep::Commit | GangStep::TakeOver => {
            assert!(status.plan.is_some(), "{step:?} without a plan");
            &[]
        }
        _ => &[],
    };
    for pod in removed {
        let view = &pods[&pod.name];
        assert_eq!(
            (&pod.uid, view.job_uid.as_str()),
            (&view.uid, JOB_UID),
            "{step:?}"
        );
    }
}

/// Checks each write that can follow this journal.
fn check_writes(before: &PodGroupStatus, now: Timestamp) {
    let plan = || before.plan.clone().unwrap_or_default();
    let hash = plan().hash;
    let failed = |reason| (reason, String::from("x"));
    let roll_back = |is_failure| {
        let (reason, message) = failed(Reason::Restarting);
        journal::roll_back(before, reason, message, is_failure, now)
    };
    let (reason, message) = failed(Reason::Restarting);
    let writes = [
        (
            PodGroupPhase::Committing,
            journal::open_plan(before, plan()),
        ),
        (
            PodGroupPhase::Nominated,
            journal::nominate(before, Plan::default(), vec![], "x".into()),
        ),
        (PodGroupPhase::Pending, journal::cancel_nomination(before)),
        (PodGroupPhase::Placed, journal::close_plan(before, &hash)),
        (PodGroupPhase::Unwinding, roll_back(false)),
        (PodGroupPhase::Unwinding, roll_back(true)),
        (
            PodGroupPhase::Pending,
            journal::postpone(before, reason, message, now),
        ),
        (PodGroupPhase::Pending, journal::clear_plan(before)),
        (PodGroupPhase::Finished, journal::finish(before)),
    ];
    for (phase, write) in writes {
        let Some(after) = write else { continue };
        assert_eq!(after.phase, Some(phase));
        assert_eq!(after.epoch, before.epoch, "the writer sets the epoch");
        let written = serde_json::to_string(&after).expect("a journal is JSON");
        let read: PodGroupStatus = serde_json::from_str(&written).expect("it reads again");
        assert_eq!(read, after);
        if let Some(retry) = after
            .retry_time
            .filter(|_| after.failures > before.failures)
        {
            let wait = retry.0.duration_since(now);
            assert!(
                wait > SignedDuration::ZERO && wait <= SignedDuration::from_secs(300),
                "{wait}"
            );
        }
    }
}
