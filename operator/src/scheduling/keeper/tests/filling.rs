//! Pods of a gang that has its place, which come while the others are there.

use super::*;
use crate::scheduling::Run;
use crate::scheduling::fixtures::run_with;
use std::sync::Arc;
use trellis_api::job::{AwaitedGroup, AwaitedPods};
use trellis_api::pod_group::Assignment;

/// A gang of two that has its place, of which the pod of index 1 is awaited in round 2, from
/// second 10 on.
fn next(pods: &BTreeMap<String, PodView>, attempt: i64, now: i64) -> Step {
    let group = serde_json::json!({"name": "worker", "replicas": 2, "image": "i",
        "resources": {"cpu": 1, "memory": "1Gi"}});
    let of = run_with(1, serde_json::json!({"taskGroups": [group]}));
    let wish = Wish::Run(Arc::new(Run {
        awaited: AwaitedPods {
            attempt,
            round: 2,
            counted_round: 2,
            held_groups: Vec::new(),
            pods: vec![AwaitedGroup {
                name: "worker".to_owned(),
                indexes: "1".to_owned(),
                round: 2,
                hurried: false,
                not_before: Some(Time(Timestamp::from_second(10).unwrap())),
            }],
        },
        ..Run::clone(of.run().unwrap())
    }));
    let mut journal = journal(PodGroupPhase::Placed);
    let on = |node: &str| Assignment {
        group: "worker".to_owned(),
        node: node.to_owned(),
        count: 1,
    };
    journal.plan.as_mut().unwrap().assignments = vec![on("node-a"), on("node-b")];
    let (deletions, clock) = (Deletions::default(), Instant::now());
    let dismissed = Dismissed::default();
    let gang = Gang {
        uid: "mine",
        stage: 1,
        keeps_done: true,
        attempt: 1,
        was_placed: true,
        wish: &wish,
        told: None,
        journal: &journal,
        pods,
        lost: &BTreeSet::new(),
        grace: 30,
        dismissed: &dismissed,
        deletions: &deletions,
        now: Timestamp::from_second(now).unwrap(),
        clock,
    };
    let due = (now < 10).then(|| Timestamp::from_second(10).unwrap());
    assert_eq!(gang.next_vacancy(), due);
    gang.next()
}

fn pods(round: i64, phase: PodPhase) -> BTreeMap<String, PodView> {
    let mut pods = BTreeMap::from([pod("a", "mine", PodPhase::Running), pod("b", "mine", phase)]);
    let second = pods.get_mut("b").unwrap();
    (second.index, second.round) = (1, round);
    pods
}

#[test]
fn a_pod_in_whose_place_another_is_awaited_goes_and_the_other_comes_when_it_is_time() {
    let mut pods = pods(1, PodPhase::Running);
    assert_eq!(word(&next(&pods, 1, 0)), "delete b");
    pods.get_mut("b").unwrap().deleting = true;
    assert_eq!(
        next(&pods, 1, 20),
        Step::Hold,
        "while it goes nothing can be there"
    );
    pods.remove("b");
    assert_eq!(next(&pods, 1, 9), Step::Hold);
    let vacancy = Vacancy {
        group: "worker".to_owned(),
        index: 1,
        node: "node-b".to_owned(),
        round: 2,
        brought: None,
    };
    assert_eq!(next(&pods, 1, 10), Step::Fill(vec![vacancy]));
    // It is there.
    assert_eq!(next(&self::pods(2, PodPhase::Pending), 1, 20), Step::Hold);
}

#[test]
fn what_is_awaited_of_another_attempt_concerns_nobody() {
    assert_eq!(next(&pods(1, PodPhase::Running), 2, 20), Step::Hold);
}
