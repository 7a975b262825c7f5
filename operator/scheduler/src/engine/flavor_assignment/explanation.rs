//! Explains why a gang has no flavor assignment, or which flavor keeps it off the nodes.

use std::sync::Arc;

use super::FlavorAssignment;
use crate::engine::Engine;
use crate::explain::{FlavorMismatch, WaitDetail};
use crate::gang::{Gang, TaskGroup};
use crate::ids::{FlavorName, GroupName};
use crate::queueing::{Blockage, NoFlavorAssignment, Signal, WakeCondition};

impl Engine {
    /// Explains that the gang requests nodes that belong to none of its flavors.
    pub(in crate::engine) fn no_flavor_nodes(&self, gang: &Gang) -> Box<Blockage> {
        let offered = self.queues.offered_groups(&gang.queue, &self.catalog);
        let flavors = offered
            .iter()
            .flat_map(|g| &g.flavors)
            .map(|f| f.flavor.clone())
            .collect();
        let why = NoFlavorAssignment::NoFlavor { group: 0, flavors };
        self.no_assignment(gang, &why)
    }

    /// Names the flavor that requires a label that nodes lack. The cached explanation of a shape
    /// names no flavor, because gangs of other queues may have the same shape.
    pub(in crate::engine) fn add_flavor_names(
        &self,
        gang: &Gang,
        way: &FlavorAssignment,
        blocked: &mut Blockage,
    ) {
        let detail = &mut blocked.explanation.detail;
        let WaitDetail::NoMatchingNodes { group, exclusions } = detail.as_ref() else {
            return;
        };
        let at = gang
            .groups
            .iter()
            .position(|g| group.as_ref().is_none_or(|name| g.name == *name))
            .unwrap_or(0);
        let (Some(own), Some(choice)) = (gang.groups.get(at), way.choices.get(at)) else {
            return;
        };
        let own = &own.constraints.node_selector;
        let mut exclusions = exclusions.clone();
        for label in &mut exclusions.labels {
            if !own.contains_key(&label.key) {
                let flavors = self.queues.flavors();
                let mut chosen = choice.values();
                label.flavor = chosen
                    .find(|flavor| flavors.has_label_key(flavor, &label.key))
                    .cloned();
            }
        }
        let group = group.clone();
        *detail = Arc::new(WaitDetail::NoMatchingNodes { group, exclusions });
    }

    /// Returns the reason why a group may not use a flavor.
    fn flavor_mismatch(&self, flavor: &FlavorName, group: Option<&TaskGroup>) -> FlavorMismatch {
        let flavors = self.queues.flavors();
        if !flavors.exists(flavor) {
            FlavorMismatch::Undefined
        } else if group.is_some_and(|group| !flavors.accepts(flavor, group)) {
            FlavorMismatch::Untolerated
        } else {
            FlavorMismatch::OtherNodes
        }
    }

    /// Returns the explanation of a gang without a flavor assignment.
    pub(in crate::engine) fn no_assignment(
        &self,
        gang: &Gang,
        why: &NoFlavorAssignment,
    ) -> Box<Blockage> {
        let mut wake = WakeCondition::default();
        wake.on_rise(Signal::Queues, 1);
        let detail = match why {
            NoFlavorAssignment::NotOffered { group, resource } => {
                let needs = gang.groups.get(*group).map_or(0, |g| {
                    i128::from(g.request.get(resource)).saturating_mul(i128::from(g.count))
                });
                WaitDetail::NotOffered {
                    queue: gang.queue.clone(),
                    resource: resource.clone(),
                    needs,
                    offers: self.queues.resources_offered(&gang.queue, &self.catalog),
                }
            }
            NoFlavorAssignment::NoFlavor { group, flavors } => WaitDetail::FlavorNotFound {
                queue: gang.queue.clone(),
                group: group_name(gang, *group),
                flavors: flavors
                    .iter()
                    .map(|flavor| {
                        (
                            flavor.clone(),
                            self.flavor_mismatch(flavor, gang.groups.get(*group)),
                        )
                    })
                    .collect(),
            },
            NoFlavorAssignment::NotOfferedFlavor { group, offers } => {
                WaitDetail::FlavorNotOffered {
                    queue: gang.queue.clone(),
                    group: group_name(gang, *group),
                    flavors: gang
                        .groups
                        .get(*group)
                        .map_or_else(Vec::new, |g| g.flavors.clone()),
                    offers: offers.clone(),
                }
            }
            NoFlavorAssignment::NoSharedFlavor { groups } => {
                let groups = groups.iter().filter_map(|(group, accepted)| {
                    Some((gang.groups.get(*group)?.name.clone(), accepted.clone()))
                });
                WaitDetail::NoSharedFlavor {
                    queue: gang.queue.clone(),
                    groups: groups.collect(),
                }
            }
        };
        Blockage::new(detail, wake)
    }
}

/// Returns the name of a task group, if the gang has several.
fn group_name(gang: &Gang, group: usize) -> Option<GroupName> {
    let group = gang.groups.get(group).filter(|_| gang.groups.len() > 1);
    group.map(|g| g.name.clone())
}
