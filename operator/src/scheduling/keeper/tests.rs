mod filling;
mod grace;
mod leaving;
mod stages;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::pod_group::{Assignment, Plan};

use super::*;
use crate::scheduling::fixtures::{PHASES, run};
use crate::watch::PodPhase;

/// The journal of a plan for attempt 1, good until second 120.
fn journal(phase: PodGroupPhase) -> PodGroupStatus {
    let wish = run(1);
    PodGroupStatus {
        phase: Some(phase),
        plan: Some(Plan {
            hash: "plan".to_owned(),
            attempt: 1,
            compiled: wish.run().unwrap().job.compiled().hash().to_owned(),
            deadline: Some(Time(Timestamp::from_second(120).unwrap())),
            ..Plan::default()
        }),
        ..PodGroupStatus::default()
    }
}

fn pod(name: &str, job_uid: &str, phase: PodPhase) -> (String, PodView) {
    let view = PodView {
        uid: format!("uid-{name}"),
        job_uid: job_uid.to_owned(),
        group: "worker".to_owned(),
        index: 0,
        attempt: 1,
        round: 0,
        epoch: None,
        ready: false,
        plan: "plan".to_owned(),
        node: Some(format!("node-{name}")),
        phase,
        stuck: None,
        deleting: false,
        deleted: None,
        disrupted: false,
        checkpoint: None,
    };
    (name.to_owned(), view)
}

fn step(phase: PodGroupPhase, wish: &Wish, pods: &BTreeMap<String, PodView>, now: i64) -> Step {
    let (deletions, clock) = (Deletions::default(), Instant::now());
    let dismissed = Dismissed::default();
    Gang {
        dismissed: &dismissed,
        deletions: &deletions,
        clock,
        uid: "mine",
        stage: 1,
        keeps_done: true,
        attempt: 1,
        was_placed: false,
        wish,
        told: None,
        journal: &journal(phase),
        pods,
        lost: &BTreeSet::from(["node-lost".to_owned()]),
        grace: 300,
        now: Timestamp::from_second(now).unwrap(),
    }
    .next()
}

fn names(pods: &[Doomed]) -> String {
    let names: Vec<_> = pods.iter().map(|p| p.name.as_str()).collect();
    names.join(" ")
}

/// A step in one word, and the pods that it deletes.
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

#[test]
fn each_phase_meets_each_wish() {
    let none = BTreeMap::new();
    let some = BTreeMap::from([
        pod("a", "mine", PodPhase::Running),
        pod("b", "mine", PodPhase::Succeeded),
    ]);
    let same = |w: &'static str| [w; 6];
    let again = "undo Restarting";
    // Of a job that has ended nothing is begun again, closed or not.
    let commit = ["Commit", again, again, "undo Suspended"];
    let placed = ["Hold", again, "Hold", "undo Suspended"];
    for (phase, pods, expected) in [
        (
            PHASES[0],
            &none,
            [
                "Enqueue", "Enqueue", "Withdraw", "Withdraw", "Withdraw", "Withdraw",
            ],
        ),
        (
            PHASES[0],
            &some,
            [
                "delete a b",
                "delete a b",
                "delete a b",
                "delete a b",
                "delete a",
                "delete a b",
            ],
        ),
        (
            PHASES[1],
            &none,
            [
                commit[0], commit[1], commit[2], commit[3], "Finish", "Finish",
            ],
        ),
        (
            PHASES[1],
            &some,
            [
                commit[0],
                commit[1],
                commit[2],
                commit[3],
                "delete a",
                "delete a b",
            ],
        ),
        (
            PHASES[2],
            &none,
            [
                placed[0], placed[1], placed[2], placed[3], "Finish", "Finish",
            ],
        ),
        (
            PHASES[2],
            &some,
            [
                placed[0],
                placed[1],
                placed[2],
                placed[3],
                "delete a",
                "delete a b",
            ],
        ),
        (PHASES[3], &none, same("Clear")),
        (PHASES[3], &some, same("delete a b")),
        (PHASES[4], &none, same("Withdraw")),
        (
            PHASES[4],
            &some,
            [
                "delete a b",
                "delete a b",
                "delete a b",
                "delete a b",
                "delete a",
                "delete a b",
            ],
        ),
        (
            PHASES[5],
            &none,
            ["Follow", "Void", "Void", "Void", "Void", "Void"],
        ),
        (PHASES[5], &some, same("delete a b")),
    ] {
        for (wish, expected) in wishes().iter().zip(expected) {
            let step = step(phase, wish, pods, 0);
            assert_eq!(word(&step), expected, "{phase:?} {wish:?} {}", pods.len());
        }
    }
}

