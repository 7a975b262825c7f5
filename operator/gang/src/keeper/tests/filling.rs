//! Missing pods of a placed gang that are created while the others run.

use std::sync::Arc;

use trellis_api::job::{AwaitedGroup, AwaitedPods};

use super::*;
use crate::Run;
use crate::fixtures::run_with;

/// The next step of a placed gang of two, whose pod with index 1 is awaited in round 2 from second
/// 10 on.
fn next(pods: &BTreeMap<String, PodView>, attempt: i64, now: i64) -> Step {
    let group = serde_json::json!({"name": "worker", "replicas": 2, "image": "i",
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
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
                not_before: Some(Time(second(10))),
            }],
        },
        ..Run::clone(of.run().unwrap())
    }));
    let mut journal = journal(PodGroupPhase::Placed);
    journal.plan.as_mut().unwrap().assignments = vec![on("node-a"), on("node-b")];
    let gang = Gang {
        was_placed: true,
        grace: 30,
        now: second(now),
        ..gang(&wish, &journal, pods)
    };
    let due = (now < 10).then(|| second(10));
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
    // The pod exists.
    assert_eq!(next(&self::pods(2, PodPhase::Pending), 1, 20), Step::Hold);
}

#[test]
fn what_is_awaited_of_another_attempt_concerns_nobody() {
    assert_eq!(next(&pods(1, PodPhase::Running), 2, 20), Step::Hold);
}
