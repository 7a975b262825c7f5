//! One external gang under test.

mod grace_period;
mod late_bindings;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::pod_group::{Assignment, Plan, PlannedPod, PodGroupPhase, PodGroupStatus};

use super::{ExternalMembers, ExternalStep};
use crate::external::fixtures::{bound_by_plan, bound_on, pod};
use crate::external::gang_members::is_stopping;
use crate::gang_step::deletions::Deletions;
use crate::gang_step::{GangStep, ObservedGang, StepOf};
use crate::journal::PlanAuthor;
use crate::observed::ExternalPods;

type Step = StepOf<ExternalMembers<'static>>;

const NOW: i64 = 1_800_000_000;

/// The pods and the journal of a PodGroup.
struct PodGroupScene {
    pods: ExternalPods,
    journal: PodGroupStatus,
    author: Option<PlanAuthor>,
    preemption_message: Option<&'static str>,
}

impl PodGroupScene {
    fn new(pods: &[(&str, Value)]) -> Self {
        let pods = pods
            .iter()
            .map(|(name, more)| ((*name).to_owned(), Arc::new(pod(name, more.clone()))));
        Self {
            pods: pods.collect(),
            journal: PodGroupStatus::default(),
            author: Some(PlanAuthor::ThisLeader),
            preemption_message: None,
        }
    }

    /// Sets a journal in that phase, with a plan of the pods a and b on node n. The plan's deadline
    /// is after so many seconds.
    fn in_phase(mut self, phase: PodGroupPhase, seconds: i64) -> Self {
        let planned = ["a", "b"].map(|name| PlannedPod {
            name: name.to_owned(),
            uid: name.to_owned(),
        });
        self.journal.phase = Some(phase);
        self.journal.plan = Some(Plan {
            hash: "p".to_owned(),
            queue: Some("q".to_owned()),
            deadline: Some(Time(
                Timestamp::from_second(NOW.saturating_add(seconds)).unwrap(),
            )),
            assignments: vec![Assignment {
                group: "g0".to_owned(),
                node: "n".to_owned(),
                count: 2,
                pods: planned.to_vec(),
            }],
            ..Plan::default()
        });
        self
    }

    fn next_step(&self) -> Step {
        self.next_step_with_min_member(2)
    }

    fn next_step_with_min_member(&self, min_member: i64) -> Step {
        ObservedGang {
            journal: &self.journal,
            author: self.author,
            preemption_message: self.preemption_message,
            deletions: &Deletions::default(),
            now: Timestamp::from_second(NOW).unwrap(),
            clock: Instant::now(),
            members: ExternalMembers {
                min_member,
                is_deleting: false,
                is_stopping: is_stopping(&self.journal, &self.pods, |node| node == "lost"),
                pods: &self.pods,
            },
        }
        .next_step()
    }
}

fn wait_reason(step: &Step) -> (Reason, &str) {
    match step {
        GangStep::Special(ExternalStep::Wait { reason, message }) => (*reason, message),
        step => panic!("{step:?}"),
    }
}

fn removed_pod_names(step: Step) -> Vec<String> {
    match step {
        GangStep::Delete(pods) | GangStep::Evict(pods) => {
            pods.into_iter().map(|p| p.name).collect()
        }
        step => panic!("{step:?}"),
    }
}

#[test]
fn gang_is_queued_once_min_member_pods_are_ready() {
    let gated = json!({"/spec/schedulingGates": [{"name": "x"}]});
    let step = PodGroupScene::new(&[("a", json!({})), ("b", gated.clone())]).next_step();
    let (reason, message) = wait_reason(&step);
    assert_eq!(reason, Reason::MembersMissing);
    assert_eq!(
        message,
        "1 of the 2 pods are there that the PodGroup asks for (spec.minMember); 1 more has scheduling gates"
    );
    let enough_pods = PodGroupScene::new(&[("a", json!({})), ("b", json!({})), ("c", gated)]);
    assert_eq!(
        enough_pods.next_step(),
        GangStep::Enqueue(vec!["a".to_owned(), "b".to_owned()])
    );
    assert_eq!(
        wait_reason(&enough_pods.next_step_with_min_member(0)).0,
        Reason::InvalidSpec
    );
    let step = PodGroupScene::new(&[]).next_step();
    let (reason, message) = wait_reason(&step);
    assert_eq!(reason, Reason::MembersMissing);
    assert!(message.starts_with("0 of the 2 pods"), "{message}");
    // A gang that was placed may have finished its work.
    let mut placed_before = PodGroupScene::new(&[]);
    placed_before.journal.epoch = Some(1);
    assert_eq!(placed_before.next_step(), GangStep::Withdraw);
    // The gang has waited since then, and its pods are gone.
    placed_before.journal.reason = Some(Reason::InsufficientCapacity);
    let step = placed_before.next_step();
    assert_eq!(wait_reason(&step).0, Reason::MembersMissing);
}

