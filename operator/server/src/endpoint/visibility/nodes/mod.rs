//! The rows of `nodestates`: the scheduler's view of each node. `tally` sums up the jobs on each.

mod tally;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;
use kube::api::{ObjectMeta, TypeMeta};
use serde_json::{Value, json};
use trellis_api::visibility::{
    Amount, HeldBy, NodeDomain, NodeHold, NodeReason, NodeResource, NodeState, ServedResource,
};
use trellis_gang::engine;
use trellis_gang::external::job_ref;
use trellis_gang::key::Key;
use trellis_scheduler::{
    Node, NodeName, NodeRelease, ResourceName, Resources, Snapshot, Topology, TopologyLevel,
};

use super::table::{Column, TableRow};
use tally::{JobResources, NodeTally};

/// Returns the row of each node, by name. `created` gives the node's creation time.
pub(super) fn rows(
    snapshot: &Snapshot,
    created: impl Fn(&str) -> Option<MetaTime>,
) -> Vec<NodeState> {
    let mut tallies = tally::tally_nodes(snapshot, |_| true);
    let mut rows: Vec<NodeState> = snapshot
        .nodes
        .iter()
        .map(|node| {
            let tally = tallies.remove(&node.name).unwrap_or_default();
            let mut row = row(snapshot, node, tally);
            row.metadata.creation_timestamp = created(node.name.as_str());
            row
        })
        .collect();
    let deleted = tallies.into_iter().filter(|(_, tally)| tally.has_pods());
    rows.extend(deleted.map(|(name, tally)| deleted_row(snapshot, name, tally)));
    rows.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    rows
}

/// Returns the row of a node whose object is deleted but whose pods still exist.
fn deleted_row(snapshot: &Snapshot, name: &NodeName, tally: NodeTally<'_>) -> NodeState {
    let node = Node::new(name.clone(), Resources::new());
    let message = "its Node object is deleted, and pods of it are still there";
    NodeState {
        schedulable: false,
        reasons: vec![NodeReason {
            reason: "Deleted".to_owned(),
            message: message.to_owned(),
        }],
        ..row(snapshot, &node, tally)
    }
}

fn row(snapshot: &Snapshot, node: &Node, tally: NodeTally<'_>) -> NodeState {
    let reasons = reasons(node);
    NodeState {
        types: TypeMeta::resource::<NodeState>(),
        metadata: ObjectMeta {
            name: Some(node.name.as_str().to_owned()),
            ..ObjectMeta::default()
        },
        schedulable: reasons.is_empty(),
        reasons,
        taints: node.taints.iter().map(ToString::to_string).collect(),
        domains: domains(snapshot, node),
        resources: resources(node, &tally),
        other_pods: tally.other_pods,
        jobs: hold_rows(tally.jobs),
        reserved_for: hold_rows(tally.reservations),
        kept_for: hold_rows(tally.restart_holds),
        excluded_by: tally
            .excluded_by
            .into_iter()
            .take(NodeState::MAX_EXCLUDING_JOBS)
            .map(|job| job_ref(&job))
            .collect(),
    }
}

