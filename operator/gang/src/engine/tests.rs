use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use trellis_api::PodGroup;
use trellis_scheduler::{
    BorrowWithinPolicy, FairShareVictims, FlavorName, FlavorPolicy, Gang, GroupFlavors, GroupName,
    Placement, PlacementStrategy, PreemptionPolicy, QueueStop, ReclaimPolicy, ResourceName,
    SliceLayer, TaskGroup, TolerationOperator, TopologyRequest, WithinQueuePolicy,
};

use super::*;
use crate::fixtures::{desired_run, desired_run_with};
use crate::journal;
use crate::key::Key;
use crate::requirements::flavors::{FlavorTolerations, GangPlacement};

/// Returns the gang of the job "team-a/llm" with these additional spec fields, from the job and
/// from its PodGroup.
fn gangs_from_job_and_pod_group(more: Value) -> (Gang, Gang) {
    let desired = desired_run_with(1, more);
    let job = desired.attempt().unwrap().job.compiled();
    let key = Key::new("team-a", "llm");
    (
        gang_from_job(job, &AttemptState::default(), &BTreeMap::new()),
        gang_from_pod_group(&key, &job.pod_group()),
    )
}

#[test]
fn pod_group_gang_is_charged_like_its_job_gang() {
    let (from_job, from_pod_group) = gangs_from_job_and_pod_group(json!({}));
    assert_eq!(
        (
            &from_pod_group.id,
            &from_pod_group.queue,
            from_pod_group.priority
        ),
        (&from_job.id, &from_job.queue, from_job.priority)
    );
    let charged_fields = |gang: &Gang| -> Vec<_> {
        let group_fields = |g: &TaskGroup| {
            (
                g.name.clone(),
                g.count,
                g.request.clone(),
                g.pod_prefix.clone(),
            )
        };
        gang.groups.iter().map(group_fields).collect()
    };
    assert_eq!(charged_fields(&from_pod_group), charged_fields(&from_job));
}

#[test]
fn placed_gang_keeps_the_queue_and_priority_of_its_plan() {
    let desired = desired_run(1);
    let mut group = desired.attempt().unwrap().job.compiled().pod_group();
    let key = Key::new("team-a", "llm");
    group.spec.queue_name = "edited".to_owned();
    group.spec.priority = Some(9);
    let queue_and_priority = |group: &PodGroup| {
        let gang = gang_from_pod_group(&key, group);
        (gang.queue.as_str().to_owned(), gang.priority)
    };
    assert_eq!(queue_and_priority(&group), ("edited".to_owned(), 9));
    group.status = Some(trellis_api::pod_group::PodGroupStatus {
        plan: Some(trellis_api::pod_group::Plan {
            queue: Some("default".to_owned()),
            priority: Some(3),
            ..Default::default()
        }),
        ..Default::default()
    });
    assert_eq!(queue_and_priority(&group), ("default".to_owned(), 3));
}

#[test]
fn job_with_defaults_is_packed_and_preemptible_at_once() {
    let (gang, from_pod_group) =
        gangs_from_job_and_pod_group(json!({"deadlines": {"queueSeconds": 1}}));
    assert_eq!(gang.strategy, PlacementStrategy::Pack);
    assert_eq!((&gang.topology, &gang.groups[0].topology), (&None, &None));
    assert_eq!((gang.preemptible, gang.min_runtime), (true, Duration::ZERO));
    assert_eq!((gang.runtime, gang.grace), (None, Duration::from_secs(30)));
    assert_eq!(
        (from_pod_group.preemptible, from_pod_group.min_runtime),
        (true, Duration::ZERO)
    );
}

