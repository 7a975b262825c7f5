//! The flavor assignments that a gang may get, the best first.

use std::collections::{BTreeMap, BTreeSet};

use super::flavors::Flavors;
use crate::gang::{Gang, TaskGroup};
use crate::ids::{FlavorName, ResourceName};
use crate::queue::{FlavorQuotas, ResourceGroup};

/// Assignments that are tried at most. A gang has few task groups and a queue few flavors. If there
/// are more assignments than this, some are left out and the explanation says so.
const MAX_ASSIGNMENTS: usize = 64;

/// Choices per group that are considered at most.
const MAX_CHOICES: usize = 256;

/// The flavor of each resource of one task group.
pub(crate) type FlavorChoice = BTreeMap<ResourceName, FlavorName>;

/// Why a gang has no flavor assignment at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoFlavorAssignment {
    /// The queue names no quota of a resource that a group requests.
    NotOffered {
        group: usize,
        resource: ResourceName,
    },
    /// No flavor of the queue is defined, and accepted and tolerated by the group.
    NoFlavor {
        group: usize,
        flavors: Vec<FlavorName>,
    },
    /// The group names flavors, and the queue offers none of them.
    NotOfferedFlavor {
        group: usize,
        offers: Vec<FlavorName>,
    },
}

/// The choices of each task group, in its order of preference.
///
/// # Errors
///
/// The first group that has no choice, and why.
pub(crate) fn flavor_choices(
    gang: &Gang,
    offered: &[ResourceGroup],
    flavors: &Flavors,
) -> Result<Vec<Vec<FlavorChoice>>, NoFlavorAssignment> {
    let groups = gang.groups.iter().enumerate();
    let choices = groups.map(|(number, group)| {
        if offered.is_empty() {
            choices_without_quotas(number, group, flavors)
        } else {
            group_choices(number, group, offered, flavors)
        }
    });
    choices.collect()
}

/// Flavor assignments of a gang: a choice for each of its task groups. Ordered by the preference of
/// the first group, then of the second, and so on. If there are too many to try, the result has
/// those in which all groups take the same rank in their order, and the first of the rest. Returns
/// true if some are left out.
pub(crate) fn combine(choices: &[Vec<FlavorChoice>]) -> (Vec<Vec<FlavorChoice>>, bool) {
    let all = choices.iter().map(Vec::len);
    let cut = all.clone().fold(1, usize::saturating_mul) > MAX_ASSIGNMENTS;
    let alike: Vec<Vec<usize>> = if cut {
        let most = all.clone().max().unwrap_or(0).min(MAX_ASSIGNMENTS);
        let last = |number: usize, len: usize| number.min(len.saturating_sub(1));
        (0..most)
            .map(|number| all.clone().map(|len| last(number, len)).collect())
            .collect()
    } else {
        Vec::new()
    };
    let others = MAX_ASSIGNMENTS.saturating_sub(alike.len());
    let mut ways = first_combinations(choices, if cut { others } else { MAX_ASSIGNMENTS });
    ways.extend(alike);
    ways.sort_unstable();
    ways.dedup();
    let way = |numbers: Vec<usize>| {
        let each = choices.iter().zip(numbers);
        each.filter_map(|(choices, number)| choices.get(number).cloned())
            .collect()
    };
    (ways.into_iter().map(way).collect(), cut)
}

/// The first `most` assignments, by the number of each group's choice.
fn first_combinations(choices: &[Vec<FlavorChoice>], most: usize) -> Vec<Vec<usize>> {
    let mut ways: Vec<Vec<usize>> = vec![Vec::new()];
    for choices in choices {
        ways = ways
            .into_iter()
            .flat_map(|way| {
                (0..choices.len()).map(move |number| {
                    let mut way = way.clone();
                    way.push(number);
                    way
                })
            })
            .take(most)
            .collect();
    }
    ways
}

