//! The sentences about nodes that have no place for a gang.

use std::fmt;

use super::{And, Besides, Count, Is, Of, amount, verb};
use crate::explain::Detail;

impl Detail {
    /// The sentences about reasons that would remain if all other gangs ended.
    pub(super) fn never(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
                write!(f, "{}{exclusions}", Of(group))
            }
            Self::PodTooLarge {
                group,
                resource: Some(resource),
                needs,
                largest,
                nodes,
                silent,
                others,
            } => {
                write!(
                    f,
                    "{}needs {} {resource} on one node; the largest of {} has {}{}{}",
                    Of(group),
                    amount(resource, *needs),
                    Count(*nodes, "matching node"),
                    amount(resource, *largest),
                    And(silent),
                    Besides(*nodes, others),
                )
            }
            Self::PodTooLarge {
                group,
                resource: None,
                nodes,
                silent,
                others,
                ..
            } => write!(
                f,
                "{}none of {} has all that one pod needs, even when empty{}{}",
                Of(group),
                Count(*nodes, "matching node"),
                And(silent),
                Besides(*nodes, others),
            ),
            Self::ClusterTooSmall {
                group,
                resource,
                needs,
                capacity,
                nodes,
                silent,
                others,
            } => write!(
                f,
                "{}needs {} {resource}; {} {} {} even when empty{}{}",
                Of(group),
                amount(resource, *needs),
                Count(*nodes, "matching node"),
                verb(*nodes, "has", "have"),
                amount(resource, *capacity),
                And(silent),
                Besides(*nodes, others),
            ),
            Self::TooFewPlaces {
                group,
                pods,
                room: Some(room),
                nodes,
                silent,
                others,
            } => write!(
                f,
                "{}{} {} room for {room} of {} even when empty{}{}",
                Of(group),
                Count(*nodes, "matching node"),
                verb(*nodes, "has", "have"),
                Count(*pods, "pod"),
                And(silent),
                Besides(*nodes, others),
            ),
            Self::TooFewPlaces {
                pods,
                room: None,
                nodes,
                silent,
                others,
                ..
            } => write!(
                f,
                "each task group would fit alone, but {} {} not hold all {} together even when empty{}{}",
                Count(*nodes, "matching node"),
                verb(*nodes, "does", "do"),
                Count(*pods, "pod"),
                And(silent),
                Besides(*nodes, others),
            ),
            _ => Ok(()),
        }
    }

    /// The sentences about what is not free now.
    pub(super) fn not_now(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InsufficientCapacity {
                group,
                resource,
                needs,
                free,
                missing,
                nodes,
                held_by_gangs,
                held_by_others,
            } => write!(
                f,
                "{}needs {} {resource}, {} free on {}: {} missing; gangs hold {}, other pods {}",
                Of(group),
                amount(resource, *needs),
                Is(amount(resource, *free)),
                Count(*nodes, "matching node"),
                Is(amount(resource, *missing)),
                amount(resource, *held_by_gangs),
                amount(resource, *held_by_others),
            ),
            Self::Scattered {
                group,
                resource,
                needs,
                pods: 1,
                free,
                nodes,
                most,
                ..
            } => write!(
                f,
                "{}needs {} {resource} on one node; {} free on {}, at most {} on one",
                Of(group),
                amount(resource, *needs),
                Is(amount(resource, *free)),
                Count(*nodes, "node"),
                amount(resource, *most),
            ),
            Self::Scattered {
                group,
                resource,
                needs,
                pods,
                room,
                free,
                nodes,
                most,
            } => write!(
                f,
                "{}{} need {} {resource} each; {} free on {}, at most {} on one: room for {room}",
                Of(group),
                Count(*pods, "pod"),
                amount(resource, *needs),
                Is(amount(resource, *free)),
                Count(*nodes, "node"),
                amount(resource, *most),
            ),
            Self::Apart {
                group,
                resource,
                needs,
                pods,
                room,
                nodes,
                lacking,
                lacking_nodes,
            } => write!(
                f,
                "{}{} {} {} {resource}{}, free on {}, of which {lacking_nodes} {} too little {lacking}: room for {room}",
                Of(group),
                Count(*pods, "pod"),
                verb(*pods, "needs", "need"),
                amount(resource, *needs),
                verb(*pods, "", " each"),
                Count(*nodes, "node"),
                verb(*lacking_nodes, "has", "have"),
            ),
            Self::GroupsCollide {
                pods,
                nodes,
                certain,
            } => write!(
                f,
                "each task group fits alone, but {} {} no room for all {} together{}",
                Count(*nodes, "matching node"),
                verb(*nodes, "has", "have"),
                Count(*pods, "pod"),
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
