//! The plan of a gang: it is completed in time, or rolled back.

use super::*;

#[test]
fn plan_rolls_back_at_its_deadline() {
    let commit = |now| next_step(PHASES[1], &desired_run(1), &BTreeMap::new(), now);
    assert_eq!(commit(119), GangStep::Commit);
    assert_eq!(describe_step(&commit(120)), "roll back PodRefused");
}

/// The journal of a gang of two was not closed in time, because the operator was down.
#[test]
fn complete_gang_commits_after_the_deadline_of_its_plan() {
    let desired = desired_run(1);
    let mut journal = journal(PodGroupPhase::Committing);
    journal.plan.as_mut().unwrap().assignments =
        vec![assignment_on("node-a"), assignment_on("node-b")];
    let all_pods = || {
        let mut pods = BTreeMap::from([
            pod("a", "mine", PodPhase::Running),
            pod("b", "mine", PodPhase::Pending),
        ]);
        pods.get_mut("b").unwrap().index = 1;
        pods
    };
    let next = |pods: &BTreeMap<String, PodView>, preemption_message: Option<&str>| {
        let gang = ObservedGang {
            preemption_message,
            now: second(1000),
            ..gang(&desired, &journal, pods)
        };
        describe_step(&gang.next_step())
    };
    assert_eq!(next(&all_pods(), None), "Commit");
    assert_eq!(
        next(&all_pods(), Some("for another")),
        "roll back Preempted"
    );
    // The gang is incomplete if a pod differs from the plan.
    let changes: [fn(&mut PodView); 5] = [
        |pod| pod.deleting = true,
        |pod| pod.plan = "earlier".to_owned(),
        |pod| pod.node = Some("node-a".to_owned()),
        |pod| pod.index = 0,
        |pod| pod.job_uid = "another".to_owned(),
    ];
    for change in changes {
        let mut pods = all_pods();
        change(pods.get_mut("b").unwrap());
        assert_eq!(next(&pods, None), "roll back PodRefused", "{pods:?}");
    }
    let mut pods = all_pods();
    pods.remove("b");
    assert_eq!(next(&pods, None), "roll back PodRefused");
}

#[test]
fn open_plan_is_carried_out_only_by_its_leader() {
    let (run, none) = (desired_run(1), BTreeMap::new());
    let step = |phase: PodGroupPhase, author: Option<PlanAuthor>| {
        let journal = journal(phase);
        let gang = ObservedGang {
            author,
            ..gang(&run, &journal, &none)
        };
        describe_step(&gang.next_step())
    };
    let steps = |phase| {
        [
            Some(PlanAuthor::ThisLeader),
            Some(PlanAuthor::Predecessor),
            Some(PlanAuthor::Stale),
            None,
        ]
        .map(|author| step(phase, author))
    };
    let roll_back = "roll back Restarting";
    assert_eq!(
        steps(PodGroupPhase::Committing),
        ["Commit", "TakeOver", roll_back, "StandBy"]
    );
    assert_eq!(
        steps(PodGroupPhase::Nominated),
        ["RemoveVictims", "TakeOver", "CancelNomination", "StandBy"]
    );
}

/// A preempted gang has not failed, even after the deadline of its plan, so it has no back-off.
#[test]
fn only_an_incomplete_plan_fails_at_its_deadline() {
    let (run, stop) = (desired_run(1), DesiredGang::stop(Reason::Suspended));
    let (none, journal) = (BTreeMap::new(), journal(PodGroupPhase::Committing));
    let has_failed = |desired: &DesiredGang, preemption: Option<&str>| {
        let gang = ObservedGang {
            preemption_message: preemption,
            now: second(1000),
            ..gang(desired, &journal, &none)
        };
        match gang.next_step() {
            GangStep::RollBack { failed, .. } => failed,
            step => panic!("{step:?}"),
        }
    };
    assert!(has_failed(&run, None));
    assert!(!has_failed(&run, Some("for another")));
    assert!(!has_failed(&stop, None));
}
