use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::pod_group::{Assignment, Plan, PlannedPod, PodGroupPhase, PodGroupStatus};

use super::next::{Gang, Step, ends, is_of_place, ready};
use super::*;
use crate::deletions::Deletions;
use crate::journal::Author;
use crate::key::Key;
use crate::observed::{ExternalPod, ExternalPods, SlimPod};

mod grace;
mod late;
mod names;
mod single;

const NOW: i64 = 1_800_000_000;

/// Waiting pods, the first of which are bound to node `n` by plan `p`.
struct Scene {
    pods: ExternalPods,
    journal: PodGroupStatus,
    author: Option<Author>,
    told: Option<&'static str>,
}

fn pod(name: &str, more: Value) -> ExternalPod {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": {}},
        "spec": {"schedulerName": "trellis", "containers": [{"name": "c"}]},
        "status": {"phase": "Pending"},
    });
    for (path, value) in more.as_object().unwrap() {
        let (parent, field) = path.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    let pod: SlimPod = serde_json::from_value(pod).unwrap();
    ExternalPod::of(&pod).unwrap()
}

fn on(node: &str) -> Value {
    by(node, "p", "q")
}

/// A pod that Trellis has bound.
fn by(node: &str, plan: &str, queue: &str) -> Value {
    let annotations = json!({"trellis.dev/plan": plan, "trellis.dev/placed-in": queue});
    json!({"/spec/nodeName": node, "/metadata/annotations": annotations})
}

impl Scene {
    fn new(pods: &[(&str, Value)]) -> Self {
        let pods = pods
            .iter()
            .map(|(name, more)| ((*name).to_owned(), Arc::new(pod(name, more.clone()))));
        Self {
            pods: pods.collect(),
            journal: PodGroupStatus::default(),
            author: Some(Author::Ours),
            told: None,
        }
    }

    /// A journal in that phase, with pods a and b on node n.
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

    fn next(&self) -> Step {
        self.next_of(2)
    }

    fn next_of(&self, min_member: i64) -> Step {
        Gang {
            min_member,
            goes: false,
            ends: ends(&self.journal, &self.pods, |node| node == "lost"),
            journal: &self.journal,
            author: self.author,
            pods: &self.pods,
            told: self.told,
            deletions: &Deletions::default(),
            now: Timestamp::from_second(NOW).unwrap(),
            clock: Instant::now(),
        }
        .next()
    }
}

fn waits_for(step: &Step) -> (Reason, &str) {
    match step {
        Step::Wait { reason, message } => (*reason, message),
        step => panic!("{step:?}"),
    }
}

fn names(step: Step) -> Vec<String> {
    match step {
        Step::Delete(pods) | Step::Evict(pods) => pods.into_iter().map(|p| p.name).collect(),
        step => panic!("{step:?}"),
    }
}

#[test]
fn nothing_is_asked_for_before_all_are_there_and_without_gates() {
    let gated = json!({"/spec/schedulingGates": [{"name": "x"}]});
    let step = Scene::new(&[("a", json!({})), ("b", gated.clone())]).next();
    let (reason, message) = waits_for(&step);
    assert_eq!(reason, Reason::MembersMissing);
    assert_eq!(
        message,
        "1 of the 2 pods are there that the PodGroup asks for (spec.minMember); 1 more has scheduling gates"
    );
    let whole = Scene::new(&[("a", json!({})), ("b", json!({})), ("c", gated)]);
    assert_eq!(
        whole.next(),
        Step::Enqueue(vec!["a".to_owned(), "b".to_owned()])
    );
    assert_eq!(waits_for(&whole.next_of(0)).0, Reason::InvalidSpec);
    let step = Scene::new(&[]).next();
    let (reason, message) = waits_for(&step);
    assert_eq!(reason, Reason::MembersMissing);
    assert!(message.starts_with("0 of the 2 pods"), "{message}");
    // The gang was placed, and its work may be done.
    let mut had_place = Scene::new(&[]);
    had_place.journal.epoch = Some(1);
    assert_eq!(had_place.next(), Step::Withdraw);
    // The gang waits again, and its pods are gone again.
    had_place.journal.reason = Some(Reason::InsufficientCapacity);
    let step = had_place.next();
    assert_eq!(waits_for(&step).0, Reason::MembersMissing);
}

