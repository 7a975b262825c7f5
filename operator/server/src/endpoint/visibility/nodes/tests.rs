//! Rows of nodes from a busy engine.

use trellis_scheduler::{
    Engine, Gang, GangId, GroupName, PodKey, Queue, QueueName, Resources, TaskGroup, Time,
    Topology, TopologyLevel, TopologyName,
};

use super::*;

const GPU: &str = "nvidia.com/gpu";
const RACK: &str = "example.com/rack";

fn gang(name: &str, pods: u32, gpus: i64) -> Gang {
    let request = Resources::new().with(GPU, gpus).with("cpu", 1_000);
    let prefix = name.rsplit('/').next().unwrap().to_owned() + "-w";
    let group = TaskGroup::new(GroupName::new("w"), pods, request, prefix);
    Gang {
        submitted: Time::from_millis(1),
        ..Gang::new(GangId::new(name), QueueName::new("default"), vec![group])
    }
}

/// Two nodes of 8 GPUs on one rack. `a/runs` has 4 GPUs on each, and the engine has seen one of its
/// pods. A pod of no job has 1 GPU. `b/waits` wants both nodes.
fn engine() -> Engine {
    let mut engine = Engine::new();
    engine.apply_topology(Topology {
        name: TopologyName::new("racks"),
        levels: vec![TopologyLevel::from_label(RACK)],
    });
    for name in ["n0", "n1"] {
        let offers = Resources::new()
            .with(GPU, 8)
            .with("cpu", 64_000)
            .with("memory", 1 << 40)
            .with("pods", 110);
        let mut node = Node::new(NodeName::new(name), offers);
        node.labels.insert(RACK.to_owned(), "r1".to_owned());
        engine.apply_node(node);
    }
    engine.apply_queue(Queue::new(QueueName::new("default")));
    engine.apply_gang(gang("a/runs", 2, 5));
    engine.cycle(Time::from_millis(1));
    let request = Resources::new().with(GPU, 5).with("cpu", 1_000);
    let node = NodeName::new("n0");
    engine.apply_pod(PodKey::new("a/runs-w-0"), node.clone(), request);
    let other = Resources::new().with(GPU, 1);
    engine.apply_pod(PodKey::new("c/other"), node, other);
    engine.apply_gang(Gang {
        excluded_nodes: vec![NodeName::new("gone")],
        ..gang("b/waits", 2, 7)
    });
    engine.cycle(Time::from_millis(2));
    engine
}

fn amounts_and_jobs(rows: &[NodeState], at: usize) -> (String, Vec<String>) {
    let row = &rows[at];
    let line = row.resources.iter().find(|line| line.resource == GPU);
    let line = line.unwrap();
    let free = line.free.as_ref().map_or("none", |free| free.as_str());
    let numbers = [&line.allocatable, &line.jobs, &line.others, &line.kept];
    let numbers = numbers.map(|q| q.as_str().to_owned()).join(" ");
    let jobs = row.jobs.iter().map(|hold| {
        let state = hold.state.as_deref().unwrap_or_default();
        format!(
            "{}/{} {} {state}",
            hold.job.namespace, hold.job.name, hold.pods
        )
    });
    (format!("{numbers} {free}"), jobs.collect())
}

#[test]
fn node_row_shows_amounts_by_job() {
    let mut engine = engine();
    let rows = rows(&engine.snapshot(), |_| None);
    assert_eq!(
        amounts_and_jobs(&rows, 0),
        ("8 5 1 0 2".to_owned(), vec!["a/runs 1 Running".to_owned()])
    );
    assert_eq!(
        amounts_and_jobs(&rows, 1),
        ("8 5 0 0 3".to_owned(), vec!["a/runs 1 Starting".to_owned()])
    );
    assert_eq!((rows[0].other_pods, rows[1].other_pods), (1, 0));
    // The engine counts the same.
    for row in &rows {
        let name = NodeName::new(row.metadata.name.as_deref().unwrap());
        let free = engine.free(&name).unwrap();
        for line in &row.resources {
            let resource = ResourceName::new(line.resource.as_str());
            let expected = engine::to_quantity(&line.resource, i128::from(free[&resource]));
            assert_eq!(line.free.as_ref(), Some(&expected), "{}", line.resource);
        }
    }
    let domain = rows[0].domains.first().unwrap();
    assert_eq!(
        (domain.topology.as_str(), domain.domain.as_str()),
        ("racks", "r1")
    );
    let reserved = rows[0].reserved_for.first().unwrap();
    assert_eq!((reserved.job.name.as_str(), reserved.pods), ("waits", 1));
    assert_eq!(reserved.devices[0].amount.as_str(), "7");

    // The gang was asked to leave, and its pods still exist.
    engine.release_gang(&GangId::new("a/runs"), None);
    let rows = super::rows(&engine.snapshot(), |_| None);
    assert_eq!(
        amounts_and_jobs(&rows, 0).0,
        "8 0 6 0 2",
        "a pod of one without a place"
    );
    assert_eq!(amounts_and_jobs(&rows, 1).0, "8 0 0 0 8");
}