#[test]
fn a_plan_is_undone_at_its_deadline() {
    let commit = |now| step(PHASES[1], &run(1), &BTreeMap::new(), now);
    assert_eq!(commit(119), Step::Commit);
    assert_eq!(word(&commit(120)), "undo PodRefused");
}

/// The journal of a gang of two was not closed in time, by an operator that was away.
#[test]
fn a_gang_that_is_whole_is_closed_though_its_deadline_is_over() {
    let wish = run(1);
    let mut journal = journal(PodGroupPhase::Committing);
    let on = |node: &str| Assignment {
        group: "worker".to_owned(),
        node: node.to_owned(),
        count: 1,
    };
    journal.plan.as_mut().unwrap().assignments = vec![on("node-a"), on("node-b")];
    let whole = || {
        let mut pods = BTreeMap::from([
            pod("a", "mine", PodPhase::Running),
            pod("b", "mine", PodPhase::Pending),
        ]);
        pods.get_mut("b").unwrap().index = 1;
        pods
    };
    let (deletions, clock) = (Deletions::default(), Instant::now());
    let dismissed = Dismissed::default();
    let next = |pods: &BTreeMap<String, PodView>, told: Option<&str>| {
        let gang = Gang {
            uid: "mine",
            stage: 1,
            keeps_done: true,
            attempt: 1,
            was_placed: false,
            wish: &wish,
            told,
            journal: &journal,
            pods,
            lost: &BTreeSet::new(),
            dismissed: &dismissed,
            deletions: &deletions,
            grace: 300,
            now: Timestamp::from_second(1000).unwrap(),
            clock,
        };
        word(&gang.next())
    };
    assert_eq!(next(&whole(), None), "Commit");
    assert_eq!(next(&whole(), Some("for another")), "undo Preempted");
    // One that is not there as planned makes it a part.
    let not: [fn(&mut PodView); 5] = [
        |pod| pod.deleting = true,
        |pod| pod.plan = "earlier".to_owned(),
        |pod| pod.node = Some("node-a".to_owned()),
        |pod| pod.index = 0,
        |pod| pod.job_uid = "another".to_owned(),
    ];
    for change in not {
        let mut pods = whole();
        change(pods.get_mut("b").unwrap());
        assert_eq!(next(&pods, None), "undo PodRefused", "{pods:?}");
    }
    let mut pods = whole();
    pods.remove("b");
    assert_eq!(next(&pods, None), "undo PodRefused");
}

/// Its PodGroup was deleted, and another is there. First the status ends the attempt: until then
/// nothing of it goes, and it is not begun again.
#[test]
fn an_attempt_whose_journal_is_gone_is_counted_before_anything_else() {
    let none = BTreeMap::new();
    let some = BTreeMap::from([pod("a", "mine", PodPhase::Running)]);
    let next = |wish: &Wish, pods: &BTreeMap<String, PodView>, was_placed: bool| {
        let gang = Gang {
            uid: "mine",
            stage: 1,
            keeps_done: true,
            attempt: 1,
            was_placed,
            wish,
            told: None,
            journal: &PodGroupStatus::default(),
            pods,
            lost: &BTreeSet::new(),
            dismissed: &Dismissed::default(),
            deletions: &Deletions::default(),
            grace: 300,
            now: Timestamp::UNIX_EPOCH,
            clock: Instant::now(),
        };
        word(&gang.next())
    };
    for pods in [&none, &some] {
        assert_eq!(next(&run(1), pods, true), "AwaitStatus");
        assert_eq!(next(&Wish::Wait, pods, true), "AwaitStatus");
    }
    assert_eq!(next(&run(2), &some, false), "delete a");
    assert_eq!(next(&run(2), &none, false), "Enqueue");
    // An end of the job, or a suspension, is counted elsewhere.
    let stop = Wish::stop(Reason::Suspended);
    assert_eq!(next(&stop, &some, true), "delete a");
    assert_eq!(
        next(
            &Wish::Finish {
                keep: true,
                hurry: false
            },
            &none,
            true
        ),
        "Withdraw"
    );
}