#[test]
fn a_gang_is_made_of_its_first_pods_by_number_then_by_age() {
    let at = |index: Value, second: &str| {
        json!({"/metadata/labels": {"batch.kubernetes.io/job-completion-index": index},
            "/metadata/creationTimestamp": format!("2026-01-01T00:00:{second}Z")})
    };
    let scene = Scene::new(&[
        ("a", at(json!("10"), "00")),
        ("b", at(json!("9"), "01")),
        (
            "c",
            json!({"/metadata/creationTimestamp": "2026-01-01T00:00:03Z"}),
        ),
        (
            "d",
            json!({"/metadata/creationTimestamp": "2026-01-01T00:00:02Z"}),
        ),
    ]);
    assert_eq!(ready(&scene.pods), ["b", "a", "d", "c"]);
}

#[test]
fn pods_that_are_bound_without_a_journal_are_not_torn() {
    let whole = Scene::new(&[("a", on("n")), ("b", on("m"))]);
    assert_eq!(whole.next(), Step::Adopt);
    let part = Scene::new(&[("a", on("n")), ("b", json!({})), ("c", json!({}))]);
    assert_eq!(part.next(), Step::Enqueue(vec!["b".to_owned()]));
}

#[test]
fn an_open_plan_is_carried_out_by_who_leads_or_undone() {
    let open = |pods: &[(&str, Value)]| Scene::new(pods).in_phase(PodGroupPhase::Committing, 60);
    let both = [("a", on("n")), ("b", json!({}))];
    assert_eq!(open(&both).next(), Step::Bind);
    let of = |author| {
        Scene {
            author,
            ..open(&both)
        }
        .next()
    };
    assert_eq!(of(Some(Author::Predecessor)), Step::TakeOver);
    assert!(matches!(
        of(Some(Author::Stale)),
        Step::Undo { failed: false, .. }
    ));
    assert!(matches!(of(None), Step::Undo { .. }));
    let undone = |scene: Scene| match scene.next() {
        Step::Undo {
            message,
            failed: true,
            ..
        } => message,
        step => panic!("{step:?}"),
    };
    assert!(undone(open(&[("a", on("n"))])).contains("\"b\" is gone"));
    assert!(undone(open(&[("a", on("n")), ("b", on("m"))])).contains("bound to \"m\" by somebody"));
    let going = json!({"/metadata/deletionTimestamp": "2026-01-01T00:00:00Z"});
    assert!(undone(open(&[("a", on("n")), ("b", going)])).contains("\"b\" is gone"));
    let another = json!({"/metadata/uid": "z"});
    assert!(undone(open(&[("a", on("n")), ("b", another)])).contains("\"b\" is gone"));
    let late = Scene::new(&both).in_phase(PodGroupPhase::Committing, -1);
    assert!(undone(late).contains("deadline"));
    // Only the write that closes the plan is late.
    let whole = [("a", on("n")), ("b", on("n"))];
    let late = Scene::new(&whole).in_phase(PodGroupPhase::Committing, -1);
    assert_eq!(late.next(), Step::Bind);
    let told = Scene {
        told: Some("makes room"),
        ..open(&both)
    };
    assert!(matches!(
        told.next(),
        Step::Undo {
            reason: Reason::Preempted,
            failed: false,
            ..
        }
    ));
}

#[test]
fn of_a_torn_gang_those_go_that_its_plan_has_bound() {
    let later = by("n", "another", "q");
    let mut scene = Scene::new(&[("a", on("n")), ("b", json!({})), ("c", later)])
        .in_phase(PodGroupPhase::Unwinding, 60);
    scene.journal.reason = Some(Reason::PodRefused);
    assert_eq!(names(scene.next()), ["a"]);
    let going = json!({"/spec/nodeName": "n", "/metadata/annotations": {"trellis.dev/plan": "p"},
        "/metadata/deletionTimestamp": "2026-01-01T00:00:00Z"});
    scene.pods.insert("a".to_owned(), Arc::new(pod("a", going)));
    assert_eq!(scene.next(), Step::AwaitPods);
    scene.pods.remove("a");
    assert_eq!(scene.next(), Step::Clear);
}

