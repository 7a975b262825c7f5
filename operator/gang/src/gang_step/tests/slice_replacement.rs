//! A running slice outside the gang replaces a slice that cannot return to its nodes.

use std::sync::Arc;

use trellis_api::job::{AwaitedGroup, AwaitedPods};
use trellis_api::pod_group::ElasticGroup;

use super::*;
use crate::AuthorizedAttempt;
use crate::fixtures::desired_run_with;
use crate::gang_step::{SliceReplacement, SurplusPods};
use crate::plan_members;

/// Returns the next step of a placed gang of the slices 0-1 and 2-3, of which pods 2 and 3 have
/// lost their nodes. The slices 4-5 and 6-7 are outside the gang.
fn next_step(pods: &BTreeMap<String, PodView>, removals: &SurplusPods) -> Step {
    next_step_of_job((8, "2-3"), &plan(), (pods, removals))
}

/// Returns the next step of a gang with this plan, in a job of so many replicas. The awaited pods
/// cannot return to their nodes.
fn next_step_of_job(
    (replicas, awaited): (u32, &str),
    plan: &Plan,
    (pods, removals): (&BTreeMap<String, PodView>, &SurplusPods),
) -> Step {
    let slices = serde_json::json!([{"level": "rack", "pods": 2}]);
    let group = serde_json::json!({"name": "worker", "replicas": replicas, "minReplicas": 4, "image": "i",
        "topology": {"slices": slices}, "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
    let job = desired_run_with(1, serde_json::json!({"taskGroups": [group]}));
    let mut run = AuthorizedAttempt::clone(job.attempt().unwrap());
    run.attempt.awaited = AwaitedPods {
        attempt: 1,
        round: 1,
        counted_round: 1,
        held_groups: Vec::new(),
        pods: vec![AwaitedGroup {
            displaced: true,
            name: "worker".to_owned(),
            indexes: awaited.to_owned(),
            round: 1,
            hurried: false,
            not_before: None,
        }],
    };
    let desired = DesiredGang::Run(Arc::new(run));
    let mut journal = journal(PodGroupPhase::Placed);
    journal.plan = Some(plan.clone());
    let mut gang = gang(&desired, &journal, pods);
    gang.members.was_placed = true;
    gang.members.surplus_removals = removals;
    gang.next_step()
}

fn plan() -> Plan {
    let mut plan = journal(PodGroupPhase::Placed).plan.unwrap();
    plan.assignments = ["node-0", "node-1", "node-2", "node-3"]
        .map(assignment_on)
        .to_vec();
    plan.elastic = vec![ElasticGroup {
        name: "worker".to_owned(),
        replicas: 8,
        slice_starts: Vec::new(),
    }];
    plan
}

/// Returns running pods of these indexes, each on a node of its own.
fn running(indexes: &[u32]) -> BTreeMap<String, PodView> {
    let pods = indexes.iter().map(|index| {
        let (_, mut view) = pod("p", "mine", PodPhase::Running);
        view.uid = format!("uid-{index}");
        view.index = *index;
        view.node = Some(format!("node-{index}"));
        (format!("llm-worker-{index}"), view)
    });
    pods.collect()
}

fn replacement(joins: u32, nodes: [&str; 2]) -> Step {
    GangStep::Special(CreatedStep::ReplaceSlice(SliceReplacement {
        group: "worker".to_owned(),
        leaving_start: 2,
        joining_start: joins,
        nodes: nodes.map(str::to_owned).to_vec(),
    }))
}

#[test]
fn first_whole_running_slice_replaces_the_lost_slice() {
    let none = SurplusPods::default();
    let joins = |indexes: &[u32]| next_step(&running(indexes), &none);
    assert_eq!(
        joins(&[0, 1, 4, 5, 6, 7]),
        replacement(4, ["node-4", "node-5"])
    );
    assert_eq!(
        joins(&[0, 1, 5, 6, 7]),
        replacement(6, ["node-6", "node-7"])
    );
    // Without such a slice, the pods are not created on their lost nodes.
    assert_eq!(joins(&[0, 1, 5, 7]), GangStep::KeepPlace(Vec::new()));
    let mut pods = running(&[0, 1, 4, 5]);
    pods.get_mut("llm-worker-5").unwrap().phase = PodPhase::Pending;
    assert_eq!(next_step(&pods, &none), GangStep::KeepPlace(Vec::new()));
    // A slice that makes room for another gang leaves first.
    let evicted = SurplusPods {
        evictions: BTreeMap::from([("uid-4".to_owned(), true), ("uid-5".to_owned(), true)]),
        ..SurplusPods::default()
    };
    let step = next_step(&running(&[0, 1, 4, 5, 6, 7]), &evicted);
    assert_eq!(describe_step(&step), "evict llm-worker-4 llm-worker-5");
}

#[test]
fn slice_that_makes_room_for_a_nominated_gang_is_no_replacement() {
    let nominated = SurplusPods {
        nominated: ["uid-4".to_owned(), "uid-5".to_owned()].into(),
        ..SurplusPods::default()
    };
    let step = next_step(&running(&[0, 1, 4, 5, 6, 7]), &nominated);
    assert_eq!(step, replacement(6, ["node-6", "node-7"]));
}

#[test]
fn slice_of_the_gang_beyond_the_replicas_stays_until_it_is_replaced() {
    let mut plan = plan();
    plan.elastic[0].slice_starts = vec![0, 6];
    let none = SurplusPods::default();
    let step = |indexes: &[u32]| next_step_of_job((6, ""), &plan, (&running(indexes), &none));
    assert_eq!(step(&[0, 1, 6, 7]), GangStep::KeepPlace(Vec::new()));
    let expected = SliceReplacement {
        group: "worker".to_owned(),
        leaving_start: 6,
        joining_start: 2,
        nodes: vec!["node-2".to_owned(), "node-3".to_owned()],
    };
    let expected = GangStep::Special(CreatedStep::ReplaceSlice(expected));
    assert_eq!(step(&[0, 1, 2, 3, 6, 7]), expected);
    // Pods outside the gang are deleted at once.
    plan.elastic[0].slice_starts = vec![0, 2];
    let step = next_step_of_job((6, ""), &plan, (&running(&[0, 1, 2, 3, 6, 7]), &none));
    assert_eq!(describe_step(&step), "delete llm-worker-6 llm-worker-7");
}

#[test]
fn plan_names_the_slices_of_the_gang_and_keeps_its_hash() {
    let before = PodGroupStatus {
        phase: Some(PodGroupPhase::Placed),
        plan: Some(plan()),
        ..PodGroupStatus::default()
    };
    let on = |joins: u32, leaves: u32| SliceReplacement {
        group: "worker".to_owned(),
        leaving_start: leaves,
        joining_start: joins,
        nodes: vec!["big".to_owned(), "big".to_owned()],
    };
    let hash = plan().hash;
    let replace = |before: &PodGroupStatus, replacement: SliceReplacement| {
        crate::journal::replace_slice(before, &hash, &replacement)
    };
    let members = |journal: &PodGroupStatus| {
        let plan = journal.plan.clone().unwrap();
        assert_eq!(plan.hash, hash);
        let members = plan_members(&plan).map(|(_, index, node)| format!("{index} {node}"));
        members.collect::<Vec<_>>()
    };
    let first = replace(&before, on(6, 0)).unwrap();
    let expected = ["6 big", "7 big", "2 node-2", "3 node-3"];
    assert_eq!(members(&first), expected);
    assert_eq!(first.plan.as_ref().unwrap().assignments.len(), 3);
    let second = replace(&first, on(0, 2)).unwrap();
    assert_eq!(members(&second), ["6 big", "7 big", "0 big", "1 big"]);
    assert_eq!(second.plan.as_ref().unwrap().assignments.len(), 1);
    // The slice that leaves is not part of the gang, or the plan has changed.
    assert_eq!(replace(&second, on(4, 2)), None);
    assert_eq!(
        crate::journal::replace_slice(&before, "another", &on(6, 0)),
        None
    );
    let unwinding = PodGroupStatus {
        phase: Some(PodGroupPhase::Unwinding),
        ..before
    };
    assert_eq!(replace(&unwinding, on(6, 0)), None);
}