/// Finds, for each of these nodes, the jobs that hold some of the resources to be freed, in
/// descending order of the first named resource.
pub(super) fn find_holders(snapshot: &Snapshot, releases: &[NodeRelease]) -> Vec<Vec<HeldBy>> {
    let mut tallies =
        tally::tally_nodes(snapshot, |node| releases.iter().any(|on| on.node == *node));
    let holders_on = |on: &NodeRelease| {
        let jobs = tallies.remove(&on.node).unwrap_or_default().jobs;
        let mut by_job: BTreeMap<Key, (Vec<i128>, Option<tally::HoldState>)> = BTreeMap::new();
        for ((job, state), hold) in jobs {
            let amounts = on.amounts.iter();
            let amounts = amounts.map(|(name, _)| hold.amounts.get(name).copied().unwrap_or(0));
            let amounts: Vec<i128> = amounts.collect();
            if amounts.iter().all(|amount| *amount <= 0) {
                // The state of pods that hold none of these resources does not matter.
                continue;
            }
            let none = || (vec![0; amounts.len()], state);
            let (sums, does) = by_job.entry(job).or_insert_with(none);
            for (sum, amount) in sums.iter_mut().zip(&amounts) {
                *sum = sum.saturating_add(*amount);
            }
            // The state is only shown if all of these pods share it.
            does.take_if(|does| state != Some(*does));
        }
        let mut holders: Vec<_> = by_job.into_iter().collect();
        holders.sort_by(|(_, (a, _)), (_, (b, _))| b.cmp(a));
        let holder = |(job, (amounts, state)): (Key, (Vec<i128>, Option<tally::HoldState>))| {
            let names = on.amounts.iter().map(|(name, _)| name);
            let amounts = names.zip(amounts).filter(|(_, amount)| *amount > 0);
            HeldBy {
                job: job_ref(&job),
                amounts: amounts
                    .map(|(name, amount)| to_amount(name, amount))
                    .collect(),
                state: state.map(|state| state.as_str().to_owned()),
            }
        };
        holders.into_iter().map(holder).collect()
    };
    releases.iter().map(holders_on).collect()
}

fn to_amount(name: &ResourceName, amount: i128) -> Amount {
    Amount {
        resource: name.as_str().to_owned(),
        amount: engine::to_quantity(name.as_str(), amount),
    }
}

/// Returns every reason that keeps all new pods off a node, even pods that tolerate its taints.
fn reasons(node: &Node) -> Vec<NodeReason> {
    let mut reasons = Vec::new();
    let mut say = |reason: &str, message: String| {
        reasons.push(NodeReason {
            reason: reason.to_owned(),
            message,
        });
    };
    if !node.ready {
        say("NotReady", "its condition Ready is not True".to_owned());
    }
    if let Some(why) = &node.unhealthy {
        say("Unhealthy", format!("it is a node with {why}"));
    }
    if node.unschedulable {
        let message = "it is cordoned: kubectl uncordon lets pods onto it again";
        say("SchedulingDisabled", message.to_owned());
    }
    if node.allocatable.get(&ResourceName::new("pods")) == 0 {
        say("NoPods", "it says of no pods that it takes them".to_owned());
    }
    reasons
}

fn domains(snapshot: &Snapshot, node: &Node) -> Vec<NodeDomain> {
    let topologies = snapshot.topologies.iter();
    let of_topology = |topology: &Topology| -> Vec<NodeDomain> {
        // A node without the label of a level is in no domain of a finer one.
        let domain = |level: &TopologyLevel| {
            Some(NodeDomain {
                topology: topology.name.as_str().to_owned(),
                level: level.name.clone(),
                domain: node.labels.get(&level.node_label)?.clone(),
            })
        };
        topology.levels.iter().map_while(domain).collect()
    };
    topologies.flat_map(of_topology).collect()
}

/// Returns the scarce resources of a node: devices, cpu and memory.
fn resources(node: &Node, tally: &NodeTally<'_>) -> Vec<NodeResource> {
    let amounts = node.allocatable.iter().filter(|(name, _)| {
        name.is_device() && name.shared_device().is_none()
            || matches!(name.as_str(), "cpu" | "memory")
    });
    amounts
        .map(|(name, allocatable)| {
            let allocatable = i128::from(allocatable);
            let of = |sums: &BTreeMap<&ResourceName, i128>| sums.get(name).copied().unwrap_or(0);
            let (jobs, others, reserved) = (
                of(&tally.by_jobs),
                of(&tally.by_other_pods),
                of(&tally.restart_amounts),
            );
            let used = jobs.saturating_add(others).saturating_add(reserved);
            let free = allocatable.saturating_sub(used);
            let quantity = |amount| engine::to_quantity(name.as_str(), amount);
            NodeResource {
                resource: name.as_str().to_owned(),
                allocatable: quantity(allocatable),
                jobs: quantity(jobs),
                others: quantity(others),
                kept: quantity(reserved),
                free: (free >= 0).then(|| quantity(free)),
            }
        })
        .collect()
}

