//! Tests of the simulated autoscaler with small scripts.

use std::time::Duration;

use trellis_api::job::Restart;
use trellis_scheduler::{
    Flavor, FlavorGrowth, FlavorName, FlavorQuotas, Gang, GangId, GroupName, Node, NodeName,
    NodeTemplate, ProvisioningPolicy, ProvisioningScope, Queue, QueueName, Quota, ResourceGroup,
    ResourceName, Resources, TaskGroup, Time,
};

use super::AutoscalerSettings;
use crate::runner::{
    ScriptChange, ScriptJob, SimulationOptions, SimulationRecord, SimulationScript, run_script,
    to_seconds,
};
use crate::summary::NodeSummary;

const GPU: &str = "nvidia.com/gpu";

fn at(seconds: i64) -> Time {
    Time::from_millis(seconds.saturating_mul(1_000))
}

fn offers() -> Resources {
    Resources::new().with("pods", 110).with(GPU, 8)
}

/// A flavor whose nodes have 8 GPUs and its name as the label `pool`.
fn flavor(name: &str, max_nodes: u32) -> Flavor {
    let labels: std::collections::BTreeMap<_, _> = [("pool".to_owned(), name.to_owned())].into();
    Flavor {
        node_labels: labels.clone(),
        growth: Some(FlavorGrowth {
            node: NodeTemplate {
                labels,
                taints: Vec::new(),
                allocatable: offers(),
            },
            max_nodes,
            timeout: Duration::from_secs(1_800),
            idle: Duration::from_secs(600),
            usual: None,
        }),
        ..Flavor::new(FlavorName::new(name))
    }
}

/// A gang of this many pods with this many GPUs each.
fn job(name: &str, pods: u32, gpus: i64, submitted: i64, runs: u64) -> ScriptChange {
    let request = Resources::new().with(GPU, gpus);
    let group = TaskGroup::new(GroupName::new("w"), pods, request, format!("{name}-w"));
    let gang = Gang {
        submitted: at(submitted),
        provisions: true,
        ..Gang::new(
            GangId::new(format!("team/{name}")),
            QueueName::new("q"),
            vec![group],
        )
    };
    ScriptChange::Job(Box::new(ScriptJob {
        gang,
        runtime: Some(Duration::from_secs(runs)),
        limit: None,
        gpu_hour_limits: Vec::new(),
        surplus: Vec::new(),
        restart: Restart::default(),
        prediction_key: name.to_owned(),
    }))
}

/// A queue that offers these flavors, which may get 64 nodes each.
fn script(flavors: &[&str]) -> SimulationScript {
    let mut script = SimulationScript::new();
    let quota = Quota {
        nominal: 1_000,
        ..Quota::default()
    };
    let quotas = |name: &&str| FlavorQuotas {
        flavor: FlavorName::new(*name),
        quotas: [(ResourceName::new(GPU), quota)].into(),
    };
    for name in flavors {
        script.add(at(0), ScriptChange::Flavor(flavor(name, 64)));
    }
    let queue = Queue {
        resource_groups: vec![ResourceGroup {
            flavors: flavors.iter().map(quotas).collect(),
        }],
        provisioning: ProvisioningPolicy {
            scope: ProvisioningScope::Nominal,
            after: Duration::from_secs(30),
            after_preemption: false,
        },
        ..Queue::new(QueueName::new("q"))
    };
    script.add(at(0), ScriptChange::Queue(queue));
    script
}

fn settings(flavor: &str, stock: Option<u32>) -> ScriptChange {
    let settings = AutoscalerSettings {
        stock,
        ..AutoscalerSettings::default()
    };
    ScriptChange::Autoscaler(FlavorName::new(flavor), settings)
}

/// Returns the time, event, and job or nodes of each record, and the summary of nodes.
fn run(script: SimulationScript) -> (Vec<String>, NodeSummary) {
    let mut lines = Vec::new();
    let summary = run_script(script, SimulationOptions::default(), &mut |record| {
        lines.push(match record {
            SimulationRecord::Job(job) => {
                format!("{} {} {}", to_seconds(job.t), job.event.as_str(), job.job)
            }
            SimulationRecord::Nodes(nodes) => {
                let names: Vec<&str> = nodes.nodes.iter().map(NodeName::as_str).collect();
                let event = nodes.event.as_str();
                format!("{} {event} {}", to_seconds(nodes.t), names.join(" "))
            }
        });
    });
    lines.retain(|line| !line.contains(" waiting ") && !line.contains(" reserved "));
    (lines, summary.nodes.unwrap())
}

#[test]
fn ordered_nodes_arrive_serve_the_gang_and_leave_when_idle() {
    let mut script = script(&["h100"]);
    script.add(at(0), job("a", 2, 8, 0, 100));
    let (lines, nodes) = run(script);
    assert_eq!(
        lines,
        [
            "0 waiting",
            "30 ordered team/a",
            "330 arrived h100-auto-0 h100-auto-1",
            "330 placed team/a",
            "430 finished team/a",
            "1030 removed h100-auto-0 h100-auto-1",
        ][1..]
    );
    assert_eq!(
        (nodes.orders, nodes.bought, nodes.arrived, nodes.most),
        (1, 2, 2, 2)
    );
    assert_eq!(nodes.hours, 2.0 * 700.0 / 3_600.0);
    assert_eq!(nodes.idle_hours, 2.0 * 600.0 / 3_600.0);
}