#[test]
fn placement_fields_reach_the_engine_and_the_pod_group() {
    let (gang, from_pod_group) = gangs_from_job_and_pod_group(json!({
        "placement": "Spread", "preemptibility": "ProtectedWithinQuota", "minRuntimeSeconds": 600,
        "topology": {"required": "example.com/block"},
        "taskGroups": [{"name": "worker", "image": "train:1", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
            "replicas": 24,
            "topology": {"required": "example.com/block", "preferred": "example.com/rack",
                "slices": [{"level": "example.com/rack", "pods": 12}, {"level": "example.com/clique", "atMost": 5}]}}],
    }));
    assert_eq!(gang.strategy, PlacementStrategy::Spread);
    for gang in [gang, from_pod_group] {
        assert_eq!(
            gang.topology,
            Some(TopologyRequest::required("example.com/block"))
        );
        assert_eq!(
            gang.groups[0].topology,
            Some(TopologyRequest::required_and_preferred(
                "example.com/block",
                "example.com/rack"
            ))
        );
        let slices = [("example.com/rack", 12), ("example.com/clique", 4)];
        let slices = slices.map(|(level, pods)| SliceLayer::new(level, pods));
        assert_eq!(gang.groups[0].slices, slices);
        assert_eq!(
            (gang.preemptible, gang.min_runtime, gang.grace),
            (false, Duration::from_secs(600), Duration::from_secs(30))
        );
    }
}

