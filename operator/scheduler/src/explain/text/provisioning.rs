//! The sentences about nodes that are provisioned for a gang, or that are not.

use std::collections::BTreeMap;
use std::fmt;

use super::{CountText, amount_text, verb};
use crate::explain::{PermittedNodes, ProvisioningObstacle, WaitDetail};
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
            NodesText(nodes),
            verb(*arrived, "is", "are"),
        )?;
        // The alternate form shows seconds of a simulation.
        fmt::Display::fmt(until, f)
    }
}

/// `2 new nodes of flavor "a" and 1 new node of flavor "b"`.
struct NodesText<'a>(&'a BTreeMap<FlavorName, u32>);

impl fmt::Display for NodesText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.0.iter().map(|(flavor, count)| {
            let permitted = PermittedNodes {
                count: *count,
                on_order: 0,
            };
            (flavor, permitted)
        });
        write_nodes(nodes, f)
    }
}

/// Describes new nodes, such as `2 new nodes of flavor "a" and 1 new node of flavor "b"`.
#[must_use]
pub fn describe_new_nodes(nodes: &BTreeMap<FlavorName, u32>) -> String {
    NodesText(nodes).to_string()
}

/// `4 new nodes of flavor "a" (3 are on order for other jobs)`.
fn write_nodes<'a>(
    nodes: impl Iterator<Item = (&'a FlavorName, PermittedNodes)>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for (number, (flavor, PermittedNodes { count, on_order })) in nodes.enumerate() {
        let start = if number > 0 { " and " } else { "" };
        let flavor = flavor.as_str();
        write!(
            f,
            "{start}{} of flavor {flavor:?}",
            CountText(count, "new node")
        )?;
        if on_order > 0 {
            let verb = verb(on_order, "is", "are");
            write!(f, " ({on_order} {verb} on order for other jobs)")?;
        }
    }
    Ok(())
}

impl fmt::Display for ProvisioningObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delay { nodes, after } => write!(
                f,
                "the job would start with {}, to be ordered once it has lacked only nodes for {} s",
                NodesText(nodes),
                after.as_secs_f64()
            ),
            Self::TooManyGangs { flavor, gangs } => write!(
                f,
                "{} already {} for new nodes of flavor {:?}, which is the maximum",
                CountText(*gangs, "other job"),
                verb(*gangs, "waits", "wait"),
                flavor.as_str()
            ),
            Self::BackOff { flavor, until } => {
                let flavor = flavor.as_str();
                write!(
                    f,
                    "nodes of flavor {flavor:?} did not come in time, and are not ordered again before "
                )?;
                // The alternate form shows seconds of a simulation.
                until.fmt(f)
            }
            Self::StillWaits { detail } => {
                f.write_str("with new nodes, the job would still wait: ")?;
                detail.fmt(f)
            }
            Self::AtMaximum {
                flavor,
                nodes,
                max_nodes,
            } => write!(
                f,
                "flavor {:?} has {}, and its maxNodes permits {max_nodes}",
                flavor.as_str(),
                CountText(*nodes, "node")
            ),
            Self::NotEnough { nodes } => {
                f.write_str("maxNodes permits only ")?;
                write_nodes(nodes.iter().map(|(flavor, nodes)| (flavor, *nodes)), f)?;
                f.write_str(", and the job needs more")
            }
            _ => self.write_unsuitable_nodes(f),
        }
    }
}

impl ProvisioningObstacle {
    /// Writes the sentences about obstacles that remain with any number of new nodes.
    fn write_unsuitable_nodes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingTopologyLabel { flavor, label } => write!(
                f,
                "new nodes of flavor {:?} lack label {label:?} of a topology level that the job requires: add it to node.labels of the flavor",
                flavor.as_str()
            ),
            Self::MissingLabel { flavor, key, value } => write!(
                f,
                "new nodes of flavor {:?} lack label \"{key}={value}\", which the job selects: if they will have it, add it to node.labels of the flavor",
                flavor.as_str()
            ),
            Self::NodeAffinity { flavor } => write!(
                f,
                "node affinity of the job does not allow new nodes of flavor {:?}: if they will have the labels, add them to node.labels of the flavor",
                flavor.as_str()
            ),
            Self::Taint { flavor, taint } => write!(
                f,
                "new nodes of flavor {:?} have taint {taint:?}, which the job does not tolerate",
                flavor.as_str()
            ),
            Self::PodTooLarge {
                flavor,
                resource,
                needs,
                offered,
            } => write!(
                f,
                "one pod needs {} {resource}, and a new node of flavor {:?} has {} (node.allocatable)",
                amount_text(resource, i128::from(*needs)),
                flavor.as_str(),
                amount_text(resource, i128::from(*offered))
            ),
            Self::Denied { message } => f.write_str(message),
            Self::Borrowing { queue } => write!(
                f,
                "the job would borrow quota, and queue {:?} permits new nodes only within its own quota (provisioning.order)",
                queue.as_str()
            ),
            Self::QueueNever { queue } => write!(
                f,
                "queue {:?} permits no new nodes (provisioning.order)",
                queue.as_str()
            ),
            _ => Ok(()),
        }
    }
}
