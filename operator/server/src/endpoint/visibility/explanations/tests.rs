//! Jobs of an engine that wait for different reasons.

use std::time::Duration;

use trellis_api::visibility::{GangName, RequestChange};
use trellis_scheduler::{
    Flavor, FlavorGrowth, FlavorName, FlavorQuotas, GroupName, Node, NodeTemplate, Placement,
    PreemptionPolicy, ProvisioningPolicy, ProvisioningScope, Queue, QueueName, Quota,
    ResourceGroup, Resources, TaskGroup, Time, Topology, TopologyLevel, TopologyName,
    TopologyRequest, WithinQueuePolicy,
};

use super::*;

const GPU: &str = "nvidia.com/gpu";

fn gang(name: &str, queue: &str, pods: u32, gpus: i64, priority: i32) -> Gang {
    let request = Resources::new().with(GPU, gpus);
    let prefix = name.rsplit('/').next().unwrap().to_owned() + "-w";
    let group = TaskGroup::new(GroupName::new("w"), pods, request, prefix);
    Gang {
        priority,
        ..Gang::new(GangId::new(name), QueueName::new(queue), vec![group])
    }
}

/// Three nodes of 8 GPUs, of which one is cordoned; `a/runs` holds 12 of the 16.
fn engine() -> Engine {
    engine_of(gang("a/runs", "strong", 2, 6, 0))
}

fn engine_of(runs: Gang) -> Engine {
    let mut engine = Engine::new();
    for name in ["n0", "n1", "off"] {
        let offers = Resources::new().with(GPU, 8).with("pods", 110);
        let mut node = Node::new(NodeName::new(name), offers);
        node.unschedulable = name == "off";
        engine.apply_node(node);
    }
    engine.apply_queue(Queue::new(QueueName::new("free")));
    engine.apply_queue(Queue {
        preemption: PreemptionPolicy {
            within_queue: WithinQueuePolicy::LowerPriority,
            ..PreemptionPolicy::default()
        },
        ..Queue::new(QueueName::new("strong"))
    });
    let quota = Quota {
        nominal: 2,
        borrowing_limit: None,
        lending_limit: None,
    };
    let small = Queue::new(QueueName::new("small"));
    engine.apply_queue(small.with_quotas([(ResourceName::new(GPU), quota)]));
    engine.apply_gang(runs);
    engine.cycle(Time::from_millis(0));
    engine
}

fn explain(engine: &Engine, name: &str) -> Option<Explanation> {
    explain_with_report(engine, name, None, None)
}

/// Explains a gang with the recorded explanation `recorded`, and the autoscaler's message
/// `order_delay`.
fn explain_with_report(
    engine: &Engine,
    name: &str,
    recorded: Option<GangExplanation>,
    order_delay: Option<&str>,
) -> Option<Explanation> {
    let snapshot = engine.snapshot();
    let forecast = Forecast::from_snapshot(&snapshot, |_| true);
    let (namespace, name) = name.split_once('/').unwrap();
    let gang = external::gang_key_from_name(namespace, &GangName::from_object_name(name));
    let beside = ExplanationSources {
        snapshot: &snapshot,
        positions: &snapshot.positions(),
        forecast: Some(&forecast),
        job: None,
        external_gang: None,
        pod_group: None,
        recorded,
        order_delay: order_delay.map(str::to_owned),
        classes: &[],
        nodes: &Vec::new,
    };
    Explainer::new(&snapshot).explain(&gang, &beside)
}

fn text(quantity: &Option<trellis_api::Quantity>) -> &str {
    quantity.as_ref().map_or("", |quantity| quantity.as_str())
}