#[test]
fn order_withdrawn_before_its_nodes_arrive_buys_nothing() {
    let mut script = script(&["h100"]);
    script.add(at(0), job("a", 2, 8, 0, 100));
    script.add(at(100), ScriptChange::JobDeleted(GangId::new("team/a")));
    let (lines, nodes) = run(script);
    assert_eq!(lines, ["30 ordered team/a", "100 deleted team/a"]);
    assert_eq!((nodes.bought, nodes.arrived), (2, 0));
}

#[test]
fn small_gangs_share_the_nodes_that_are_ordered() {
    let mut script = script(&["h100"]);
    for number in 0..6 {
        script.add(at(0), job(&format!("j{number}"), 1, 4, 0, 100));
    }
    let (_, nodes) = run(script);
    assert_eq!((nodes.orders, nodes.arrived), (6, 3));
}

#[test]
fn nodes_that_exist_are_used_before_new_ones_arrive() {
    let mut script = script(&["h100"]);
    let mut node = Node::new(NodeName::new("n0"), offers());
    node.labels.insert("pool".to_owned(), "h100".to_owned());
    script.add(at(0), ScriptChange::Node(node));
    script.add(at(0), job("a", 2, 8, 0, 100));
    let (lines, nodes) = run(script);
    assert_eq!(lines[0], "30 ordered team/a");
    assert_eq!(nodes.arrived, 1);
    // The autoscaler removes only nodes that it has added.
    assert_eq!(lines.last().unwrap(), "1030 removed h100-auto-0");
}

/// The idle time of the order ends before the autoscaler removes the node that has come.
#[test]
fn gang_tries_the_next_flavor_if_only_some_nodes_come() {
    let mut script = script(&["h100", "a100"]);
    script.add(at(0), settings("h100", Some(1)));
    script.add(at(0), job("a", 2, 8, 0, 100));
    let (lines, nodes) = run(script);
    assert_eq!(
        lines,
        [
            "30 ordered team/a",
            "330 arrived h100-auto-0",
            // The first node has been idle for 600 s.
            "930 orderended team/a",
            "935 ordered team/a",
            "1235 arrived a100-auto-0 a100-auto-1",
            "1235 placed team/a",
            "1335 finished team/a",
            "1530 removed h100-auto-0",
            "1935 removed a100-auto-0 a100-auto-1",
        ]
    );
    assert_eq!((nodes.orders, nodes.failed_orders), (2, 1));
}

/// Without any node an order lasts for its whole time, and the back-off doubles.
#[test]
fn order_without_stock_fails_and_is_repeated_after_a_back_off() {
    let mut script = script(&["h100"]);
    script.add(at(0), settings("h100", Some(0)));
    script.add(at(0), job("a", 2, 8, 0, 100));
    script.add(at(3_800), ScriptChange::JobDeleted(GangId::new("team/a")));
    let (lines, nodes) = run(script);
    assert_eq!(
        lines,
        [
            "30 ordered team/a",
            "1830 orderended team/a",
            "1890 ordered team/a",
            "3690 orderended team/a",
            "3800 deleted team/a",
        ]
    );
    assert_eq!((nodes.bought, nodes.failed_orders), (0, 2));
}

#[test]
fn simulation_ends_although_an_order_is_never_filled() {
    let mut script = script(&["h100"]);
    script.add(at(0), settings("h100", Some(0)));
    script.add(at(0), job("a", 2, 8, 0, 100));
    let (lines, nodes) = run(script);
    let last = lines.last().unwrap();
    let (seconds, _) = last.split_once(' ').unwrap();
    let days = seconds.parse::<f64>().unwrap() / 86_400.0;
    assert!((2.0..=3.0).contains(&days), "{last}");
    assert!(nodes.failed_orders > 50, "{nodes:?}");
}

#[test]
fn idle_node_stays_while_an_order_needs_it() {
    let mut script = script(&["h100"]);
    let slow = AutoscalerSettings {
        arrive_after: (Duration::from_secs(10), Duration::from_secs(500)),
        remove_idle_after: Duration::from_secs(60),
        stock: None,
    };
    script.add(
        at(0),
        ScriptChange::Autoscaler(FlavorName::new("h100"), slow),
    );
    script.add(at(0), job("a", 8, 8, 0, 100));
    let (lines, nodes) = run(script);
    let first = lines.iter().find(|line| line.contains("arrived")).unwrap();
    let placed = lines.iter().find(|line| line.contains("placed")).unwrap();
    let seconds = |line: &str| line.split(' ').next().unwrap().parse::<f64>().unwrap();
    assert!(seconds(placed) > seconds(first) + 60.0, "{lines:?}");
    assert_eq!(nodes.arrived, 8, "{lines:?}");
}
