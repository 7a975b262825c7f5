//! Missing pods of a placed gang, which are created while the other pods run.

use std::sync::Arc;

use trellis_api::job::{AwaitedGroup, AwaitedPods};

use super::*;
use crate::AuthorizedAttempt;
use crate::fixtures::desired_run_with;

/// Returns the next step of a placed gang of two, whose pod with index 1 is awaited in round 2 from
/// second 10 on.
fn next_step_with_awaited_pod(pods: &BTreeMap<String, PodView>, attempt: i64, now: i64) -> Step {
    let group = serde_json::json!({"name": "worker", "replicas": 2, "image": "i",
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
    let job = desired_run_with(1, serde_json::json!({"taskGroups": [group]}));
    let mut run = AuthorizedAttempt::clone(job.attempt().unwrap());
    run.attempt.awaited = AwaitedPods {
        attempt,
        round: 2,
        counted_round: 2,
        held_groups: Vec::new(),
        pods: vec![AwaitedGroup {
            displaced: false,
            name: "worker".to_owned(),
            indexes: "1".to_owned(),
            round: 2,
            hurried: false,
            not_before: Some(Time(second(10))),
        }],
    };
    let desired = DesiredGang::Run(Arc::new(run));
    let mut journal = journal(PodGroupPhase::Placed);
    journal.plan.as_mut().unwrap().assignments =
        vec![assignment_on("node-a"), assignment_on("node-b")];
    let mut gang = gang(&desired, &journal, pods);
    gang.now = second(now);
    gang.members.was_placed = true;
    gang.members.grace = 30;
    let expected_time = (now < 10).then(|| second(10));
    assert_eq!(gang.next_creation_time(), expected_time);
    gang.next_step()
}

fn pods(round: i64, phase: PodPhase) -> BTreeMap<String, PodView> {
    let mut pods = BTreeMap::from([pod("a", "mine", PodPhase::Running), pod("b", "mine", phase)]);
    let second = pods.get_mut("b").unwrap();
    (second.index, second.round) = (1, round);
    pods
}

#[test]
fn replaced_pod_is_deleted_and_its_replacement_created_when_due() {
    let mut pods = pods(1, PodPhase::Running);
    assert_eq!(
        describe_step(&next_step_with_awaited_pod(&pods, 1, 0)),
        "delete b"
    );
    pods.get_mut("b").unwrap().deleting = true;
    assert_eq!(
        next_step_with_awaited_pod(&pods, 1, 20),
        GangStep::KeepPlace(Vec::new()),
        "the pod that is being deleted still has the name"
    );
    pods.remove("b");
    assert_eq!(
        next_step_with_awaited_pod(&pods, 1, 9),
        GangStep::KeepPlace(Vec::new())
    );
    let missing_pod = MissingPod {
        group: "worker".to_owned(),
        index: 1,
        node: "node-b".to_owned(),
        round: 2,
        flavor_tolerations: None,
    };
    assert_eq!(
        next_step_with_awaited_pod(&pods, 1, 10),
        GangStep::KeepPlace(vec![missing_pod])
    );
    // The pod exists.
    assert_eq!(
        next_step_with_awaited_pod(&self::pods(2, PodPhase::Pending), 1, 20),
        GangStep::KeepPlace(Vec::new())
    );
}

#[test]
fn awaited_pods_of_another_attempt_are_ignored() {
    assert_eq!(
        next_step_with_awaited_pod(&pods(1, PodPhase::Running), 2, 20),
        GangStep::KeepPlace(Vec::new())
    );
}