#[test]
fn bound_pods_without_a_journal_are_adopted() {
    let both_bound = PodGroupScene::new(&[("a", bound_on("n")), ("b", bound_on("m"))]);
    assert_eq!(
        both_bound.next_step(),
        GangStep::Special(ExternalStep::Adopt)
    );
    let one_bound = PodGroupScene::new(&[("a", bound_on("n")), ("b", json!({})), ("c", json!({}))]);
    assert_eq!(
        one_bound.next_step(),
        GangStep::Enqueue(vec!["b".to_owned()])
    );
}

#[test]
fn open_plan_is_bound_by_its_leader_or_rolled_back() {
    let open_plan =
        |pods: &[(&str, Value)]| PodGroupScene::new(pods).in_phase(PodGroupPhase::Committing, 60);
    let one_bound = [("a", bound_on("n")), ("b", json!({}))];
    assert_eq!(open_plan(&one_bound).next_step(), GangStep::Commit);
    let step_for_author = |author| {
        PodGroupScene {
            author,
            ..open_plan(&one_bound)
        }
        .next_step()
    };
    assert_eq!(
        step_for_author(Some(PlanAuthor::Predecessor)),
        GangStep::TakeOver
    );
    assert!(matches!(
        step_for_author(Some(PlanAuthor::Stale)),
        GangStep::RollBack { failed: false, .. }
    ));
    assert_eq!(step_for_author(None), GangStep::StandBy);
    let rollback_message = |scene: PodGroupScene| match scene.next_step() {
        GangStep::RollBack {
            message,
            failed: true,
            ..
        } => message,
        step => panic!("{step:?}"),
    };
    assert!(rollback_message(open_plan(&[("a", bound_on("n"))])).contains("\"b\" is gone"));
    assert!(
        rollback_message(open_plan(&[("a", bound_on("n")), ("b", bound_on("m"))]))
            .contains("another client bound it to \"m\"")
    );
    let deleted_pod = json!({"/metadata/deletionTimestamp": "2026-01-01T00:00:00Z"});
    assert!(
        rollback_message(open_plan(&[("a", bound_on("n")), ("b", deleted_pod)]))
            .contains("\"b\" is gone")
    );
    let recreated_pod = json!({"/metadata/uid": "z"});
    assert!(
        rollback_message(open_plan(&[("a", bound_on("n")), ("b", recreated_pod)]))
            .contains("\"b\" is gone")
    );
    let late = PodGroupScene::new(&one_bound).in_phase(PodGroupPhase::Committing, -1);
    assert!(rollback_message(late).contains("deadline"));
    // All pods are bound: only the write that closes the plan is late.
    let both_bound = [("a", bound_on("n")), ("b", bound_on("n"))];
    let late = PodGroupScene::new(&both_bound).in_phase(PodGroupPhase::Committing, -1);
    assert_eq!(late.next_step(), GangStep::Commit);
    let preempted = PodGroupScene {
        preemption_message: Some("makes room"),
        ..open_plan(&one_bound)
    };
    assert!(matches!(
        preempted.next_step(),
        GangStep::RollBack {
            reason: Reason::Preempted,
            failed: false,
            ..
        }
    ));
}

#[test]
fn failed_plan_removes_only_the_pods_that_it_bound() {
    let joined_pod = bound_by_plan("n", "another", "q");
    let mut scene =
        PodGroupScene::new(&[("a", bound_on("n")), ("b", json!({})), ("c", joined_pod)])
            .in_phase(PodGroupPhase::Unwinding, 60);
    scene.journal.reason = Some(Reason::PodRefused);
    assert_eq!(removed_pod_names(scene.next_step()), ["a"]);
    let deleted_pod = json!({"/spec/nodeName": "n", "/metadata/annotations": {"trellis.dev/plan": "p"},
        "/metadata/deletionTimestamp": "2026-01-01T00:00:00Z"});
    scene
        .pods
        .insert("a".to_owned(), Arc::new(pod("a", deleted_pod)));
    assert_eq!(scene.next_step(), GangStep::AwaitPods);
    scene.pods.remove("a");
    assert_eq!(scene.next_step(), GangStep::ClearPlan);
}

