//! An ideal repacking of a workload: one large node takes the place of equal nodes, so no free GPU is
//! out of reach. The difference from the real nodes is the cost of fragmentation.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use trellis_scheduler::{Gang, Node, Resources, Taint, Time};

use super::runner::{ScriptChange, SimulationScript};
use super::summary::SimulationSummary;

/// Results of the same workload on merged nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RepackingSummary {
    /// Mean time from submission to the first start.
    pub mean_wait_seconds: Option<f64>,
    /// 99th percentile of the time from submission to the first start.
    pub p99_wait_seconds: Option<f64>,
    /// GPUs in use, in percent of all GPUs: the mean over time.
    pub allocated_gpu_percent: f64,
    /// Waiting time of all jobs on the real nodes minus that on the merged nodes, in hours. Negative
    /// if the jobs wait longer on the merged nodes. None: the workload has no times, or the two runs
    /// start different numbers of jobs.
    pub saved_wait_hours: Option<f64>,
}

impl RepackingSummary {
    /// Compares the results on the real nodes with those on the merged nodes.
    #[must_use]
    pub fn compare(real: &SimulationSummary, repacked: &SimulationSummary) -> Self {
        let waited_hours = |summary: &SimulationSummary| {
            let mean = summary.mean_wait_seconds?;
            Some(mean * summary.placed as f64 / 3_600.0)
        };
        let saved = waited_hours(real).zip(waited_hours(repacked));
        let saved = saved.filter(|_| real.placed == repacked.placed);
        Self {
            mean_wait_seconds: repacked.mean_wait_seconds,
            p99_wait_seconds: repacked.p99_wait_seconds,
            allocated_gpu_percent: repacked.allocated_gpu_percent,
            saved_wait_hours: saved.map(|(real, repacked)| real - repacked),
        }
    }

    /// Renders the table for users, which follows the other results.
    pub(super) fn render_table(&self) -> String {
        let time = |seconds: Option<f64>| seconds.map(|s| format!("{s:.0} s"));
        let rows = [
            ("mean wait", time(self.mean_wait_seconds)),
            ("p99 wait", time(self.p99_wait_seconds)),
            (
                "GPU allocated",
                Some(format!("{:.2} %", self.allocated_gpu_percent)),
            ),
            (
                "wait saved",
                // Without a minus sign before zero.
                self.saved_wait_hours
                    .map(|hours| format!("{:.1} h", (hours * 10.0).round() / 10.0 + 0.0)),
            ),
        ];
        let rows = rows.into_iter().filter_map(|(name, value)| {
            let value = value?;
            Some(format!("{name:<18} {value:>12}\n"))
        });
        let rows: String = rows.collect();
        format!("\nwith one large node in place of equal nodes:\n{rows}")
    }
}

/// The properties of a node that pods can select, besides its name, its domains and its size.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct NodeKind {
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
}

impl SimulationScript {
    /// Returns the same workload with one large node in place of equal nodes. It leaves out each job
    /// that has a pod larger than every node. The nodes must exist from the start, and must not
    /// change.
    #[must_use]
    pub fn repacked(self) -> Self {
        let changes = self.into_changes();
        let levels: BTreeSet<String> = changes
            .iter()
            .filter_map(|(_, change)| match change {
                ScriptChange::Topology(topology) => Some(&topology.levels),
                _ => None,
            })
            .flatten()
            .map(|level| level.node_label.clone())
            .collect();
        let nodes = changes.iter().filter_map(|(_, change)| match change {
            ScriptChange::Node(node) => Some(node.clone()),
            _ => None,
        });
        let nodes: Vec<Node> = nodes.collect();
        let mut repacked = Self::new();
        for node in merge_nodes(&nodes, &levels) {
            repacked.add(Time::default(), ScriptChange::Node(node));
        }
        for (time, change) in changes {
            match &change {
                ScriptChange::Node(_) => {}
                ScriptChange::Job(job) if !fits_some_node(&job.gang, &nodes) => {}
                _ => repacked.add(time, change),
            }
        }
        repacked
    }
}