#[test]
fn explanation_shows_missing_amounts_and_each_nodes_state() {
    let mut engine = engine();
    engine.apply_gang(gang("b/waits", "free", 2, 4, 0));
    engine.cycle(Time::from_millis(1_000));
    let explanation = explain(&engine, "b/waits").unwrap();
    assert_eq!(explanation.reason, Some(Reason::InsufficientCapacity));
    assert_eq!(
        (explanation.position, explanation.queue.as_str()),
        (Some(1), "free")
    );
    let lacks = explanation.shortage.as_ref().unwrap();
    let numbers = [
        &lacks.needs,
        &lacks.free,
        &lacks.missing,
        &lacks.held_by_jobs,
    ];
    assert_eq!(numbers.map(text), ["8", "4", "4", "12"]);
    assert_eq!(
        (lacks.nodes, lacks.resource.as_deref()),
        (Some(2), Some(GPU))
    );
    assert!(
        explanation.message.contains("4 are missing"),
        "{}",
        explanation.message
    );

    let [group] = explanation.task_groups.as_slice() else {
        panic!("{explanation:?}")
    };
    assert_eq!((group.nodes, group.matching, group.room), (3, 2, 0));
    let excluded = group.excluded.first().unwrap();
    assert_eq!(
        (excluded.constraint.as_str(), excluded.count),
        ("SchedulingDisabled", 1)
    );
    assert_eq!(excluded.nodes, ["off"]);
    let candidates: Vec<_> = group
        .candidates
        .iter()
        .map(|c| (c.node.as_str(), c.room, c.free[0].amount.as_str()))
        .collect();
    assert_eq!(candidates, [("n0", 0, "2"), ("n1", 0, "2")]);
    let change = explanation.smallest_change.as_ref().unwrap();
    let freed: Vec<_> = change
        .free
        .iter()
        .map(|on| (on.node.as_str(), on.amounts[0].amount.as_str()))
        .collect();
    assert_eq!(freed, [("n0", "2"), ("n1", "2")]);
    for on in &change.free {
        let holders = on.held_by.iter();
        let holders: Vec<_> = holders
            .map(|holder| (holder.job.to_string(), holder.amounts[0].amount.as_str()))
            .collect();
        assert_eq!(holders, [("a/runs".to_owned(), "6")], "{on:?}");
    }
    assert_eq!(
        explanation.expected_start, None,
        "the end of a/runs is unknown"
    );
    // A client can parse the explanation.
    let written = serde_json::to_value(&explanation).unwrap();
    assert_eq!(
        serde_json::from_value::<Explanation>(written).unwrap(),
        explanation
    );
    let cells = explanation.cells(Timestamp::UNIX_EPOCH);
    assert_eq!(cells.len(), Explanation::COLUMNS.len());
    assert!(cells.iter().all(Value::is_string), "{cells:?}");
}

/// Victims have the same names in explanations as in the list.
#[test]
fn external_pods_are_explained_by_their_served_names() {
    let mut engine = engine_of(gang("a/PodGroup/runs", "strong", 2, 6, 0));
    engine.apply_gang(gang("b/Pod/first", "strong", 2, 4, 5));
    let explanation = explain(&engine, "b/pod.first").unwrap();
    assert_eq!(explanation.metadata.name.as_deref(), Some("pod.first"));
    let [victim] = explanation.preempts.as_slice() else {
        panic!("{explanation:?}")
    };
    assert_eq!(victim.job.name, "podgroup.runs");
    assert_eq!(victim.job.to_string(), "a/PodGroup/runs");
    // The priorities are found by these names.
    let by_job = priorities(named_jobs(&explanation), &engine.snapshot());
    assert_eq!(by_job.get(&victim.job), Some(&0), "{by_job:?}");
}

/// Each of two nodes has four of eight GPUs free, and the job needs eight on one node.
#[test]
fn job_with_room_on_another_node_is_named_if_free_capacity_is_fragmented() {
    let mut engine = engine_of(gang("a/small", "strong", 1, 4, 0));
    let mut placement = Placement::new();
    placement.push(GroupName::new("w"), vec![(NodeName::new("n1"), 1)]);
    let since = Time::from_millis(60_000);
    engine.cycle(since);
    engine.restore_gang(gang("a/large", "strong", 1, 4, 0), placement, since);
    engine.apply_gang(gang("b/next", "strong", 1, 8, 0));
    engine.cycle(Time::from_millis(90_000));
    let explanation = explain(&engine, "b/next").unwrap();
    assert_eq!(
        explanation.reason,
        Some(Reason::Fragmented),
        "{explanation:?}"
    );
    let [step] = explanation.moves.as_slice() else {
        panic!("{explanation:?}")
    };
    assert_eq!(step.job.to_string(), "a/large");
    assert_eq!(step.nodes, ["n0"]);
    assert_eq!(step.lost_device_seconds, 4 * 30);
}

/// Each of two racks has one free node, and the job needs two nodes of one rack.
#[test]
fn weaker_topology_request_is_named_if_the_job_would_start_with_it() {
    let mut engine = Engine::new();
    for name in ["n0", "n1"] {
        let offers = Resources::new().with(GPU, 8).with("pods", 110);
        let mut node = Node::new(NodeName::new(name), offers);
        node.labels.insert("rack".to_owned(), name.to_owned());
        engine.apply_node(node);
    }
    engine.apply_topology(Topology {
        name: TopologyName::new("network"),
        levels: vec![TopologyLevel::from_label("rack")],
    });
    engine.apply_queue(Queue::new(QueueName::new("free")));
    let required = |name: &str| Gang {
        topology: Some(TopologyRequest::required("rack")),
        ..gang(name, "free", 2, 8, 0)
    };
    engine.apply_gang(required("a/job"));
    engine.apply_gang(required("a/PodGroup/pods"));
    engine.cycle(Time::from_millis(0));
    for name in ["a/job", "a/podgroup.pods"] {
        let explanation = explain(&engine, name).unwrap();
        let change = RequestChange {
            field: "spec.topology".to_owned(),
            value: "{preferred: rack}".to_owned(),
        };
        assert_eq!(explanation.request_changes, [change], "{explanation:?}");
    }
}

