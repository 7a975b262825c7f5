//! Reads a plan in the engine's form.

use trellis_api::pod_group::{Plan, PlannedGroup};
use trellis_scheduler::{
    FlavorName, Gang, GroupFlavors, GroupName, NodeName, Placement, ResourceName,
};

use crate::GangIndexes;

/// Returns the placement of a plan.
#[must_use]
pub fn placement_from_plan(plan: &Plan) -> Placement {
    let mut placement = Placement::new();
    let mut groups: Vec<(&str, Vec<(NodeName, u32)>)> = Vec::new();
    for a in &plan.assignments {
        let run = (
            NodeName::new(a.node.as_str()),
            u32::try_from(a.count).unwrap_or(0),
        );
        match groups.last_mut() {
            Some((group, runs)) if *group == a.group => runs.push(run),
            _ => groups.push((a.group.as_str(), vec![run])),
        }
    }
    for (group, runs) in groups {
        placement.push(GroupName::new(group), runs);
    }
    placement
}

/// Gives the gang's pods the numbers that they have in the plan.
pub fn number_pods(gang: &mut Gang, plan: &Plan) {
    for group in &mut gang.groups {
        let indexes = GangIndexes::planned(plan, group.name.as_str(), group.count);
        group.starts = indexes.starts().to_vec();
    }
}

/// Returns the flavors of a plan's task groups, or of those of an order of new nodes.
#[must_use]
pub fn flavors_from_groups(groups: &[PlannedGroup]) -> Vec<GroupFlavors> {
    let groups = groups.iter().map(|group| GroupFlavors {
        group: GroupName::new(group.name.as_str()),
        flavors: group
            .flavors
            .iter()
            .map(|(r, f)| (ResourceName::new(r.as_str()), FlavorName::new(f.as_str())))
            .collect(),
    });
    groups.collect()
}
