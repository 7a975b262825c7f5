//! The sentences about nodes that are provisioned for a gang, or that are not.

use std::collections::BTreeMap;
use std::fmt;

use super::{CountText, verb};
use crate::explain::{ProvisioningObstacle, WaitDetail};
use crate::ids::FlavorName;

impl WaitDetail {
    /// Writes the sentence about new nodes.
    pub(super) fn write_provisioning(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Provisioning {
            nodes,
            arrived,
            until,
        } = self
        else {
            return Ok(());
        };
        write!(
            f,
            "waits for {}: {arrived} {} ready; the order times out at ",
            NodesText(nodes, "new node"),
            verb(*arrived, "is", "are"),
        )?;
        // The alternate form shows seconds of a simulation.
        fmt::Display::fmt(until, f)
    }
}

/// `2 new nodes of flavor "a" and 1 new node of flavor "b"`.
struct NodesText<'a>(&'a BTreeMap<FlavorName, u32>, &'static str);

impl fmt::Display for NodesText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(nodes, noun) = self;
        for (number, (flavor, count)) in nodes.iter().enumerate() {
            let start = if number > 0 { " and " } else { "" };
            let flavor = flavor.as_str();
            write!(f, "{start}{} of flavor {flavor:?}", CountText(*count, noun))?;
        }
        Ok(())
    }
}

impl fmt::Display for ProvisioningObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delay { nodes, until } => {
                let nodes = NodesText(nodes, "new node");
                write!(f, "it would start with {nodes}, to be ordered at ")?;
                // The alternate form shows seconds of a simulation.
                fmt::Display::fmt(until, f)
            }
            Self::TooManyGangs { flavor, gangs } => write!(
                f,
                "it gets no new nodes while {} {} for new nodes of flavor {:?}",
                CountText(*gangs, "other job"),
                if *gangs == 1 { "waits" } else { "wait" },
                flavor.as_str()
            ),
            Self::BackOff { flavor, until } => {
                let flavor = flavor.as_str();
                write!(
                    f,
                    "nodes of flavor {flavor:?} did not come, and are not ordered again before "
                )?;
                fmt::Display::fmt(until, f)
            }
            Self::AtMaximum { flavor, max_nodes } => write!(
                f,
                "flavor {:?} has all {} that its maxNodes permits",
                flavor.as_str(),
                CountText(*max_nodes, "node")
            ),
            Self::NotEnough { nodes } => {
                let nodes = NodesText(nodes, "new node");
                write!(f, "{nodes}, all that maxNodes permits, would not suffice")
            }
            Self::MissingTopologyLabel { flavor, label } => write!(
                f,
                "new nodes of flavor {:?} would not help: they have no label {label:?}, see node.labels of the flavor",
                flavor.as_str()
            ),
            Self::Unsuitable { flavors, detail } => {
                let names = flavors
                    .iter()
                    .map(|flavor| format!("{:?}", flavor.as_str()));
                let names: Vec<String> = names.collect();
                let names = names.join(" and ");
                write!(f, "new nodes of flavor {names} would not help: ")?;
                detail.fmt(f)
            }
            Self::Borrowing { queue } => write!(
                f,
                "queue {:?} orders nodes only within its own quota",
                queue.as_str()
            ),
            Self::Denied { message } => f.write_str(message),
            Self::QueueNever { queue } => {
                write!(f, "queue {:?} orders no nodes", queue.as_str())
            }
        }
    }
}