/// Merges the nodes of each kind into one large node, with the name of the first of them. The large
/// nodes are in one domain of each level.
fn merge_nodes(nodes: &[Node], levels: &BTreeSet<String>) -> Vec<Node> {
    let mut merged: BTreeMap<NodeKind, Node> = BTreeMap::new();
    for node in nodes {
        let mut labels = node.labels.clone();
        for (_, domain) in labels.iter_mut().filter(|(key, _)| levels.contains(*key)) {
            "all".clone_into(domain);
        }
        let kind = NodeKind {
            labels: labels.clone(),
            taints: node.taints.clone(),
        };
        match merged.get_mut(&kind) {
            Some(large) => large.allocatable = sum_resources(&large.allocatable, &node.allocatable),
            None => {
                let node = Node {
                    labels,
                    ..node.clone()
                };
                merged.insert(kind, node);
            }
        }
    }
    merged.into_values().collect()
}

fn sum_resources(one: &Resources, other: &Resources) -> Resources {
    let mut sum = one.clone();
    for (resource, amount) in other.iter() {
        sum.set(resource.clone(), sum.get(resource).saturating_add(amount));
    }
    sum
}

/// Returns true if each pod of the gang fits on at least one empty node.
fn fits_some_node(gang: &Gang, nodes: &[Node]) -> bool {
    gang.groups.iter().all(|group| {
        let fits = |node: &Node| {
            let mut request = group.request.iter();
            group.constraints.are_met_by(node)
                && request.all(|(resource, amount)| amount <= node.allocatable.get(resource))
        };
        nodes.iter().any(fits)
    })
}

#[cfg(test)]
mod tests {
    use trellis_scheduler::{NodeName, PlacementStrategy};

    use super::*;
    use crate::runner::{SimulationOptions, run_script};
    use crate::{GangWorkload, parse_pools};

    fn workload(spread: bool) -> GangWorkload {
        GangWorkload {
            pool: parse_pools("gpu=32x8").unwrap().remove(0),
            jobs: 300,
            load: 1.0,
            seed: 7,
            order: trellis_scheduler::QueueOrder::Priority,
            close_percent: 60,
            cpu_percent: 0,
            spread,
            growth: None,
        }
    }

    #[test]
    fn equal_nodes_are_merged_into_one_node() {
        let node = |name: &str, rack: &str, pool: &str| {
            let allocatable = Resources::new().with("gpu", 8).with("pods", 110);
            let labels = [("rack", rack), ("pool", pool)];
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
            Node {
                labels: labels.into(),
                ..Node::new(NodeName::new(name), allocatable)
            }
        };
        let nodes = [
            node("a", "r1", "x"),
            node("b", "r2", "x"),
            node("c", "r2", "y"),
        ];
        let merged = merge_nodes(&nodes, &["rack".to_owned()].into());
        let merged = merged.iter().map(|node| {
            let gpus = node
                .allocatable
                .get(&trellis_scheduler::ResourceName::new("gpu"));
            (node.name.as_str(), node.labels["rack"].as_str(), gpus)
        });
        assert_eq!(
            merged.collect::<Vec<_>>(),
            [("a", "all", 16), ("c", "all", 8)]
        );
    }

    #[test]
    fn jobs_wait_less_on_merged_nodes() {
        let script = workload(true).to_script();
        let run = |script| run_script(script, SimulationOptions::default(), &mut |_| {});
        let (real, ideal) = (run(script.clone()), run(script.repacked()));
        assert_eq!(real.placed, ideal.placed);
        let compared = RepackingSummary::compare(&real, &ideal);
        let saved = compared.saved_wait_hours.unwrap();
        assert!(saved > 0.0, "{compared:?}");
        assert!(ideal.mean_wait_seconds < real.mean_wait_seconds);
    }

    #[test]
    fn job_with_a_pod_larger_than_every_node_is_left_out() {
        let mut large = workload(false);
        large.jobs = 1;
        let mut changes = large.to_script().into_changes();
        for (_, change) in &mut changes {
            if let ScriptChange::Job(job) = change {
                job.gang.strategy = PlacementStrategy::Pack;
                job.gang.groups[0].request = Resources::new().with("nvidia.com/gpu", 9);
            }
        }
        let mut script = SimulationScript::new();
        for (time, change) in changes {
            script.add(time, change);
        }
        let repacked = script.repacked().into_changes();
        let has_job = |change: &ScriptChange| matches!(change, ScriptChange::Job(_));
        assert!(!repacked.iter().any(|(_, change)| has_job(change)));
    }
}
