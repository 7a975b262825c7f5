//! The sentences that users read.

mod change;
mod limit;
mod nodes;
mod provisioning;
mod queue;
mod quota;
mod reserved;
mod topology;

use std::fmt;

pub use provisioning::describe_new_nodes;

use super::amount::AmountText;
use super::{Exclusions, MissingLabel, UnadvertisedDevice, WaitDetail, WaitExplanation};
use crate::ids::{GroupName, ResourceName};

impl fmt::Display for WaitExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.detail.fmt(f)?;
        if let Some(obstacle) = &self.provisioning_obstacle {
            f.write_str("; ")?;
            obstacle.fmt(f)?;
        }
        match self.beyond_reason() {
            Some(change) => write!(f, "; it would fit with {change}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for WaitDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueNotFound { .. }
            | Self::QueueStopped { .. }
            | Self::QueueMisconfigured { .. }
            | Self::BehindHead { .. }
            | Self::FlavorNotFound { .. }
            | Self::FlavorNotOffered { .. }
            | Self::NoSharedFlavor { .. }
            | Self::BackingOff { .. }
            | Self::NotOffered { .. }
            | Self::ExceedsQuota { .. } => self.write_queue(f),
            Self::QuotaExceeded { .. } => self.write_quota_exceeded(f),
            Self::LimitExceeded { .. } | Self::LimitClosed { .. } | Self::TooManyPending { .. } => {
                self.write_limit(f)
            }
            Self::TopologyNotFound { .. }
            | Self::ExceedsTopology(_)
            | Self::ExceedsSlices(_)
            | Self::SlicesFragmented(_)
            | Self::TopologyFragmented { .. } => self.write_topology(f),
            Self::NodesAvoided { .. }
            | Self::NoMatchingNodes { .. }
            | Self::PodTooLarge { .. }
            | Self::ClusterTooSmall { .. }
            | Self::TooFewPlaces { .. } => self.write_never(f),
            Self::InsufficientCapacity { .. }
            | Self::Scattered { .. }
            | Self::SeparateResources { .. }
            | Self::GroupsCollide { .. } => self.write_not_now(f),
            Self::Reserved { .. } | Self::QuotaReserved { .. } => self.write_reserved(f),
            Self::Provisioning { .. } => self.write_provisioning(f),
        }
    }
}

fn amount_text(resource: &ResourceName, base_units: i128) -> AmountText<'_> {
    AmountText {
        resource,
        base_units,
    }
}

/// `1 node`, `2 nodes`.
struct CountText<N>(N, &'static str);

impl<N: fmt::Display + PartialEq + From<u8>> fmt::Display for CountText<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == N::from(1) { "" } else { "s" };
        write!(f, "{} {}{plural}", self.0, self.1)
    }
}

/// Returns the verb that agrees with the number.
fn verb<N: PartialEq + From<u8>>(number: N, one: &'static str, many: &'static str) -> &'static str {
    if number == N::from(1) { one } else { many }
}

/// An amount and its verb: `1 is`, `2 are`.
struct AmountWithVerb<T>(T);

impl<T: fmt::Display> fmt::Display for AmountWithVerb<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.to_string();
        let verb = if shown == "1" { "is" } else { "are" };
        write!(f, "{shown} {verb}")
    }
}

/// `group "worker": `, if the gang has several groups.
struct GroupPrefix<'a>(&'a Option<GroupName>);

impl fmt::Display for GroupPrefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(group) => write!(f, "group {:?}: ", group.as_str()),
            None => Ok(()),
        }
    }
}

/// The nodes whose device plugin advertises no device, as an addition to a sentence.
struct UnadvertisedSuffix<'a>(&'a Option<UnadvertisedDevice>);

impl fmt::Display for UnadvertisedSuffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(UnadvertisedDevice { resource, nodes }) = self.0 else {
            return Ok(());
        };
        write!(
            f,
            "; {} {} as if with {resource} but {} none: look at the device plugin there",
            CountText(*nodes, "more node"),
            verb(*nodes, "looks", "look"),
            verb(*nodes, "advertises", "advertise"),
        )
    }
}

/// `2 without label "rack=r7"`, and the flavor that requires it.
impl fmt::Display for MissingLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = format!("{}={}", self.key, self.value);
        write!(f, "{} without label {label:?}", self.nodes)?;
        match &self.flavor {
            Some(flavor) => write!(f, " of flavor {:?}", flavor.as_str()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Exclusions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes == 0 {
            return f.write_str("there are no nodes");
        }
        write!(f, "none of {} matches: ", CountText(self.nodes, "node"))?;
        f.write_str(&self.list_counts())?;
        if let Some(UnadvertisedDevice { resource, nodes }) = &self.unadvertised {
            write!(
                f,
                "; {nodes} of those {} as if with {resource} but {} none: look at the device plugin there",
                verb(*nodes, "looks", "look"),
                verb(*nodes, "advertises", "advertise"),
            )?;
        }
        Ok(())
    }
}

impl Exclusions {
    /// `2 not ready, 1 cordoned`.
    fn list_counts(&self) -> String {
        let some = |counts: &[(u32, &str)]| -> Vec<String> {
            let some = counts.iter().filter(|(nodes, _)| *nodes > 0);
            some.map(|(nodes, why)| format!("{nodes} {why}")).collect()
        };
        let mut parts = some(&[(self.not_ready, "not ready")]);
        for (why, nodes) in &self.unhealthy {
            parts.push(format!("{nodes} with {why}"));
        }
        parts.extend(some(&[
            (self.unschedulable, "cordoned"),
            (self.excluded, "left out after a failure there"),
        ]));
        parts.extend(self.labels.iter().map(ToString::to_string));
        parts.extend(some(&[(self.affinity, "not allowed by node affinity")]));
        for (taint, nodes) in &self.taints {
            parts.push(format!(
                "{nodes} with taint {taint:?}, which is not tolerated"
            ));
        }
        parts.extend(some(&[
            (self.volumes, "out of reach of a mounted volume"),
            (
                self.anti_affinity,
                "where anti-affinity of other pods keeps it out",
            ),
        ]));
        for (resource, nodes) in &self.missing_resource {
            parts.push(format!("{nodes} without {resource}"));
        }
        parts.join(", ")
    }
}

/// The reasons that keep the group off the other nodes, as an addition to a sentence about the
/// matching nodes.
struct ExclusionsSuffix<'a>(u32, &'a Exclusions);

impl fmt::Display for ExclusionsSuffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(matching, others) = self;
        let left = others.nodes.saturating_sub(*matching);
        if left == 0 {
            return Ok(());
        }
        write!(
            f,
            "; {left} of {} {} not match: {}",
            CountText(others.nodes, "node"),
            verb(left, "does", "do"),
            others.list_counts()
        )
    }
}