#[test]
fn preempted_external_gang_is_evicted_and_deleted_after_the_budget_time() {
    let running = |mut pod: Value| {
        pod["/status/phase"] = json!("Running");
        pod
    };
    let joined_pod = running(bound_by_plan("n", "another", "q"));
    // A user has bound one pod, and another pod counts in another queue.
    let bound_by_user = running(json!({"/spec/nodeName": "n"}));
    let in_other_queue = running(bound_by_plan("n", "another", "r"));
    let pods = [
        ("a", running(bound_on("n"))),
        ("c", joined_pod),
        ("d", json!({})),
        ("e", bound_by_user),
        ("f", in_other_queue),
    ];
    let mut scene = PodGroupScene::new(&pods).in_phase(PodGroupPhase::Placed, 60);
    assert_eq!(scene.next_step(), GangStep::KeepPlace(vec!["d".to_owned()]));
    scene.preemption_message = Some("makes room");
    assert!(matches!(
        scene.next_step(),
        GangStep::RollBack {
            reason: Reason::Preempted,
            ..
        }
    ));
    scene.journal.phase = Some(PodGroupPhase::Unwinding);
    scene.journal.reason = Some(Reason::Preempted);
    let until = |seconds: i64| {
        let at = Timestamp::from_second(NOW).unwrap();
        Some(Time(
            at.saturating_add(SignedDuration::from_secs(seconds))
                .unwrap(),
        ))
    };
    scene.journal.evict_until = until(5);
    assert!(matches!(scene.next_step(), GangStep::Evict(_)));
    assert_eq!(removed_pod_names(scene.next_step()), ["a", "c"]);
    scene.journal.evict_until = until(0);
    assert!(matches!(scene.next_step(), GangStep::Delete(_)));
}

#[test]
fn gang_without_running_pods_loses_its_place() {
    let succeeded = json!({"/spec/nodeName": "n", "/status/phase": "Succeeded"});
    let scene = PodGroupScene::new(&[("a", succeeded)]).in_phase(PodGroupPhase::Placed, 60);
    assert_eq!(scene.next_step(), GangStep::ClearPlan);
}

#[test]
fn nomination_is_cancelled_when_its_pods_change() {
    let nominated =
        |pods: &[(&str, Value)]| PodGroupScene::new(pods).in_phase(PodGroupPhase::Nominated, 60);
    let waiting_pods = [("a", json!({})), ("b", json!({}))];
    assert_eq!(
        nominated(&waiting_pods).next_step(),
        GangStep::RemoveVictims
    );
    assert_eq!(
        nominated(&waiting_pods[..1]).next_step(),
        GangStep::CancelNomination
    );
    assert_eq!(
        nominated(&[("a", json!({})), ("b", bound_on("n"))]).next_step(),
        GangStep::CancelNomination
    );
}

#[test]
fn min_member_outside_1_to_4096_is_invalid() {
    let scene = PodGroupScene::new(&[("a", json!({}))]);
    for wrong in [-1, 0, 4097, i64::MAX] {
        assert_eq!(
            wait_reason(&scene.next_step_with_min_member(wrong)).0,
            Reason::InvalidSpec
        );
    }
    assert_eq!(
        wait_reason(&scene.next_step_with_min_member(4096)).0,
        Reason::MembersMissing,
        "4096 is the maximum"
    );
}

/// Pods that are created while the gang's pods stop form the next gang.
#[test]
fn next_gang_waits_until_the_stopping_gang_is_gone() {
    let deleting = |pod: Value| {
        let mut pod = pod;
        pod["/metadata/deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
        pod
    };
    let placed =
        |pods: &[(&str, Value)]| PodGroupScene::new(pods).in_phase(PodGroupPhase::Placed, 60);
    let new_pod = ("c", json!({}));
    let half_deleted = placed(&[
        ("a", deleting(bound_on("n"))),
        ("b", bound_on("n")),
        new_pod.clone(),
    ]);
    assert_eq!(
        half_deleted.next_step(),
        GangStep::KeepPlace(vec!["c".to_owned()])
    );
    let all_deleted = placed(&[
        ("a", deleting(bound_on("n"))),
        ("b", deleting(bound_on("n"))),
        new_pod.clone(),
    ]);
    assert_eq!(all_deleted.next_step(), GangStep::AwaitPods);
    // A pod that a user has bound is not part of the gang's place.
    let bound_by_user = json!({"/spec/nodeName": "n"});
    let all_deleted = placed(&[
        ("a", deleting(bound_on("n"))),
        ("b", bound_by_user),
        new_pod.clone(),
    ]);
    assert_eq!(all_deleted.next_step(), GangStep::AwaitPods);
    // A lost node has no kubelet that stops its pods, so they may stay for days.
    let all_deleted = placed(&[
        ("a", deleting(bound_on("lost"))),
        ("b", deleting(bound_on("lost"))),
        new_pod,
    ]);
    assert_eq!(
        all_deleted.next_step(),
        GangStep::KeepPlace(vec!["c".to_owned()])
    );
}
