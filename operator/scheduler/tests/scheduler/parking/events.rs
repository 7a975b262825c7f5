//! Random events for an engine whose gangs wait, preempt and reclaim. Queues are in a tree, and
//! nodes in two pools and racks.

use std::time::Duration;

use crate::common::*;
use crate::preemption::seconds;
use crate::random::any_fair_share;
use proptest::prelude::*;
use trellis_scheduler::{
    BorrowWithinPolicy, Constraints, Engine, Flavor, FlavorName, FlavorQuotas, Gang, LimitDraw,
    LimitName, LimitUnit, Node, PreemptionPolicy, Queue, QueueName, Quota, ReclaimPolicy,
    ResourceGroup, ResourceName, TaskGroup, Topology, TopologyLevel, TopologyName, TopologyRequest,
    UsageDecay, WithinQueuePolicy,
};

/// The leaves: two teams of a department, a queue beside it, a queue without quota in the tree, and
/// a queue outside the tree.
pub const LEAVES: [(&str, Option<&str>); 5] = [
    ("team-a", Some("department")),
    ("team-b", Some("department")),
    ("beside", Some("org")),
    ("idle", Some("org")),
    ("outside", None),
];
pub const NODES: usize = 3;
pub const GANGS: usize = 7;
const LIMITS: usize = 2;

/// The rules of a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// If true, queues offer their quotas as two flavors: the nodes of pool 0, and those of pool 1.
    /// If false, quotas apply to every node.
    pub flavors: bool,
    /// True if some gangs draw on limits.
    pub limits: bool,
}

pub const PLAIN: Rules = Rules {
    flavors: false,
    limits: false,
};

pub fn any_rules() -> impl Strategy<Value = Rules> {
    let rules = (prop::bool::ANY, prop::bool::weighted(0.3));
    rules.prop_map(|(flavors, limits)| Rules { flavors, limits })
}

fn flavor_name(pool: u8) -> FlavorName {
    FlavorName::new(format!("pool-{pool}"))
}

#[derive(Clone, Debug)]
pub enum Event {
    Node {
        at: usize,
        gpus: i64,
        pool: u8,
        rack: u8,
        state: u8,
    },
    DeleteNode(usize),
    Queue {
        at: usize,
        nominal: i64,
        limit: Option<i64>,
        preemption: PreemptionPolicy,
        backfill: bool,
    },
    Gang(Box<Gang>),
    DeleteGang(usize),
    Checkpoint(usize),
}

pub fn any_preemption() -> impl Strategy<Value = PreemptionPolicy> {
    let within = prop_oneof![
        1 => Just(WithinQueuePolicy::Never),
        2 => Just(WithinQueuePolicy::LowerPriority),
        1 => Just(WithinQueuePolicy::LowerOrNewerEqualPriority),
    ];
    let reclaim = prop_oneof![
        1 => Just(ReclaimPolicy::Never),
        1 => Just(ReclaimPolicy::LowerPriority),
        3 => Just(ReclaimPolicy::Any),
    ];
    let borrow = prop_oneof![
        3 => Just(BorrowWithinPolicy::Never),
        1 => Just(BorrowWithinPolicy::LowerPriority { max_priority: None }),
        2 => any_fair_share(),
    ];
    (within, reclaim, borrow).prop_map(|(within_queue, reclaim, borrow_within)| PreemptionPolicy {
        within_queue,
        reclaim,
        borrow_within,
    })
}

/// Generates draws on limits. The limit decides the counted quantity, and each gang sets its own
/// maximum.
fn any_draws() -> impl Strategy<Value = Vec<LimitDraw>> {
    let draw = (0..LIMITS, 1..6_i64).prop_map(|(at, max)| LimitDraw {
        refuses: false,
        limit: LimitName::new(format!("l{at}")),
        of: match at {
            0 => LimitUnit::Gangs,
            _ => LimitUnit::Devices,
        },
        max: Some(max),
    });
    prop_oneof![4 => Just(vec![]), 1 => draw.prop_map(|draw| vec![draw])]
}

