//! The positions of pending gangs in their queues.

use std::collections::BTreeMap;

use super::Snapshot;
use crate::ids::{GangId, QueueName};
use crate::queueing::OrderKey;

impl Snapshot {
    /// Returns the position of each pending gang in its queue, from 1, as
    /// [`crate::Engine::position`] returns it for one gang.
    #[must_use]
    pub fn positions(&self) -> BTreeMap<GangId, u32> {
        let mut lines: BTreeMap<&QueueName, Vec<OrderKey>> = BTreeMap::new();
        let waiting = self.gangs.iter().filter(|g| g.place.is_none() && !g.idle);
        for waiting_gang in waiting {
            let line = lines.entry(&waiting_gang.gang.queue).or_default();
            line.push(OrderKey::for_gang(&waiting_gang.gang));
        }
        let mut positions = BTreeMap::new();
        for mut line in lines.into_values() {
            line.sort_unstable();
            let ids = line.into_iter().map(OrderKey::into_id);
            positions.extend(ids.zip(1_u32..));
        }
        positions
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Engine;
    use crate::ids::{GangId, GroupName, NodeName, QueueName};
    use crate::resources::Resources;
    use crate::{Gang, Node, Queue, TaskGroup, Time};

    #[test]
    fn snapshot_positions_equal_those_of_the_engine() {
        let mut engine = Engine::new();
        let offers = Resources::new().with("gpu", 8).with("pods", 110);
        engine.apply_node(Node::new(NodeName::new("n"), offers));
        for queue in ["a", "b"] {
            engine.apply_queue(Queue::new(QueueName::new(queue)));
        }
        let gangs = [
            ("ns/holds", "a", 9, 0, false),
            ("ns/low", "a", -1, 1, false),
            ("ns/beside", "a", 7, 0, true),
            ("ns/late", "a", 0, 5, false),
            ("ns/other", "b", 0, 3, false),
            ("ns/early", "a", 0, 2, false),
        ];
        for (name, queue, priority, at, surplus) in gangs {
            let request = Resources::new().with("gpu", 8);
            let group = TaskGroup::new(GroupName::new("w"), 1, request, format!("{name}-w"));
            engine.apply_gang(Gang {
                priority,
                surplus,
                submitted: Time::from_millis(at),
                ..Gang::new(GangId::new(name), QueueName::new(queue), vec![group])
            });
        }
        engine.cycle(Time::from_millis(10));
        let positions = engine.snapshot().positions();
        for (name, ..) in gangs {
            let id = GangId::new(name);
            let one = engine.position(&id).map(|at| u32::try_from(at).unwrap());
            assert_eq!(positions.get(&id).copied(), one, "{name}");
        }
        assert_eq!(positions.len(), 5);
        assert_eq!(positions[&GangId::new("ns/late")], 2);
        assert_eq!(positions[&GangId::new("ns/beside")], 4);
    }
}
