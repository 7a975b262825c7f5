//! States of surplus pods and of slices outside the gang.

use serde_json::json;
use trellis_api::job::{AwaitedPodOptions, AwaitedPods, FinishedGroup};
use trellis_api::pod_group::ElasticGroup;

use super::*;
use crate::fixtures::desired_run_with;
use crate::observed::PodPhase;

/// Returns an elastic job of 2 to 6 pods, and a group outside the gang.
fn run(awaited: AwaitedPods) -> AuthorizedAttempt {
    let group = |name: &str, more: serde_json::Value| {
        let mut group = json!({"name": name, "image": "i",
            "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
        for (key, value) in more.as_object().unwrap() {
            group[key] = value.clone();
        }
        group
    };
    let worker = group("worker", json!({"replicas": 6, "minReplicas": 2}));
    let board = group("board", json!({"membership": "BestEffort"}));
    let desired = desired_run_with(
        1,
        json!({"framework": "PyTorch", "taskGroups": [worker, board]}),
    );
    let mut run = AuthorizedAttempt::clone(desired.attempt().unwrap());
    run.attempt.awaited = awaited;
    run
}

fn plan(replicas: i64) -> Plan {
    Plan {
        hash: "plan".to_owned(),
        attempt: 1,
        elastic: vec![ElasticGroup {
            name: "worker".to_owned(),
            replicas,
            slice_starts: Vec::new(),
        }],
        ..Plan::default()
    }
}

fn pod(group: &str, index: u32) -> (String, PodView) {
    let view = PodView {
        uid: "u".to_owned(),
        job_uid: "mine".to_owned(),
        is_owned: true,
        judged_spec: Default::default(),
        group: group.to_owned(),
        index,
        attempt: 1,
        round: 0,
        plan: "plan".to_owned(),
        epoch: Some(1),
        created: None,
        node: Some("n".to_owned()),
        phase: PodPhase::Running,
        ready: true,
        start_obstacle: None,
        deleting: false,
        has_overlong_grace: false,
        deletion_requested: None,
        is_disrupted: false,
        checkpoint: None,
    };
    (format!("llm-{group}-{index}"), view)
}

fn awaited_none(attempt: i64) -> AwaitedPods {
    AwaitedPods {
        attempt,
        ..AwaitedPods::default()
    }
}

/// Returns the members and their states, as text.
fn describe_states(states: &BTreeMap<SurplusUnit, SurplusState>) -> Vec<String> {
    let word = |(member, state): (&SurplusUnit, &SurplusState)| {
        let word = match state {
            SurplusState::Present(nodes) => {
                let nodes: Vec<&str> = nodes.iter().map(|(_, node)| node.as_str()).collect();
                nodes.join(" ")
            }
            SurplusState::Creatable { round, .. } => format!("free {round}"),
            SurplusState::Torn { missing, .. } => format!("torn, without {missing:?}"),
            SurplusState::Unavailable => "closed".to_owned(),
        };
        format!("{}-{} {word}", member.group, member.first)
    };
    states.iter().map(word).collect()
}

#[test]
fn surplus_pod_is_present_when_it_exists_and_creatable_when_missing() {
    let no_pods = BTreeMap::new();
    let free = ["board-0 free 0", "worker-2 free 0", "worker-3 free 0"];
    assert_eq!(
        describe_states(&surplus_states(
            &run(awaited_none(1)),
            &plan(4),
            &no_pods,
            None
        )),
        free
    );
    let mut pods = BTreeMap::from([pod("worker", 0), pod("worker", 2), pod("board", 0)]);
    let seats_of = |pods: &BTreeMap<_, _>| {
        describe_states(&surplus_states(&run(awaited_none(1)), &plan(4), pods, None))
    };
    assert_eq!(
        seats_of(&pods),
        ["board-0 n", "worker-2 n", "worker-3 free 0"]
    );
    // The pod is being deleted, has ended, or belongs to another plan or job. Its replacement
    // has the same name, so the replacement is created after the pod is gone.
    type PodMutation = fn(&mut PodView);
    let changes: [PodMutation; 4] = [
        |pod| pod.deleting = true,
        |pod| pod.phase = PodPhase::Succeeded,
        |pod| pod.plan = "another".to_owned(),
        |pod| pod.job_uid = "another".to_owned(),
    ];
    for change in changes {
        let before = pods["llm-worker-2"].clone();
        change(pods.get_mut("llm-worker-2").unwrap());
        assert_eq!(seats_of(&pods)[1], "worker-2 closed");
        pods.insert("llm-worker-2".to_owned(), before);
    }
}

#[test]
fn awaited_surplus_pod_is_creatable_in_its_round_and_finished_unavailable() {
    let no_pods = BTreeMap::new();
    let mut awaited = awaited_none(1);
    awaited.round = 3;
    awaited.await_pods("worker", &[3].into(), AwaitedPodOptions::default());
    awaited.held_groups = vec!["board".to_owned()];
    let finished = FinishedPods {
        attempt: 1,
        groups: vec![FinishedGroup {
            name: "worker".to_owned(),
            completed_indexes: "2".to_owned(),
            failed_indexes: String::new(),
        }],
    };
    let states = surplus_states(&run(awaited), &plan(4), &no_pods, Some(&finished));
    let words = ["board-0 closed", "worker-2 closed", "worker-3 free 3"];
    assert_eq!(describe_states(&states), words);
    // The awaited pods of another attempt do not count.
    let states = super::surplus_states(&run(awaited_none(2)), &plan(4), &no_pods, None);
    assert!(
        describe_states(&states)
            .iter()
            .all(|state| state.ends_with("closed"))
    );
}

/// Returns a job of three slices of two pods, of which one is the gang.
fn sliced_run(awaited: AwaitedPods) -> AuthorizedAttempt {
    let slices = json!([{"level": "rack", "pods": 2}]);
    let group = json!({"name": "worker", "image": "i", "replicas": 6, "minReplicas": 2,
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "topology": {"slices": slices}});
    let spec = json!({"framework": "PyTorch", "taskGroups": [group]});
    let desired = desired_run_with(1, spec);
    let mut run = AuthorizedAttempt::clone(desired.attempt().unwrap());
    run.attempt.awaited = awaited;
    run
}

#[test]
fn slice_is_present_creatable_or_torn_as_a_whole() {
    type PodMutation = fn(&mut PodView);
    let pods = |indexes: &[u32]| -> BTreeMap<_, _> {
        indexes.iter().map(|index| pod("worker", *index)).collect()
    };
    let states = |pods: &BTreeMap<_, _>, finished: Option<&FinishedPods>| {
        let run = sliced_run(awaited_none(1));
        describe_states(&surplus_states(&run, &plan(6), pods, finished))
    };
    assert_eq!(
        states(&pods(&[0, 1, 2, 3]), None),
        ["worker-2 n n", "worker-4 free 0"]
    );
    assert_eq!(
        states(&pods(&[0, 1, 3]), None),
        ["worker-2 torn, without {2}", "worker-4 free 0"]
    );
    let changes: [(PodMutation, &str); 4] = [
        (|pod| pod.deleting = true, "worker-2 torn, without {}"),
        (
            |pod| pod.plan = "another".to_owned(),
            "worker-2 torn, without {}",
        ),
        (|pod| pod.phase = PodPhase::Pending, "worker-2 n n"),
        // A pod that has ended leaves its slice whole.
        (|pod| pod.phase = PodPhase::Succeeded, "worker-2 n n"),
    ];
    for (change, expected) in changes {
        let mut pods = pods(&[0, 1, 2, 3]);
        change(pods.get_mut("llm-worker-3").unwrap());
        assert_eq!(states(&pods, None)[0], expected);
        // Without a live pod, the slice is neither whole nor torn.
        pods.get_mut("llm-worker-2").unwrap().deleting = true;
        change(pods.get_mut("llm-worker-2").unwrap());
        pods.get_mut("llm-worker-3").unwrap().deleting = true;
        assert_eq!(states(&pods, None)[0], "worker-2 closed");
    }
    let finished = FinishedPods {
        attempt: 1,
        groups: vec![FinishedGroup {
            name: "worker".to_owned(),
            completed_indexes: "2".to_owned(),
            failed_indexes: String::new(),
        }],
    };
    assert_eq!(states(&pods(&[3]), Some(&finished))[0], "worker-2 n");
    assert_eq!(states(&pods(&[]), Some(&finished))[0], "worker-2 closed");
}

#[test]
fn slice_that_has_left_the_gang_is_surplus() {
    let mut awaited = awaited_none(1);
    awaited.round = 2;
    let how = AwaitedPodOptions {
        displaced: true,
        ..AwaitedPodOptions::default()
    };
    awaited.await_pods("worker", &[0, 1].into(), how);
    let mut plan = plan(6);
    plan.elastic[0].slice_starts = vec![4];
    let pods: BTreeMap<_, _> = [4, 5].map(|index| pod("worker", index)).into();
    let states = surplus_states(&sliced_run(awaited), &plan, &pods, None);
    let expected = ["worker-0 free 2", "worker-2 free 0"];
    assert_eq!(describe_states(&states), expected);
}

/// The pods of a replica group do not know how many groups the plan had.
#[test]
fn replica_groups_grow_beyond_the_replicas_of_their_plan() {
    let none = BTreeMap::new();
    let states = surplus_states(&sliced_run(awaited_none(1)), &plan(2), &none, None);
    let expected = ["worker-2 free 0", "worker-4 free 0"];
    assert_eq!(describe_states(&states), expected);
}

#[test]
fn pod_above_the_replicas_is_beyond() {
    let beyond = |index| is_beyond_replicas(&run(awaited_none(1)), &pod("worker", index).1);
    assert_eq!([1, 5, 6].map(beyond), [false, false, true]);
}
