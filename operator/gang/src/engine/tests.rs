use serde_json::{Value, json};
use trellis_scheduler::{
    BorrowWithin, GroupFlavors, Placement, Preemption, Reclaim, Stop, TolerationOperator,
    WithinQueue,
};

use super::*;
use crate::fixtures::{run, run_with};
use crate::flavors::{Flavors, Place};
use crate::journal;

/// The gang of the job "team-a/llm" with these additional spec fields, from the job and from its
/// PodGroup.
fn gangs(more: Value) -> (Gang, Gang) {
    let wish = run_with(1, more);
    let job = wish.run().unwrap().job.compiled();
    let key = Key::new("team-a", "llm");
    (
        gang(job, &Ticket::default(), &BTreeMap::new()),
        of_pod_group(&key, &job.pod_group()),
    )
}

#[test]
fn a_pod_group_says_all_that_a_place_is_charged_by() {
    let (whole, told) = gangs(json!({}));
    assert_eq!(
        (&told.id, &told.queue, told.priority),
        (&whole.id, &whole.queue, whole.priority)
    );
    let charged = |gang: &Gang| -> Vec<_> {
        let of = |g: &TaskGroup| {
            (
                g.name.clone(),
                g.count,
                g.request.clone(),
                g.pod_prefix.clone(),
            )
        };
        gang.groups.iter().map(of).collect()
    };
    assert_eq!(charged(&told), charged(&whole));
}

#[test]
fn a_place_is_charged_to_the_queue_and_priority_that_it_was_had_with() {
    let wish = crate::fixtures::run(1);
    let mut group = wish.run().unwrap().job.compiled().pod_group();
    let key = Key::new("team-a", "llm");
    group.spec.queue_name = "edited".to_owned();
    group.spec.priority = Some(9);
    let told = |group: &PodGroup| {
        let gang = of_pod_group(&key, group);
        (gang.queue.as_str().to_owned(), gang.priority)
    };
    assert_eq!(told(&group), ("edited".to_owned(), 9));
    group.status = Some(trellis_api::pod_group::PodGroupStatus {
        plan: Some(trellis_api::pod_group::Plan {
            queue: Some("default".to_owned()),
            priority: Some(3),
            ..Default::default()
        }),
        ..Default::default()
    });
    assert_eq!(told(&group), ("default".to_owned(), 3));
}

#[test]
fn a_job_that_says_nothing_is_packed_anywhere_and_may_be_preempted_at_once() {
    let (gang, told) = gangs(json!({"deadlines": {"queueSeconds": 1}}));
    assert_eq!(gang.strategy, Strategy::Pack);
    assert_eq!((&gang.topology, &gang.groups[0].topology), (&None, &None));
    assert_eq!((gang.preemptible, gang.min_runtime), (true, Duration::ZERO));
    assert_eq!((gang.runtime, gang.grace), (None, Duration::from_secs(30)));
    assert_eq!((told.preemptible, told.min_runtime), (true, Duration::ZERO));
}

#[test]
fn what_a_job_says_of_its_place_is_told_the_engine_and_stands_in_its_pod_group() {
    let (gang, told) = gangs(json!({
        "placement": "Spread", "preemptibility": "ProtectedWithinQuota", "minRuntimeSeconds": 600,
        "topology": {"required": "example.com/block"},
        "taskGroups": [{"name": "worker", "image": "train:1", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
            "topology": {"required": "example.com/block", "preferred": "example.com/rack"}}],
    }));
    assert_eq!(gang.strategy, Strategy::Spread);
    for gang in [gang, told] {
        assert_eq!(
            gang.topology,
            Some(TopologyRequest::required("example.com/block"))
        );
        assert_eq!(
            gang.groups[0].topology,
            Some(TopologyRequest::within(
                "example.com/block",
                "example.com/rack"
            ))
        );
        let safe = (gang.preemptible, gang.min_runtime, gang.grace);
        assert_eq!(
            safe,
            (false, Duration::from_secs(600), Duration::from_secs(30))
        );
    }
}

#[test]
fn a_gang_holds_its_place_while_it_starts_runs_and_stops() {
    let runtime = |deadlines: Value| gangs(json!({"deadlines": deadlines})).0.runtime;
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
    let (gang, told) = gangs(spec);
    assert_eq!(gang.runtime, seconds(1800 + 100 + 300));
    assert_eq!(
        (Some(gang.grace), Some(told.grace)),
        (seconds(300), seconds(300))
    );
}

#[test]
fn a_plan_says_the_flavors_of_its_place_and_its_hash_is_of_them_too() {
    let wish = run(1);
    let run = wish.run().unwrap();
    let given = vec![GroupFlavors {
        group: GroupName::new("worker"),
        flavors: [("cpu", "own"), ("nvidia.com/gpu", "spot")]
            .map(|(r, f)| (ResourceName::new(r), FlavorName::new(f)))
            .into(),
    }];
    let place = Place {
        placement: Placement::new(),
        groups: Flavors::default().planned(&given),
        limits: Vec::new(),
        requester: None,
        quotas: 0,
    };
    let plan = journal::plan(run, &place, Timestamp::UNIX_EPOCH);
    assert_eq!(flavors(&plan), given);
    let without = journal::plan(run, &Place::default(), Timestamp::UNIX_EPOCH);
    assert_ne!(plan.hash, without.hash);
}

#[test]
fn a_queue_says_whom_it_preempts_and_what_backfill_plans_with() {
    let of = |spec: Value| queue("q", &serde_json::from_value(spec).unwrap());
    let quiet = of(json!({}));
    assert_eq!(quiet.preemption, Preemption::default());
    assert!(quiet.backfill);
    assert_eq!((quiet.default_runtime, quiet.max_min_runtime), (None, None));
    let loud = of(json!({
        "preemption": {"withinClusterQueue": "LowerOrNewerEqualPriority", "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 7}},
        "backfillPolicy": "Never", "defaultRuntimeSeconds": 60, "maxMinRuntimeSeconds": 5, "stopPolicy": "HoldAndDrain",
    }));
    let expected = Preemption {
        within_queue: WithinQueue::LowerOrNewerEqualPriority,
        reclaim: Reclaim::Any,
        borrow_within: BorrowWithin::LowerPriority {
            max_priority: Some(7),
        },
    };
    assert_eq!(loud.preemption, expected);
    assert_eq!((loud.backfill, loud.stop), (false, Stop::HoldAndDrain));
    assert_eq!(loud.default_runtime, Some(Duration::from_secs(60)));
    assert_eq!(loud.max_min_runtime, Some(Duration::from_secs(5)));
}

#[test]
fn a_flavor_brings_its_tolerations_and_a_topology_its_levels() {
    let spec = json!({"tolerations": [{"key": "spot", "operator": "Exists"}]});
    let flavor = flavor("spot", &serde_json::from_value(spec).unwrap());
    let [toleration] = &flavor.tolerations[..] else {
        panic!("{flavor:?}");
    };
    assert_eq!(toleration.key.as_deref(), Some("spot"));
    assert_eq!(toleration.operator, TolerationOperator::Exists);
    assert_eq!(toleration.effect, None);
    let spec = json!({"levels": [{"name": "block", "nodeLabel": "example.com/block"}, {"nodeLabel": "rack"}]});
    let topology = topology("fabric", &serde_json::from_value(spec).unwrap());
    assert_eq!(topology.name.as_str(), "fabric");
    let levels = topology.levels.iter();
    let levels: Vec<_> = levels
        .map(|l| (l.name.as_str(), l.node_label.as_str()))
        .collect();
    assert_eq!(levels, [("block", "example.com/block"), ("rack", "rack")]);
}