#[test]
fn who_makes_room_goes_whole_and_is_deleted_once_budgets_had_their_time() {
    let run = |mut pod: Value| {
        pod["/status/phase"] = json!("Running");
        pod
    };
    let later = run(by("n", "another", "q"));
    // A pod of another scheduler or user, and a pod that counts in another queue.
    let theirs = run(json!({"/spec/nodeName": "n"}));
    let elsewhere = run(by("n", "another", "r"));
    let pods = [
        ("a", run(on("n"))),
        ("c", later),
        ("d", json!({})),
        ("e", theirs),
        ("f", elsewhere),
    ];
    let mut scene = Scene::new(&pods).in_phase(PodGroupPhase::Placed, 60);
    assert_eq!(scene.next(), Step::Hold(vec!["d".to_owned()]));
    scene.told = Some("makes room");
    assert!(matches!(
        scene.next(),
        Step::Undo {
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
    assert!(matches!(scene.next(), Step::Evict(_)));
    assert_eq!(names(scene.next()), ["a", "c"]);
    scene.journal.evict_until = until(0);
    assert!(matches!(scene.next(), Step::Delete(_)));
}

#[test]
fn a_gang_without_pods_has_no_place() {
    let over = json!({"/spec/nodeName": "n", "/status/phase": "Succeeded"});
    let scene = Scene::new(&[("a", over)]).in_phase(PodGroupPhase::Placed, 60);
    assert_eq!(scene.next(), Step::Clear);
}

#[test]
fn a_nomination_is_for_the_pods_that_it_names() {
    let named = |pods: &[(&str, Value)]| Scene::new(pods).in_phase(PodGroupPhase::Nominated, 60);
    let both = [("a", json!({})), ("b", json!({}))];
    assert_eq!(named(&both).next(), Step::Follow);
    assert_eq!(named(&both[..1]).next(), Step::Void);
    assert_eq!(
        named(&[("a", json!({})), ("b", on("n"))]).next(),
        Step::Void
    );
}

#[test]
fn what_holds_a_place_counts_where_it_was_bound_and_nothing_else_counts() {
    let in_phase = |phase| Scene::new(&[]).in_phase(phase, 60).journal;
    let placed = in_phase(PodGroupPhase::Placed);
    let of = |more: Value| pod("a", more);
    assert!(is_of_place(&placed, &of(by("n", "another", "q"))));
    assert!(
        !is_of_place(&placed, &of(by("n", "p", "r"))),
        "its queue is another's"
    );
    let theirs = of(json!({"/spec/nodeName": "n", "/metadata/labels": {"trellis.dev/queue": "q"}}));
    assert_eq!(theirs.counts_in(), None, "nobody has asked whether it may");
    assert!(!is_of_place(&placed, &theirs));
    let committing = in_phase(PodGroupPhase::Committing);
    assert!(is_of_place(&committing, &of(on("n"))));
    assert!(!is_of_place(&committing, &of(by("n", "another", "q"))));
    let pending = in_phase(PodGroupPhase::Pending);
    assert!(!is_of_place(&pending, &of(on("n"))));
    // A pod does not count before it has its node.
    let waits = of(json!({"/metadata/annotations": {"trellis.dev/placed-in": "q"}}));
    assert_eq!(waits.counts_in(), None);
}

#[test]
fn a_gang_is_of_a_size_that_its_plan_can_name() {
    let scene = Scene::new(&[("a", json!({}))]);
    for wrong in [-1, 0, 4097, i64::MAX] {
        assert_eq!(waits_for(&scene.next_of(wrong)).0, Reason::InvalidSpec);
    }
    assert_eq!(
        waits_for(&scene.next_of(4096)).0,
        Reason::MembersMissing,
        "that is the most"
    );
}

/// Pods that are created while the pods of the last place stop are not part of that place.
#[test]
fn a_gang_of_which_all_stop_is_awaited_before_the_next() {
    let stops = |pod: Value| {
        let mut pod = pod;
        pod["/metadata/deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
        pod
    };
    let placed = |pods: &[(&str, Value)]| Scene::new(pods).in_phase(PodGroupPhase::Placed, 60);
    let next = ("c", json!({}));
    let one = placed(&[("a", stops(on("n"))), ("b", on("n")), next.clone()]);
    assert_eq!(one.next(), Step::Hold(vec!["c".to_owned()]));
    let all = placed(&[("a", stops(on("n"))), ("b", stops(on("n"))), next.clone()]);
    assert_eq!(all.next(), Step::AwaitPods);
    // A pod that another scheduler has bound is not part of the place.
    let other = json!({"/spec/nodeName": "n"});
    let all = placed(&[("a", stops(on("n"))), ("b", other), next.clone()]);
    assert_eq!(all.next(), Step::AwaitPods);
    // No kubelet stops pods on a lost node: they may stay for days.
    let all = placed(&[("a", stops(on("lost"))), ("b", stops(on("lost"))), next]);
    assert_eq!(all.next(), Step::Hold(vec!["c".to_owned()]));
}