#[test]
fn too_small_quota_is_explained_with_the_needed_raise() {
    let mut engine = engine();
    engine.apply_gang(gang("b/large", "small", 1, 3, 0));
    engine.cycle(Time::from_millis(1_000));
    let explanation = explain(&engine, "b/large").unwrap();
    assert_eq!(explanation.reason, Some(Reason::ExceedsQuota));
    let lacks = explanation.shortage.as_ref().unwrap();
    assert_eq!(lacks.queue.as_deref(), Some("small"));
    assert_eq!((text(&lacks.needs), text(&lacks.most)), ("3", "2"));
    let raised = &explanation.smallest_change.as_ref().unwrap().raise_quotas[0];
    assert_eq!(
        (raised.field.as_str(), raised.by.as_str()),
        ("nominalQuota", "1")
    );
}

/// The gang has a possible victim, which is still protected.
#[test]
fn protected_victim_is_explained_with_the_end_of_protection() {
    let mut engine = engine_of(Gang {
        min_runtime: std::time::Duration::from_mins(15),
        ..gang("a/runs", "strong", 2, 6, 0)
    });
    engine.apply_gang(gang("b/first", "strong", 2, 4, 5));
    engine.cycle(Time::from_millis(1_000));
    let explanation = explain(&engine, "b/first").unwrap();
    assert_eq!(
        explanation.reason,
        Some(Reason::InsufficientCapacity),
        "{explanation:?}"
    );
    assert!(explanation.preempts.is_empty());
    let [safe] = explanation.protected.as_slice() else {
        panic!("{explanation:?}")
    };
    assert_eq!(safe.job.as_ref().unwrap().name, "runs");
    assert_eq!(safe.until.0.as_second(), 15 * 60);
}

#[test]
fn explanation_names_the_victims() {
    let mut engine = engine();
    engine.apply_gang(gang("b/first", "strong", 2, 4, 5));
    // No cycle has looked at the gang yet.
    let explanation = explain(&engine, "b/first").unwrap();
    assert_eq!(explanation.reason, None, "{explanation:?}");
    let [victim] = explanation.preempts.as_slice() else {
        panic!("{explanation:?}")
    };
    assert_eq!(
        (victim.job.namespace.as_str(), victim.job.name.as_str()),
        ("a", "runs")
    );
    assert!(victim.because.is_some());
    // Once the engine has decided, the gang's journal names the victims.
    engine.cycle(Time::from_millis(1_000));
    let explanation = explain(&engine, "b/first").unwrap();
    assert_eq!(explanation.position, None);
    assert!(
        explanation.message.contains("make room"),
        "{}",
        explanation.message
    );
}

#[test]
fn running_job_has_no_explanation() {
    let engine = engine();
    assert_eq!(explain(&engine, "a/runs"), None);
    assert_eq!(explain(&engine, "a/nobody"), None);
}

/// Returns an engine in which the gang `a/w` waits for a new node.
fn engine_with_order() -> Engine {
    let mut engine = Engine::new();
    let allocatable = Resources::new().with(GPU, 8).with("pods", 110);
    let flavor = FlavorName::new("h100");
    engine.apply_flavor(Flavor {
        growth: Some(FlavorGrowth {
            node: NodeTemplate {
                labels: BTreeMap::new(),
                taints: Vec::new(),
                allocatable,
            },
            max_nodes: 4,
            timeout: Duration::from_secs(600),
            idle: Duration::from_secs(600),
            usual: None,
        }),
        ..Flavor::new(flavor.clone())
    });
    let nominal = |resource: &str| {
        let quota = Quota {
            nominal: 100,
            ..Quota::default()
        };
        (ResourceName::new(resource), quota)
    };
    let quotas = [GPU, "pods"].map(nominal).into();
    engine.apply_queue(Queue {
        resource_groups: vec![ResourceGroup {
            flavors: vec![FlavorQuotas { flavor, quotas }],
        }],
        provisioning: ProvisioningPolicy {
            scope: ProvisioningScope::Nominal,
            ..ProvisioningPolicy::default()
        },
        ..Queue::new(QueueName::new("growing"))
    });
    engine.apply_gang(Gang {
        provisions: true,
        ..gang("a/w", "growing", 1, 8, 0)
    });
    engine.cycle(Time::from_millis(0));
    engine
}

#[test]
fn explanation_of_an_order_has_the_autoscaler_message_or_the_failure() {
    let engine = engine_with_order();
    let plain = explain(&engine, "a/w").unwrap();
    assert_eq!(plain.reason, Some(Reason::Provisioning));

    let delayed = explain_with_report(&engine, "a/w", None, Some("no capacity")).unwrap();
    assert_eq!(delayed.reason, Some(Reason::Provisioning));
    let expected = format!("{}; the autoscaler says: no capacity", plain.message);
    assert_eq!(delayed.message, expected);

    let message = "the cluster has no kind ProvisioningRequest".to_owned();
    let failure = GangExplanation::waiting(Reason::BackingOff, message.clone());
    let failed = explain_with_report(&engine, "a/w", Some(failure), None).unwrap();
    assert_eq!(failed.reason, Some(Reason::BackingOff));
    assert_eq!(failed.message, message);
}
