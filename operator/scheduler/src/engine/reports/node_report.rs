//! A report on all nodes for one gang.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::Engine;
use crate::explain::{GroupNodeReport, report_group_nodes};
use crate::ids::{FlavorName, GangId};

impl Engine {
    /// Reports for each task group of a gang how each node fits it, with the gang's first flavor
    /// assignment. It visits every node once per group, so it suits reports on a single gang. None:
    /// the gang does not exist.
    pub fn report_nodes(&mut self, gang: &GangId) -> Option<Vec<GroupNodeReport>> {
        let at = self.gangs.find(gang)?;
        let ways = self.assignments(at)?;
        let state = self.gangs.get(at)?;
        let gang = Arc::clone(&state.gang);
        let best = ways.as_ref().ok().and_then(|ways| ways.first());
        let shape = best.map_or(&state.shape, |way| &way.shape);
        let excluded = gang.excluded_nodes.iter();
        let excluded: Vec<_> = excluded.filter_map(|n| self.nodes.find(n)).collect();
        let groups = gang.groups.iter().zip(&shape.groups).enumerate();
        let reports = groups.filter_map(|(number, (group, shape))| {
            let chosen = best.and_then(|way| way.choices.get(number));
            let flavors: BTreeSet<FlavorName> = chosen
                .into_iter()
                .flat_map(|c| c.values())
                .cloned()
                .collect();
            let named = (group.name.clone(), flavors.into_iter().collect());
            report_group_nodes(&self.nodes, &self.catalog, named, shape, &excluded)
        });
        Some(reports.collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::Engine;
    use crate::ids::{GangId, GroupName, NodeName, QueueName};
    use crate::resources::Resources;
    use crate::{Gang, Node, NodeObstacle, Queue, Taint, TaintEffect, TaskGroup, Time};

    #[test]
    fn node_report_lists_each_node_once_with_the_numbers_of_the_explanation() {
        let mut engine = Engine::new();
        let offers = |gpus: i64| Resources::new().with("gpu", gpus).with("pods", 110);
        let names = [
            "free", "half", "cordoned", "down", "failed", "tainted", "plain",
        ];
        for name in names {
            let gpus = if name == "plain" { 0 } else { 8 };
            let mut node = Node::new(NodeName::new(name), offers(gpus));
            match name {
                "cordoned" => node.unschedulable = true,
                "down" => node.ready = false,
                "tainted" => node.taints.push(Taint {
                    key: "team".to_owned(),
                    value: "b".to_owned(),
                    effect: TaintEffect::NoSchedule,
                }),
                _ => {}
            }
            engine.apply_node(node);
        }
        engine.apply_queue(Queue::new(QueueName::new("q")));
        let request = |gpus| Resources::new().with("gpu", gpus);
        let other = crate::PodKey::new("x/other");
        engine.apply_pod(other, NodeName::new("half"), request(4));
        let group = TaskGroup::new(GroupName::new("w"), 8, request(4), "j-w".to_owned());
        let id = GangId::new("ns/j");
        engine.apply_gang(Gang {
            excluded_nodes: vec![NodeName::new("failed")],
            ..Gang::new(id.clone(), QueueName::new("q"), vec![group])
        });
        engine.cycle(Time::from_millis(0));
        let reports = engine.report_nodes(&id).unwrap();
        let [report] = reports.as_slice() else {
            panic!("{reports:?}")
        };
        let matching: Vec<_> = report
            .matching
            .iter()
            .map(|m| (m.node.as_str(), m.room, m.free[0].1))
            .collect();
        assert_eq!(matching, [("free", 2, 8), ("half", 1, 4)]);
        let off: Vec<_> = report
            .excluded
            .iter()
            .map(|(why, nodes)| (why.clone(), nodes[0].as_str()))
            .collect();
        let gpu = crate::ResourceName::new("gpu");
        assert_eq!(
            off,
            [
                (NodeObstacle::NotReady, "down"),
                (NodeObstacle::Unschedulable, "cordoned"),
                (NodeObstacle::Excluded, "failed"),
                (
                    NodeObstacle::Taint("team=b:NoSchedule".to_owned()),
                    "tainted"
                ),
                (NodeObstacle::MissingResource(gpu), "plain"),
            ]
        );
        let all = report.excluded.iter().map(|(_, nodes)| nodes.len());
        assert_eq!(all.sum::<usize>() + report.matching.len(), names.len());
        assert_eq!(engine.report_nodes(&GangId::new("ns/nobody")), None);
    }
}