/// A queue without quotas offers what the nodes have: every flavor that the group names, or no
/// flavor if it names none.
fn choices_without_quotas(
    number: usize,
    group: &TaskGroup,
    flavors: &Flavors,
) -> Result<Vec<FlavorChoice>, NoFlavorAssignment> {
    if group.flavors.is_empty() {
        return Ok(vec![FlavorChoice::new()]);
    }
    let choices: Vec<FlavorChoice> = group
        .flavors
        .iter()
        .filter(|flavor| flavors.exists(flavor) && flavors.accepts(flavor, group))
        .map(|flavor| {
            let needs = requested_resources(group);
            needs.map(|r| (r.clone(), flavor.clone())).collect()
        })
        .collect();
    if choices.is_empty() {
        return Err(NoFlavorAssignment::NoFlavor {
            group: number,
            flavors: group.flavors.clone(),
        });
    }
    Ok(choices)
}

/// The resources that the pods of a group request.
fn requested_resources(group: &TaskGroup) -> impl Iterator<Item = &ResourceName> {
    group
        .request
        .iter()
        .filter(|(_, amount)| *amount > 0)
        .map(|(resource, _)| resource)
}

fn group_choices(
    number: usize,
    group: &TaskGroup,
    offered: &[ResourceGroup],
    flavors: &Flavors,
) -> Result<Vec<FlavorChoice>, NoFlavorAssignment> {
    let needs: Vec<&ResourceName> = requested_resources(group).collect();
    for resource in &needs {
        let named = offered.iter().any(|o| offers_resource(o, resource));
        if !named && resource.as_str() != "pods" {
            return Err(NoFlavorAssignment::NotOffered {
                group: number,
                resource: (*resource).clone(),
            });
        }
    }
    // A group that names flavors gets one of them, or none. A name may apply to some resources
    // only, but to at least one that the group needs.
    let its = |o: &&ResourceGroup| needs.iter().any(|r| offers_resource(o, r));
    let its_flavors = || offered.iter().filter(its).flat_map(|o| &o.flavors);
    if !group.flavors.is_empty() && !its_flavors().any(|f| group.flavors.contains(&f.flavor)) {
        let offers: BTreeSet<FlavorName> = its_flavors().map(|f| f.flavor.clone()).collect();
        return Err(NoFlavorAssignment::NotOfferedFlavor {
            group: number,
            offers: offers.into_iter().collect(),
        });
    }
    let mut choices: Vec<FlavorChoice> = vec![FlavorChoice::new()];
    for offered in offered {
        let mut resources: Vec<&ResourceName> = needs
            .iter()
            .filter(|r| offers_resource(offered, r))
            .copied()
            .collect();
        // The pods themselves are counted if a resource group names `pods`.
        let pods = ResourceName::new("pods");
        if offers_resource(offered, &pods) && !resources.contains(&&pods) {
            resources.push(&pods);
        }
        if resources.is_empty() {
            continue;
        }
        let wanted = wanted_flavors(group, offered);
        let accepted: Vec<&FlavorName> = wanted
            .iter()
            .filter(|flavor| flavors.exists(flavor) && flavors.accepts(flavor, group))
            .copied()
            .collect();
        if accepted.is_empty() {
            return Err(NoFlavorAssignment::NoFlavor {
                group: number,
                flavors: wanted.into_iter().cloned().collect(),
            });
        }
        choices = choices
            .into_iter()
            .flat_map(|choice| {
                accepted.iter().map({
                    let resources = &resources;
                    move |flavor| {
                        let mut choice = choice.clone();
                        for resource in resources {
                            choice.insert((*resource).clone(), (*flavor).clone());
                        }
                        choice
                    }
                })
            })
            .take(MAX_CHOICES)
            .collect();
    }
    Ok(choices)
}

fn offers_resource(offered: &ResourceGroup, resource: &ResourceName) -> bool {
    offered
        .flavors
        .first()
        .is_some_and(|f: &FlavorQuotas| f.quotas.contains_key(resource))
}

/// The flavors of these resources that the group wants, in its order. If it names none of them, it
/// means other resources: then all flavors, in the queue's order.
fn wanted_flavors<'a>(group: &TaskGroup, offered: &'a ResourceGroup) -> Vec<&'a FlavorName> {
    let all = || offered.flavors.iter().map(|f| &f.flavor);
    let named: Vec<&FlavorName> = group
        .flavors
        .iter()
        .filter_map(|flavor| all().find(|offered| *offered == flavor))
        .collect();
    if named.is_empty() {
        all().collect()
    } else {
        named
    }
}

#[cfg(test)]
mod tests;