#[test]
fn deleted_node_with_pods_has_an_unschedulable_row() {
    let mut engine = engine();
    engine.delete_node(&NodeName::new("n0"));
    let rows = rows(&engine.snapshot(), |_| None);
    let names: Vec<_> = rows
        .iter()
        .map(|row| row.metadata.name.as_deref())
        .collect();
    assert_eq!(names, [Some("n0"), Some("n1")], "\"gone\" holds nothing");
    let deleted = &rows[0];
    assert_eq!((deleted.schedulable, deleted.other_pods), (false, 1));
    assert_eq!(deleted.reasons[0].reason, "Deleted");
    assert_eq!(deleted.jobs[0].job.name, "runs");
}

#[test]
fn holder_is_listed_once_without_its_other_resources() {
    let releases = [NodeRelease {
        node: NodeName::new("n0"),
        amounts: vec![(ResourceName::new(GPU), 8)],
    }];
    let holders = |engine: &Engine| {
        let [on] = find_holders(&engine.snapshot(), &releases)
            .try_into()
            .unwrap();
        let expected = |holders: HeldBy| {
            let amounts = holders.amounts.iter().map(|of| of.amount.as_str());
            let amounts = amounts.collect::<Vec<_>>().join(" ");
            (holders.job.name, amounts, holders.state)
        };
        on.into_iter().map(expected).collect::<Vec<_>>()
    };
    let mut engine = Engine::new();
    let offers = Resources::new()
        .with(GPU, 8)
        .with("cpu", 64_000)
        .with("pods", 110);
    engine.apply_node(Node::new(NodeName::new("n0"), offers));
    engine.apply_queue(Queue::new(QueueName::new("default")));
    // Two workers with GPUs, and one that has none.
    let mut runs = gang("a/runs", 2, 3);
    let alone = Resources::new().with("cpu", 1_000);
    let launcher = TaskGroup::new(GroupName::new("l"), 1, alone, "runs-l".to_owned());
    runs.groups.push(launcher);
    engine.apply_gang(runs);
    engine.cycle(Time::from_millis(1));
    let sees = |engine: &mut Engine, pod: &str, gpus: i64| {
        let request = Resources::new().with(GPU, gpus).with("cpu", 1_000);
        engine.apply_pod(PodKey::new(pod), NodeName::new("n0"), request);
    };
    let expected = |state: Option<&str>| {
        let state = state.map(ToOwned::to_owned);
        [("runs".to_owned(), "6".to_owned(), state)]
    };
    assert_eq!(holders(&engine), expected(Some("Starting")));
    sees(&mut engine, "a/runs-w-0", 3);
    assert_eq!(holders(&engine), expected(None));
    // The launcher, which holds no GPU, is still starting.
    sees(&mut engine, "a/runs-w-1", 3);
    assert_eq!(holders(&engine), expected(Some("Running")));
}

#[test]
fn node_row_lists_every_reason_to_take_no_pods() {
    let offers = Resources::new().with(GPU, 8).with("pods", 110);
    let well = Node::new(NodeName::new("n"), offers);
    assert_eq!(reasons(&well), []);
    let ill = Node {
        ready: false,
        unschedulable: true,
        unhealthy: Some("bad GPU condition GpuMemWatch".to_owned()),
        allocatable: Resources::new(),
        ..well
    };
    let reasons = reasons(&ill);
    let words: Vec<&str> = reasons.iter().map(|r| r.reason.as_str()).collect();
    assert_eq!(
        words,
        ["NotReady", "Unhealthy", "SchedulingDisabled", "NoPods"]
    );
    assert!(reasons[1].message.contains("GpuMemWatch"));
}

#[test]
fn node_row_has_a_cell_for_each_column() {
    for row in rows(&engine().snapshot(), |_| None) {
        let cells = row.cells(Timestamp::UNIX_EPOCH);
        assert_eq!(cells.len(), NodeState::COLUMNS.len());
        for (cell, column) in cells.iter().zip(NodeState::COLUMNS) {
            assert_eq!(
                cell.is_number(),
                column.kind == "integer",
                "{}",
                column.name
            );
        }
        assert_eq!((&cells[1], &cells[2]), (&json!("Ready"), &json!("gpu=8")));
        let written = serde_json::to_value(&row).unwrap();
        assert_eq!(serde_json::from_value::<NodeState>(written).unwrap(), row);
    }
}
