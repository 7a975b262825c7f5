//! A plan is completed in time, or rolled back.

use super::*;

#[test]
fn a_plan_is_undone_at_its_deadline() {
    let commit = |now| step(PHASES[1], &run(1), &BTreeMap::new(), now);
    assert_eq!(commit(119), Step::Commit);
    assert_eq!(word(&commit(120)), "undo PodRefused");
}

/// The journal of a gang of two was not closed in time, because the operator was down.
#[test]
fn a_gang_that_is_whole_is_closed_though_its_deadline_is_over() {
    let wish = run(1);
    let mut journal = journal(PodGroupPhase::Committing);
    journal.plan.as_mut().unwrap().assignments = vec![on("node-a"), on("node-b")];
    let whole = || {
        let mut pods = BTreeMap::from([
            pod("a", "mine", PodPhase::Running),
            pod("b", "mine", PodPhase::Pending),
        ]);
        pods.get_mut("b").unwrap().index = 1;
        pods
    };
    let next = |pods: &BTreeMap<String, PodView>, told: Option<&str>| {
        let gang = Gang {
            told,
            now: second(1000),
            ..gang(&wish, &journal, pods)
        };
        word(&gang.next())
    };
    assert_eq!(next(&whole(), None), "Commit");
    assert_eq!(next(&whole(), Some("for another")), "undo Preempted");
    // A pod that differs from the plan makes the gang incomplete.
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
