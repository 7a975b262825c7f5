//! The sentences about nodes that have no place for a gang.

use std::fmt;

use super::{
    AmountWithVerb, CountText, ExclusionsSuffix, GroupPrefix, UnadvertisedSuffix, amount_text, verb,
};
use crate::explain::WaitDetail;

impl WaitDetail {
    /// Writes the sentences about reasons that would remain if all other gangs ended.
    pub(super) fn write_never(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodesAvoided { avoided } => write!(
                f,
                "{} left out for a while after a failure there, and the others do not suffice",
                if *avoided == 1 {
                    "1 node is".to_owned()
                } else {
                    format!("{avoided} nodes are")
                }
            ),
            Self::NoMatchingNodes { group, exclusions } => {
                write!(f, "{}{exclusions}", GroupPrefix(group))
            }
            Self::PodTooLarge {
                group,
                resource: Some(resource),
                needs,
                largest,
                nodes,
                unadvertised: silent,
                exclusions: others,
            } => {
                write!(
                    f,
                    "{}needs {} {resource} on one node; the largest of {} has {}{}{}",
                    GroupPrefix(group),
                    amount_text(resource, *needs),
                    CountText(*nodes, "matching node"),
                    amount_text(resource, *largest),
                    UnadvertisedSuffix(silent),
                    ExclusionsSuffix(*nodes, others),
                )
            }
            Self::PodTooLarge {
                group,
                resource: None,
                nodes,
                unadvertised: silent,
                exclusions: others,
                ..
            } => write!(
                f,
                "{}none of {} has all that one pod needs, even when empty{}{}",
                GroupPrefix(group),
                CountText(*nodes, "matching node"),
                UnadvertisedSuffix(silent),
                ExclusionsSuffix(*nodes, others),
            ),
            Self::ClusterTooSmall {
                group,
                resource,
                needs,
                capacity,
                nodes,
                unadvertised: silent,
                exclusions: others,
            } => write!(
                f,
                "{}needs {} {resource}; {} {} {} even when empty{}{}",
                GroupPrefix(group),
                amount_text(resource, *needs),
                CountText(*nodes, "matching node"),
                verb(*nodes, "has", "have"),
                amount_text(resource, *capacity),
                UnadvertisedSuffix(silent),
                ExclusionsSuffix(*nodes, others),
            ),
            Self::TooFewPlaces {
                group,
                pods,
                room: Some(room),
                nodes,
                unadvertised: silent,
                exclusions: others,
            } => write!(
                f,
                "{}{} {} room for {room} of {} even when empty{}{}",
                GroupPrefix(group),
                CountText(*nodes, "matching node"),
                verb(*nodes, "has", "have"),
                CountText(*pods, "pod"),
                UnadvertisedSuffix(silent),
                ExclusionsSuffix(*nodes, others),
            ),
            Self::TooFewPlaces {
                pods,
                room: None,
                nodes,
                unadvertised: silent,
                exclusions: others,
                ..
            } => write!(
                f,
                "each task group would fit alone, but {} {} not hold all {} together even when empty{}{}",
                CountText(*nodes, "matching node"),
                verb(*nodes, "does", "do"),
                CountText(*pods, "pod"),
                UnadvertisedSuffix(silent),
                ExclusionsSuffix(*nodes, others),
            ),
            _ => Ok(()),
        }
    }

    /// Writes the sentences about capacity that is not free now.
    pub(super) fn write_not_now(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InsufficientCapacity {
                group,
                resource,
                needs,
                free,
                missing,
                nodes,
                used_by_gangs: held_by_gangs,
                used_by_external_pods: held_by_others,
            } => write!(
                f,
                "{}needs {} {resource}, {} free on {}: {} missing; gangs hold {}, other pods {}",
                GroupPrefix(group),
                amount_text(resource, *needs),
                AmountWithVerb(amount_text(resource, *free)),
                CountText(*nodes, "matching node"),
                AmountWithVerb(amount_text(resource, *missing)),
                amount_text(resource, *held_by_gangs),
                amount_text(resource, *held_by_others),
            ),
            Self::Scattered {
                group,
                resource,
                needs,
                pods: 1,
                free,
                nodes,
                largest_free: most,
                ..
            } => write!(
                f,
                "{}needs {} {resource} on one node; {} free on {}, at most {} on one",
                GroupPrefix(group),
                amount_text(resource, *needs),
                AmountWithVerb(amount_text(resource, *free)),
                CountText(*nodes, "node"),
                amount_text(resource, *most),
            ),
            Self::Scattered {
                group,
                resource,
                needs,
                pods,
                room,
                free,
                nodes,
                largest_free: most,
            } => write!(
                f,
                "{}{} need {} {resource} each; {} free on {}, at most {} on one: room for {room}",
                GroupPrefix(group),
                CountText(*pods, "pod"),
                amount_text(resource, *needs),
                AmountWithVerb(amount_text(resource, *free)),
                CountText(*nodes, "node"),
                amount_text(resource, *most),
            ),
            Self::SeparateResources {
                group,
                resource,
                needs,
                pods,
                room,
                nodes,
                missing_resource: lacking,
                missing_resource_nodes: lacking_nodes,
            } => write!(
                f,
                "{}{} {} {} {resource}{}, free on {}, of which {lacking_nodes} {} too little {lacking}: room for {room}",
                GroupPrefix(group),
                CountText(*pods, "pod"),
                verb(*pods, "needs", "need"),
                amount_text(resource, *needs),
                verb(*pods, "", " each"),
                CountText(*nodes, "node"),
                verb(*lacking_nodes, "has", "have"),
            ),
            Self::GroupsCollide {
                pods,
                nodes,
                certain,
            } => write!(
                f,
                "each task group fits alone, but {} {} no room for all {} together{}",
                CountText(*nodes, "matching node"),
                verb(*nodes, "has", "have"),
                CountText(*pods, "pod"),
                if *certain {
                    ""
                } else {
                    "; not every way was tried"
                },
            ),
            _ => Ok(()),
        }
    }
}
