//! Applies changes to an engine that starts from a snapshot.

mod jobs;
mod nodes;
mod queues;

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::visibility::{ForecastChange, ForecastSpec};
use trellis_gang::engine;
use trellis_gang::key::Key;
use trellis_scheduler::{
    Engine, Gang, GangId, Node, NodeName, PlacedStateSnapshot, Placement, Queue, QueueName,
    Snapshot, Time,
};

use crate::{InvalidChange, InvalidChanges};

/// Most nodes that one forecast adds.
const MAX_ADDED_NODES: u32 = 10_000;
/// Most jobs that one forecast adds.
const MAX_ADDED_JOBS: u32 = 1_000;

/// A cluster in which changes are made one after another.
pub(crate) struct ChangedCluster {
    engine: Engine,
    nodes: BTreeMap<NodeName, Node>,
    queues: BTreeMap<QueueName, Queue>,
    gangs: BTreeMap<GangId, KnownGang>,
    added_nodes: u32,
    added_jobs: u32,
    now: Time,
}

/// A gang of the engine.
struct KnownGang {
    gang: Gang,
    /// Nodes of its pods, or of those that it will have once its victims have left. Empty: it waits.
    nodes: BTreeSet<NodeName>,
    /// Start of its run. None: it waits, or its victims have not left yet.
    since: Option<Time>,
    /// True if it restarts: the engine does not try it before the operator applies it again, or keeps
    /// its place for it.
    restarts: bool,
}

impl ChangedCluster {
    /// Builds the cluster before any change.
    pub(crate) fn from_snapshot(snapshot: &Snapshot) -> Self {
        // A pod of a gang leaves with its gang. The kubelet would take a while to report it.
        let mut bound = snapshot.clone();
        bound.bind_pods_to_gangs();
        let gangs = bound.gangs.iter().map(|known| {
            let place = known.place.as_ref();
            let runs = place.filter(|place| place.standing != PlacedStateSnapshot::Nominated);
            let gang = KnownGang {
                gang: known.gang.clone(),
                nodes: place
                    .map(|place| placed_nodes(&place.placement))
                    .unwrap_or_default(),
                since: runs.map(|place| place.since),
                restarts: known.idle || known.kept.is_some(),
            };
            (known.gang.id.clone(), gang)
        });
        let nodes = bound
            .nodes
            .iter()
            .map(|node| (node.name.clone(), node.clone()));
        let queues = bound
            .queues
            .iter()
            .map(|queue| (queue.name.clone(), queue.clone()));
        Self {
            engine: Engine::from_snapshot(&bound),
            nodes: nodes.collect(),
            queues: queues.collect(),
            gangs: gangs.collect(),
            added_nodes: 0,
            added_jobs: 0,
            now: bound.now,
        }
    }

    /// Makes all changes, in their order.
    ///
    /// # Errors
    /// Names every change that cannot be made.
    pub(crate) fn apply(mut self, spec: &ForecastSpec) -> Result<Snapshot, InvalidChanges> {
        if spec.changes.len() > ForecastSpec::MAX_CHANGES {
            let message = format!(
                "{} changes are too many: a forecast makes at most {}",
                spec.changes.len(),
                ForecastSpec::MAX_CHANGES
            );
            return Err(InvalidChanges(vec![InvalidChange::new(
                "spec.changes",
                message,
            )]));
        }
        let mut invalid = Vec::new();
        for (at, change) in spec.changes.iter().enumerate() {
            let (kind, result) = self.apply_change(change);
            if let Err(change) = result {
                invalid.push(change.below(&format!("spec.changes[{at}].{kind}")));
            }
        }
        match invalid.is_empty() {
            true => Ok(self.engine.snapshot()),
            false => Err(InvalidChanges(invalid)),
        }
    }

    /// Removes the surplus of a job. Each surplus pod or slice is a gang of its own.
    fn delete_surplus(&mut self, job: &Key) {
        let surplus = self
            .gangs
            .iter()
            .filter(|(id, known)| known.gang.surplus && engine::job_key(id) == *job);
        for id in surplus.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.engine.delete_gang(&id);
            self.gangs.remove(&id);
        }
    }

    /// Makes one change. Returns the name of its field with the result.
    fn apply_change(
        &mut self,
        change: &ForecastChange,
    ) -> (&'static str, Result<(), InvalidChange>) {
        match change {
            ForecastChange::AddNodes(nodes) => ("addNodes", self.add_nodes(nodes)),
            ForecastChange::RemoveNode(node) => ("removeNode", self.remove_node(&node.name)),
            ForecastChange::CordonNode(node) => ("cordonNode", self.cordon_node(&node.name)),
            ForecastChange::RestoreNode(node) => ("restoreNode", self.restore_node(&node.name)),
            ForecastChange::ChangeQueue(queue) => ("changeQueue", self.change_queue(queue)),
            ForecastChange::AddJob(job) => ("addJob", self.add_jobs(job)),
            ForecastChange::ChangeJob(job) => ("changeJob", self.change_job(job)),
            ForecastChange::RemoveJob(job) => ("removeJob", self.remove_job(job)),
        }
    }
}

fn placed_nodes(placement: &Placement) -> BTreeSet<NodeName> {
    placement.iter().map(|(_, _, node)| node.clone()).collect()
}

/// Adds to a count that has a limit.
fn count_up(count: &mut u32, more: u32, most: u32, what: &str) -> Result<(), InvalidChange> {
    let sum = count.saturating_add(more);
    if more == 0 {
        return Err(InvalidChange::new("count", "must be at least 1"));
    }
    if sum > most {
        let message = format!("all changes together add {sum} {what}: at most {most} can be added");
        return Err(InvalidChange::new("count", message));
    }
    *count = sum;
    Ok(())
}