#[test]
fn slices_of_a_job_merge_the_groups_of_its_world() {
    let group = |name: &str, role: &str, replicas: u32| {
        json!({"name": name, "role": role, "replicas": replicas, "image": "train:1", "gpus": 8,
            "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}})
    };
    let groups = json!([
        group("worker", "Worker", 7),
        group("evaluator", "Evaluator", 1),
        group("master", "Coordinator", 1),
    ]);
    let gang = |topology: Value| {
        let (gang, from_pod_group) = gangs_from_job_and_pod_group(json!({"framework": "PyTorch",
            "topology": topology, "taskGroups": groups}));
        // A nomination of the gang outlives a change of the leader.
        let places = |gang: &Gang| -> Vec<_> {
            let groups = gang.groups.iter().map(|group| {
                let topology = (group.topology.clone(), group.balanced, group.slices.clone());
                (
                    group.name.clone(),
                    group.count,
                    group.parts.clone(),
                    topology,
                )
            });
            groups.collect()
        };
        let by_name = |gang: &Gang| {
            let mut places = places(gang);
            places.sort_by(|one, other| one.0.cmp(&other.0));
            places
        };
        assert_eq!(by_name(&gang), by_name(&from_pod_group));
        gang
    };
    let names = |gang: &Gang| -> Vec<String> {
        gang.groups
            .iter()
            .map(|group| group.name.to_string())
            .collect()
    };
    let split = gang(json!({"required": "block", "slices": [{"level": "rack", "pods": 4}]}));
    // The master has rank 0.
    assert_eq!(names(&split), ["master+worker", "evaluator"]);
    let merged = &split.groups[0];
    assert_eq!(merged.count, 8);
    assert_eq!(merged.slices, [SliceLayer::new("rack", 4)]);
    assert_eq!(merged.topology, None);
    assert_eq!(split.topology, Some(TopologyRequest::required("block")));
    let pods: Vec<String> = split.pod_keys().map(|pod| pod.to_string()).collect();
    assert_eq!(pods[0], "team-a/llm-master-0");
    assert_eq!(pods[1], "team-a/llm-worker-0");
    let even = gang(json!({"preferred": "rack", "balanced": true}));
    assert_eq!(names(&even), ["master+worker", "evaluator"]);
    assert!(even.groups[0].balanced);
    assert_eq!(
        even.groups[0].topology,
        Some(TopologyRequest::preferred("rack"))
    );
    let whole = gang(json!({"required": "block"}));
    assert_eq!(names(&whole), ["worker", "evaluator", "master"]);
}

#[test]
fn gang_runtime_includes_startup_and_grace_period() {
    let runtime = |deadlines: Value| {
        gangs_from_job_and_pod_group(json!({"deadlines": deadlines}))
            .0
            .runtime
    };
    let seconds = |s| Some(Duration::from_secs(s));
    assert_eq!(runtime(json!({"startupSeconds": 60})), None);
    assert_eq!(
        runtime(json!({"activeSeconds": 100})),
        seconds(1800 + 100 + 30)
    );
    assert_eq!(
        runtime(json!({"activeSeconds": 100, "startupSeconds": 60})),
        seconds(60 + 100 + 30)
    );
    let spec =
        json!({"checkpoint": {"gracePeriodSeconds": 300}, "deadlines": {"activeSeconds": 100}});
    let (gang, from_pod_group) = gangs_from_job_and_pod_group(spec);
    assert_eq!(gang.runtime, seconds(1800 + 100 + 300));
    assert_eq!(
        (Some(gang.grace), Some(from_pod_group.grace)),
        (seconds(300), seconds(300))
    );
}

#[test]
fn plan_records_flavors_and_includes_them_in_its_hash() {
    let desired = desired_run(1);
    let run = desired.attempt().unwrap();
    let flavors = vec![GroupFlavors {
        group: GroupName::new("worker"),
        flavors: [("cpu", "own"), ("nvidia.com/gpu", "spot")]
            .map(|(r, f)| (ResourceName::new(r), FlavorName::new(f)))
            .into(),
    }];
    let place = GangPlacement {
        placement: Placement::new(),
        groups: FlavorTolerations::default().plan_groups(&flavors),
        limits: Vec::new(),
        requester: None,
        quota_version: 0,
    };
    let plan = journal::build_plan(run, &place, Timestamp::UNIX_EPOCH);
    assert_eq!(flavors_from_groups(&plan.groups), flavors);
    let without_flavors =
        journal::build_plan(run, &GangPlacement::default(), Timestamp::UNIX_EPOCH);
    assert_ne!(plan.hash, without_flavors.hash);
}

#[test]
fn queue_spec_converts_preemption_and_backfill_settings() {
    let convert = |spec: Value| to_engine_queue("q", &serde_json::from_value(spec).unwrap());
    let default = convert(json!({}));
    assert_eq!(default.preemption, PreemptionPolicy::default());
    assert!(default.backfill);
    assert_eq!(
        (default.default_runtime, default.max_min_runtime),
        (None, None)
    );
    let custom = convert(json!({
        "preemption": {"withinClusterQueue": "LowerOrNewerEqualPriority", "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 7}},
        "backfillPolicy": "Never", "defaultRuntimeSeconds": 60, "maxMinRuntimeSeconds": 5, "stopPolicy": "HoldAndDrain",
    }));
    let expected = PreemptionPolicy {
        within_queue: WithinQueuePolicy::LowerOrNewerEqualPriority,
        reclaim: ReclaimPolicy::Any,
        borrow_within: BorrowWithinPolicy::LowerPriority {
            max_priority: Some(7),
        },
    };
    assert_eq!(custom.preemption, expected);
    assert_eq!(
        (custom.backfill, custom.stop),
        (false, QueueStop::HoldAndDrain)
    );
    let shared = convert(json!({
        "priority": -2,
        "preemption": {"fairShare": "LowerOrEqualPriority"},
        "flavorPolicy": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "Preempt"},
    }));
    let victims = FairShareVictims::LowerOrEqualPriority;
    assert_eq!(
        shared.preemption.borrow_within,
        BorrowWithinPolicy::FairShare(victims)
    );
    assert_eq!((default.priority, shared.priority), (0, -2));
    let policy = FlavorPolicy {
        avoids_borrowing: true,
        prefers_preemption: true,
    };
    assert_eq!(
        (default.flavor_policy, shared.flavor_policy),
        (FlavorPolicy::default(), policy)
    );
    assert_eq!(custom.default_runtime, Some(Duration::from_secs(60)));
    assert_eq!(custom.max_min_runtime, Some(Duration::from_secs(5)));
}

#[test]
fn flavor_converts_tolerations_and_topology_converts_levels() {
    let spec = json!({"tolerations": [{"key": "spot", "operator": "Exists"}]});
    let flavor = to_engine_flavor("spot", &serde_json::from_value(spec).unwrap());
    let [toleration] = &flavor.tolerations[..] else {
        panic!("{flavor:?}");
    };
    assert_eq!(toleration.key.as_deref(), Some("spot"));
    assert_eq!(toleration.operator, TolerationOperator::Exists);
    assert_eq!(toleration.effect, None);
    let spec = json!({"levels": [{"name": "block", "nodeLabel": "example.com/block"}, {"nodeLabel": "rack"}]});
    let topology = to_engine_topology("fabric", &serde_json::from_value(spec).unwrap());
    assert_eq!(topology.name.as_str(), "fabric");
    let levels = topology.levels.iter();
    let levels: Vec<_> = levels
        .map(|l| (l.name.as_str(), l.node_label.as_str()))
        .collect();
    assert_eq!(levels, [("block", "example.com/block"), ("rack", "rack")]);
}