fn hold_rows<'s>(
    holds: impl IntoIterator<Item = (tally::HolderKey, JobResources<'s>)>,
) -> Vec<NodeHold> {
    let hold = |((job, state), hold): (tally::HolderKey, JobResources<'s>)| NodeHold {
        job: job_ref(&job),
        pods: hold.pods,
        devices: devices(&hold.amounts),
        state: state.map(|state| state.as_str().to_owned()),
        expected_start: hold.start.and_then(super::jobs::to_timestamp).map(MetaTime),
        until: hold.until.and_then(super::jobs::to_timestamp).map(MetaTime),
    };
    holds.into_iter().map(hold).collect()
}

fn devices(amounts: &BTreeMap<&ResourceName, i128>) -> Vec<Amount> {
    let devices = amounts.iter().filter(|(name, _)| name.is_device());
    devices
        .map(|(name, amount)| to_amount(name, *amount))
        .collect()
}

/// Tallies by node.
type NodeTallies<'s> = std::collections::HashMap<&'s NodeName, NodeTally<'s>>;

impl TableRow for NodeState {
    const SERVED: &'static ServedResource = &Self::SERVED;
    const ABSENT: &'static str = "there is no node of that name";
    const COLUMNS: &'static [Column] = &[
        Column::text("Name", "Name of the node."),
        Column::text("Status", "Ready, or why it takes no new pods."),
        Column::text("Devices", "What it has that is handed out by count."),
        Column::text("Free", "What is left of that."),
        Column::number("Jobs", "Jobs that hold something of it."),
        Column::number(
            "Other-Pods",
            "Pods on it that are of no job that has a place.",
        ),
        Column::text(
            "Reserved-For",
            "The first job for which a place is reserved here.",
        ),
        Column::text("Domains", "Where it is, by the levels of the Topologies.").wide(),
        Column::text("Held-By", "Jobs that hold something of it.").wide(),
        Column::text("Message", "Why it takes no new pods, in words.").wide(),
    ];

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn cells(&self, _: Timestamp) -> Vec<Value> {
        let devices = || {
            let all = self.resources.iter();
            all.filter(|line| ResourceName::new(line.resource.as_str()).is_device())
        };
        let list = |items: Vec<String>| json!(items.join(","));
        let status = match self.reasons.as_slice() {
            [] => json!("Ready"),
            reasons => list(reasons.iter().map(|r| r.reason.clone()).collect()),
        };
        let short = |line: &NodeResource| {
            let name = line.resource.as_str();
            name.rsplit_once('/')
                .map_or(name, |(_, name)| name)
                .to_owned()
        };
        vec![
            json!(self.metadata.name),
            status,
            list(
                devices()
                    .map(|line| format!("{}={}", short(line), line.allocatable.as_str()))
                    .collect(),
            ),
            list(
                devices()
                    .map(|line| {
                        line.free
                            .as_ref()
                            .map_or("0", |free| free.as_str())
                            .to_owned()
                    })
                    .collect(),
            ),
            json!(self.jobs.len()),
            json!(self.other_pods),
            json!(
                self.reserved_for
                    .first()
                    .map(|hold| hold.job.to_string())
                    .unwrap_or_default()
            ),
            list(
                self.domains
                    .iter()
                    .map(|domain| format!("{}={}", domain.level, domain.domain))
                    .collect(),
            ),
            list(self.jobs.iter().map(|hold| hold.job.to_string()).collect()),
            list(self.reasons.iter().map(|r| r.message.clone()).collect()),
        ]
    }
}