/// Generates a gang. `patient`: some gangs are protected for some time, and time passes. `rich`:
/// some gangs name flavors, and draw on limits.
fn any_gang(patient: bool, rich: bool) -> impl Strategy<Value = Gang> {
    let size = (1..4_u32, 1..3_i64, 0..3_i64);
    let terms = (
        0..3_i32,
        prop::bool::weighted(0.85),
        prop::bool::weighted(0.35),
    );
    let runtime = prop::option::weighted(0.3, 1..40_u64);
    let min_runtime = prop_oneof![4 => Just(0), 1 => 1..30_u64];
    let min_runtime = min_runtime.prop_map(move |seconds| if patient { seconds } else { 0 });
    let pool = prop::option::weighted(0.3, 0..2_u8);
    let rack = prop::option::weighted(0.2, prop::bool::ANY);
    let flavors = match rich {
        false => Just(vec![]).boxed(),
        true => prop_oneof![
            3 => Just(vec![]),
            1 => Just(vec![0]),
            1 => Just(vec![1]),
            1 => Just(vec![1, 0]),
        ]
        .boxed(),
    };
    let draws = match rich {
        false => Just(vec![]).boxed(),
        true => any_draws().boxed(),
    };
    (
        (0..GANGS, 0..LEAVES.len()),
        size,
        terms,
        runtime,
        min_runtime,
        (pool, rack, flavors, draws),
    )
        .prop_map(
            |((at, leaf), (pods, gpus, cores), terms, runtime, min_runtime, asked)| {
                let (pool, rack, flavors, draws) = asked;
                let (priority, preemptible, surplus) = terms;
                let mut constraints = Constraints::default();
                if let Some(pool) = pool {
                    constraints
                        .node_selector
                        .insert("pool".into(), pool.to_string());
                }
                let worker = TaskGroup {
                    constraints,
                    flavors: flavors.into_iter().map(flavor_name).collect(),
                    device: Some(ResourceName::new(GPU)),
                    ..group("worker", pods, gpu(cores, gpus))
                };
                Gang {
                    draws,
                    queue: QueueName::new(LEAVES[leaf].0),
                    priority,
                    preemptible,
                    surplus,
                    runtime: runtime.map(Duration::from_secs),
                    min_runtime: Duration::from_secs(min_runtime),
                    topology: rack.map(|required| match required {
                        true => TopologyRequest::required("rack"),
                        false => TopologyRequest::preferred("rack"),
                    }),
                    ..gang(&format!("g{at}"), vec![worker])
                }
            },
        )
}

pub fn any_event(patient: bool, rich: bool) -> impl Strategy<Value = Event> {
    let node = (0..NODES, 0..9_i64, 0..2_u8, 0..2_u8, 0..5_u8);
    let node = node.prop_map(|(at, gpus, pool, rack, state)| Event::Node {
        at,
        gpus,
        pool,
        rack,
        state,
    });
    let limit = prop::option::weighted(0.25, 0..6_i64);
    let backfill = prop::bool::weighted(0.9);
    let queue = (0..LEAVES.len(), 0..9_i64, limit, any_preemption(), backfill);
    let queue = queue.prop_map(|(at, nominal, limit, preemption, backfill)| Event::Queue {
        at,
        nominal,
        limit,
        preemption,
        backfill,
    });
    prop_oneof![
        4 => node,
        1 => (0..NODES).prop_map(Event::DeleteNode),
        2 => queue,
        10 => any_gang(patient, rich).prop_map(|gang| Event::Gang(Box::new(gang))),
        4 => (0..GANGS).prop_map(Event::DeleteGang),
        1 => (0..GANGS).prop_map(Event::Checkpoint),
    ]
}

fn quotas(nominal: i64, limit: Option<i64>) -> [(ResourceName, Quota); 2] {
    let quota = |nominal, borrowing_limit| Quota {
        nominal,
        borrowing_limit,
        lending_limit: None,
    };
    [
        (ResourceName::new(GPU), quota(nominal, limit)),
        (ResourceName::new("cpu"), quota(1 << 40, None)),
    ]
}

fn with_offered_quotas(queue: Queue, rules: Rules, quotas: [(ResourceName, Quota); 2]) -> Queue {
    if !rules.flavors {
        return queue.with_quotas(quotas);
    }
    let flavors = [0, 1].map(|pool| FlavorQuotas {
        flavor: flavor_name(pool),
        quotas: quotas.clone().into(),
    });
    Queue {
        resource_groups: vec![ResourceGroup {
            flavors: flavors.into(),
        }],
        ..queue
    }
}