#[test]
fn pods_of_another_job_are_never_deleted() {
    let pods = BTreeMap::from([pod("lost", "another", PodPhase::Running)]);
    for phase in PHASES {
        for wish in wishes() {
            let step = step(phase, &wish, &pods, 0);
            assert!(!matches!(step, Step::Delete(_)), "{phase:?} {wish:?}");
        }
    }
}

#[test]
fn force_is_for_lost_nodes_alone() {
    let mut pods = BTreeMap::from([
        pod("lost", "mine", PodPhase::Running),
        pod("well", "mine", PodPhase::Running),
    ]);
    let forced = |step: Step| match step {
        Step::Delete(pods) => pods.into_iter().map(|p| (p.uid, p.force)).collect(),
        _ => Vec::new(),
    };
    let lost = ("uid-lost".to_owned(), true);
    let well = ("uid-well".to_owned(), false);
    assert_eq!(
        forced(step(PHASES[3], &Wish::stop(Reason::Suspended), &pods, 0)),
        [lost.clone(), well]
    );
    for pod in pods.values_mut() {
        pod.deleting = true;
    }
    assert_eq!(
        forced(step(PHASES[3], &Wish::stop(Reason::Suspended), &pods, 0)),
        [lost]
    );
    pods.remove("lost");
    assert_eq!(
        step(PHASES[3], &Wish::stop(Reason::Suspended), &pods, 0),
        Step::AwaitPods
    );
}

#[test]
fn a_pod_that_no_plan_names_is_removed_from_a_placed_gang() {
    let mut pods = BTreeMap::from([
        pod("a", "mine", PodPhase::Running),
        pod("stray", "mine", PodPhase::Running),
    ]);
    pods.get_mut("stray").unwrap().plan = "earlier".to_owned();
    assert_eq!(word(&step(PHASES[2], &run(1), &pods, 0)), "delete stray");
}

#[test]
fn a_pod_that_does_not_go_is_not_deleted_in_a_loop() {
    let mut pods = BTreeMap::from([
        pod("lost", "mine", PodPhase::Running),
        pod("well", "mine", PodPhase::Running),
    ]);
    let wish = Wish::stop(Reason::Suspended);
    let lost = BTreeSet::from(["node-lost".to_owned()]);
    let journal = journal(PodGroupPhase::Unwinding);
    let start = Instant::now();
    let mut deletions = Deletions::default();
    let mut asked = BTreeMap::new();
    // Of the first 200 s a watch that stalls shows nothing; then a finalizer keeps both.
    for second in 0..400 {
        let clock = start + std::time::Duration::from_secs(second);
        if second == 200 {
            pods.values_mut().for_each(|pod| pod.deleting = true);
        }
        let step = Gang {
            uid: "mine",
            stage: 1,
            keeps_done: true,
            attempt: 1,
            was_placed: false,
            wish: &wish,
            told: None,
            journal: &journal,
            pods: &pods,
            lost: &lost,
            dismissed: &Dismissed::default(),
            deletions: &deletions,
            grace: 300,
            now: Timestamp::UNIX_EPOCH,
            clock,
        }
        .next();
        match step {
            Step::Delete(doomed) => {
                for pod in doomed {
                    deletions.ask(&pod.uid, pod.force, clock);
                    *asked.entry(pod.name).or_insert(0) += 1;
                }
            }
            other => assert_eq!(other, Step::AwaitPods),
        }
    }
    // At 0, 1, 3, 7, 15, 31, 63, 127, and by force at 255 too.
    assert_eq!(
        asked,
        BTreeMap::from([("lost".to_owned(), 9), ("well".to_owned(), 8)])
    );
}
