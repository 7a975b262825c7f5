//! Provisioning: nodes that an autoscaler adds because a gang waits for them.
//!
//! A flavor says how its new nodes look and how many there may be, a queue which of its gangs may
//! cause them. The engine decides for which gang nodes are provisioned; the caller asks the
//! autoscaler for them. The engine relies on no promise of the autoscaler: it places the gang only
//! on nodes that exist.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{FlavorName, GangId, NodeName};
use crate::node::{Node, Taint};
use crate::queue::GroupFlavors;
use crate::resources::Resources;
use crate::time::Time;

/// The new nodes that a flavor may get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FlavorGrowth {
    /// A new node.
    pub node: NodeTemplate,
    /// The most nodes that the flavor may have, including those that exist.
    pub max_nodes: u32,
    /// How long the engine waits for the nodes of one gang.
    pub timeout: Duration,
    /// How long nodes may stand idle for a gang that lacks other nodes. It counts from the first
    /// node that arrives.
    pub idle: Duration,
    /// How long new nodes usually take. None: unknown, so the engine predicts no start on them.
    #[serde(default)]
    pub usual: Option<Duration>,
}

/// A node that does not exist yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeTemplate {
    /// Its labels, including those of its flavor.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Resources that pods may use, including `pods`.
    pub allocatable: Resources,
}

impl NodeTemplate {
    /// Returns a ready node of this kind.
    #[must_use]
    pub fn to_node(&self, name: NodeName) -> Node {
        Node {
            labels: self.labels.clone(),
            taints: self.taints.clone(),
            ..Node::new(name, self.allocatable.clone())
        }
    }
}

/// The gangs of a queue for which nodes may be provisioned, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProvisioningPolicy {
    /// The gangs.
    pub scope: ProvisioningScope,
    /// How long a gang must have lacked only room before.
    pub after: Duration,
    /// True: a gang evicts other gangs if it may, and only otherwise nodes are provisioned for it.
    pub after_preemption: bool,
}

/// The gangs of a queue for which nodes may be provisioned.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum ProvisioningScope {
    /// None.
    #[default]
    Never,
    /// Gangs with which the queue stays within its own quota.
    Nominal,
    /// All gangs that quota admits, even if the queue borrows.
    Borrowing,
}

/// Nodes that are provisioned for a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRequest {
    /// The gang.
    pub gang: GangId,
    /// The number of new nodes that the gang needs, by flavor.
    pub nodes: BTreeMap<FlavorName, u32>,
    /// The flavors of each task group.
    pub flavors: Vec<GroupFlavors>,
    /// When the engine gives the nodes up if the gang is not whole by then.
    pub until: Time,
}

/// The state of the nodes that are provisioned for a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provisioning {
    /// When they were first asked for.
    pub since: Time,
    /// When the engine gives them up, even if none has arrived.
    pub timeout: Time,
    /// When the first node joined that the engine had not known at `since`.
    pub first_arrival: Option<Time>,
    /// The number of new nodes at first, by flavor.
    pub wanted: BTreeMap<FlavorName, u32>,
    /// The number of nodes that are still missing, by flavor.
    pub missing: BTreeMap<FlavorName, u32>,
}

impl Provisioning {
    /// Returns the number of nodes that were asked for, and how many of them have arrived.
    #[must_use]
    pub fn progress(&self) -> (u32, u32) {
        let sum = |nodes: &BTreeMap<FlavorName, u32>| {
            nodes.values().fold(0_u32, |sum, n| sum.saturating_add(*n))
        };
        let wanted = sum(&self.wanted);
        (wanted, wanted.saturating_sub(sum(&self.missing)))
    }

    /// Names the flavors of the nodes, such as `flavor "h100"` or `flavors "a100" and "h100"`.
    #[must_use]
    pub fn flavors_text(&self) -> String {
        let names = self
            .wanted
            .keys()
            .map(|name| format!("{:?}", name.as_str()));
        let names: Vec<String> = names.collect();
        let noun = match names.len() {
            1 => "flavor",
            _ => "flavors",
        };
        format!("{noun} {}", names.join(" and "))
    }

    /// Describes nodes that did not come in time, such as `only 12 of 16 new nodes of flavor "h100"
    /// came in time`.
    #[must_use]
    pub fn lateness_text(&self) -> String {
        let (wanted, arrived) = self.progress();
        let flavors = self.flavors_text();
        match arrived {
            0 => format!("no new node of {flavors} came in time"),
            _ => format!("only {arrived} of {wanted} new nodes of {flavors} came in time"),
        }
    }
}