pub fn leaf(
    at: usize,
    rules: Rules,
    nominal: i64,
    limit: Option<i64>,
    preemption: PreemptionPolicy,
) -> Queue {
    let (name, parent) = LEAVES[at];
    let queue = Queue {
        parent: parent.map(QueueName::new),
        preemption,
        ..Queue::new(QueueName::new(name))
    };
    match name {
        // These queues have no quotas.
        "idle" | "outside" => queue,
        _ => with_offered_quotas(queue, rules, quotas(nominal, limit)),
    }
}

pub fn empty_engine(rules: Rules) -> Engine {
    let mut engine = Engine::with_decay(UsageDecay::with_half_life(0));
    engine.apply_topology(Topology {
        name: TopologyName::new("hall"),
        levels: vec![TopologyLevel::from_label("rack")],
    });
    for pool in 0..2_u8 {
        engine.apply_flavor(Flavor {
            node_labels: [("pool".to_owned(), pool.to_string())].into(),
            ..Flavor::new(flavor_name(pool))
        });
    }
    let above = |name: &str, parent: Option<&str>| {
        let queue = Queue {
            parent: parent.map(QueueName::new),
            ..Queue::new(QueueName::new(name))
        };
        with_offered_quotas(queue, rules, quotas(2, None))
    };
    engine.apply_queue(above("org", None));
    engine.apply_queue(above("department", Some("org")));
    for (at, _) in LEAVES.iter().enumerate() {
        engine.apply_queue(leaf(at, rules, 4, None, PreemptionPolicy::default()));
    }
    engine
}

pub fn labelled_node(at: usize, gpus: i64, labels: [(&str, u8); 2], state: u8) -> Node {
    let mut node = node(&format!("n{at}"), gpu(16, gpus).with("pods", 20));
    for (key, value) in labels {
        node.labels.insert(key.into(), value.to_string());
    }
    node.unschedulable = state == 0;
    node.ready = state != 1;
    node
}

pub fn apply(engine: &mut Engine, rules: Rules, event: Event, second: i64) {
    match event {
        Event::Node {
            at,
            gpus,
            pool,
            rack,
            state,
        } => engine.apply_node(labelled_node(
            at,
            gpus,
            [("pool", pool), ("rack", rack)],
            state,
        )),
        Event::DeleteNode(at) => {
            engine.delete_node(&trellis_scheduler::NodeName::new(format!("n{at}")));
        }
        Event::Queue {
            at,
            nominal,
            limit,
            preemption,
            backfill,
        } => engine.apply_queue(Queue {
            backfill,
            ..leaf(at, rules, nominal, limit, preemption)
        }),
        Event::Gang(mut gang) => {
            if !rules.flavors {
                // The queues do not offer the named flavors.
                for group in &mut gang.groups {
                    group.flavors.clear();
                }
            }
            if !rules.limits {
                gang.draws.clear();
            }
            // A changed gang with the name of a placed gang is a different gang.
            engine.delete_gang(&gang.id);
            engine.apply_gang(Gang {
                submitted: seconds(second),
                ..*gang
            });
        }
        Event::DeleteGang(at) => engine.delete_gang(&id(&format!("g{at}"))),
        Event::Checkpoint(at) => engine.record_checkpoint(&id(&format!("g{at}")), seconds(second)),
    }
}

/// Returns an engine with these policies of its leaves, and a node of 4 GPUs in each rack.
pub fn engine_with_policies(rules: Rules, policies: Vec<(i64, PreemptionPolicy)>) -> Engine {
    let mut engine = empty_engine(rules);
    for (at, (nominal, preemption)) in policies.into_iter().enumerate() {
        engine.apply_queue(leaf(at, rules, nominal, None, preemption));
    }
    for at in 0..NODES {
        let rack = u8::try_from(at % 2).unwrap();
        engine.apply_node(labelled_node(at, 4, [("pool", rack), ("rack", rack)], 4));
    }
    engine
}
