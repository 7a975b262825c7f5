//! Random sequences of gangs, new nodes and time. The engine never orders more than it may, nor for
//! a gang that fits on free nodes, and never tears a gang.

use proptest::prelude::*;
use trellis_scheduler::{Decision, GangId, NodeName};

use super::*;

/// The most nodes of the flavor.
const MAX_NODES: u32 = 6;
/// The quota of the queue, in nodes.
const QUOTA: i64 = 5;

#[derive(Clone, Debug)]
enum Event {
    /// A gang of this many nodes, with this priority.
    Submit(u32, i32),
    /// The gang of this number ends or is deleted.
    Delete(usize),
    /// A node arrives, perhaps without its devices.
    Arrive { has_devices: bool },
    /// The node of this number disappears.
    Lose(usize),
    /// This many seconds pass.
    Wait(i64),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (1..=4_u32, 0..2).prop_map(|(nodes, priority)| Event::Submit(nodes, priority)),
        1 => any::<usize>().prop_map(Event::Delete),
        3 => any::<bool>().prop_map(|has_devices| Event::Arrive { has_devices }),
        1 => any::<usize>().prop_map(Event::Lose),
        4 => (1..400_i64).prop_map(Event::Wait),
    ]
}

/// The engine under test, and the facts about its cluster.
struct Cluster {
    engine: Engine,
    gangs: Vec<Gang>,
    nodes: Vec<NodeName>,
    second: i64,
}

impl Cluster {
    fn apply(&mut self, number: usize, event: &Event) {
        match event {
            Event::Submit(nodes, priority) => {
                let gang = Gang {
                    priority: *priority,
                    submitted: seconds(self.second),
                    ..growing_gang(&format!("w{number}"), *nodes)
                };
                self.engine.apply_gang(gang.clone());
                self.gangs.push(gang);
            }
            Event::Delete(at) if !self.gangs.is_empty() => {
                let gang = self.gangs.remove(at % self.gangs.len());
                self.engine.delete_gang(&gang.id);
            }
            Event::Arrive { has_devices } if self.nodes.len() < MAX_NODES as usize => {
                let mut node = pool_node(&format!("n{number}"), "h100");
                if !has_devices {
                    node.allocatable = gpu_node("n", 0).allocatable;
                }
                self.nodes.push(node.name.clone());
                self.engine.apply_node(node);
            }
            Event::Lose(at) if !self.nodes.is_empty() => {
                let node = self.nodes.remove(at % self.nodes.len());
                self.engine.delete_node(&node);
            }
            Event::Wait(time) => self.second += time,
            Event::Delete(_) | Event::Arrive { .. } | Event::Lose(_) => {}
        }
    }

    fn gang(&self, id: &GangId) -> &Gang {
        self.gangs.iter().find(|gang| gang.id == *id).unwrap()
    }

    /// Checks the decisions of one cycle.
    fn check(&mut self, decisions: &[Decision]) -> Result<(), TestCaseError> {
        for decision in decisions {
            match decision {
                Decision::Provision(request) => {
                    let ordered: u32 = request.nodes.values().sum();
                    let existing = u32::try_from(self.nodes.len()).unwrap();
                    prop_assert!(
                        ordered > 0 && ordered + existing <= MAX_NODES,
                        "{request:?}"
                    );
                    prop_assert!(request.until > seconds(self.second));
                    prop_assert!(ordered <= self.gang(&request.gang).groups[0].count);
                }
                Decision::Place {
                    gang, placement, ..
                } => {
                    let gang = self.gang(gang).clone();
                    let pods = u64::from(gang.groups[0].count);
                    prop_assert_eq!(placement.pod_count(), pods, "no torn gang");
                    for (_, _, node) in placement.iter() {
                        prop_assert!(self.nodes.contains(node), "{} exists", node);
                    }
                    prop_assert_eq!(self.engine.provisioning(&gang.id), None);
                }
                _ => {}
            }
        }
        // Orders are charged like placed gangs, so the queue never holds more than its quota.
        let used = self.engine.queue_usage(&QueueName::new("default"));
        let gpus = used.get(&ResourceName::new(GPU)).copied().unwrap_or(0);
        prop_assert!(gpus <= i128::from(8 * QUOTA), "{gpus} GPUs are charged");
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn orders_stay_within_their_bounds_and_gangs_are_whole(
        events in proptest::collection::vec(any_event(), 1..60),
    ) {
        let mut cluster = Cluster {
            engine: growing_engine(MAX_NODES),
            gangs: Vec::new(),
            nodes: Vec::new(),
            second: 0,
        };
        cluster.engine.apply_queue(growing_queue("default", 8 * QUOTA, &["h100"]));
        for (number, event) in events.iter().enumerate() {
            cluster.apply(number, event);
            let now = seconds(cluster.second);
            let decisions = cluster.engine.cycle(now);
            cluster.check(&decisions)?;
            prop_assert_eq!(cluster.engine.cycle(now), Vec::new(), "a second cycle has nothing to do");
        }
        for gang in std::mem::take(&mut cluster.gangs) {
            cluster.engine.delete_gang(&gang.id);
        }
        cluster.engine.cycle(seconds(cluster.second));
        let used = cluster.engine.queue_usage(&QueueName::new("default"));
        prop_assert!(used.values().all(|used| *used == 0), "{:?}", used);
        for node in &cluster.nodes {
            let free = cluster.engine.free(node).unwrap();
            let gpus = free[&ResourceName::new(GPU)];
            prop_assert!(gpus == 8 || gpus == 0, "{} has {} free", node, gpus);
        }
    }
}
