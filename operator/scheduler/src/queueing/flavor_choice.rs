//! The flavor assignments that a gang may get, the best first.

mod shared;

use std::collections::{BTreeMap, BTreeSet};

use shared::SharingGroups;

use super::flavors::Flavors;
use crate::gang::{Gang, TaskGroup};
use crate::ids::{FlavorName, ResourceName};
use crate::queue::{FlavorQuotas, ResourceGroup};

/// The largest number of assignments that the engine tries. A gang has few task groups and a queue
/// few flavors. If there are more assignments, the engine leaves some out and the explanation says
/// so.
const MAX_ASSIGNMENTS: usize = 64;

/// The largest number of choices per group that the engine considers.
const MAX_CHOICES: usize = 256;

/// The flavor of each resource of one task group.
pub(crate) type FlavorChoice = BTreeMap<ResourceName, FlavorName>;

/// The reason why a gang has no flavor assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoFlavorAssignment {
    /// The queue names no quota of a resource that a group requests.
    NotOffered {
        group: usize,
        resource: ResourceName,
    },
    /// The group may use no flavor of the queue: each is undefined, or the group does not accept or
    /// tolerate it.
    NoFlavor {
        group: usize,
        flavors: Vec<FlavorName>,
    },
    /// The group names flavors, and the queue offers none of them.
    NotOfferedFlavor {
        group: usize,
        offers: Vec<FlavorName>,
    },
    /// These groups must get the same flavor, and no flavor suits all of them. Each has the flavors that
    /// it accepts. If these are empty, the queue has no quotas, and no group names a flavor.
    NoSharedFlavor {
        groups: Vec<(usize, Vec<FlavorName>)>,
    },
}

/// Returns the choices of each task group, in its order of preference.
///
/// # Errors
///
/// The first group that has no choice, or the first groups that share no flavor, and why.
pub(crate) fn flavor_choices(
    gang: &Gang,
    offered: &[ResourceGroup],
    flavors: &Flavors,
) -> Result<Vec<Vec<FlavorChoice>>, NoFlavorAssignment> {
    let sharing = SharingGroups::of_gang(gang);
    let no_shared_flavor = |groups: &[usize]| {
        let accepted = |group: usize| sharing.accepted_flavors(gang, group).to_vec();
        let groups = groups.iter().map(|group| (*group, accepted(*group)));
        NoFlavorAssignment::NoSharedFlavor {
            groups: groups.collect(),
        }
    };
    if offered.is_empty()
        && let Some(groups) = sharing.find_unnamed(gang)
    {
        return Err(no_shared_flavor(groups));
    }
    let groups = gang.groups.iter().enumerate();
    let choices = groups.map(|(number, group)| {
        let accepted = sharing.accepted_flavors(gang, number);
        if offered.is_empty() {
            choices_without_quotas((number, group, accepted), flavors)
        } else {
            group_choices((number, group, accepted), offered, flavors)
        }
    });
    let choices: Vec<Vec<FlavorChoice>> = choices.collect::<Result<_, _>>()?;
    match sharing.find_conflict(&choices) {
        Some(groups) => Err(no_shared_flavor(&groups)),
        None => Ok(choices),
    }
}

/// Returns flavor assignments of a gang: a choice for each of its task groups. The order follows
/// the preference of the first group, then of the second, and so on. If there are too many to try,
/// the result has the assignments in which all groups use the choice of the same rank, and the
/// first of the rest. The second value is true if the result leaves some out.
pub(crate) fn combine(
    gang: &Gang,
    choices: &[Vec<FlavorChoice>],
) -> (Vec<Vec<FlavorChoice>>, bool) {
    let sharing = SharingGroups::of_gang(gang);
    let shared = sharing.choices(choices);
    let all = shared.iter().map(|shared| shared.numbers.len());
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
    let mut ways = first_combinations(all, if cut { others } else { MAX_ASSIGNMENTS });
    ways.extend(alike);
    ways.sort_unstable();
    ways.dedup();
    let way = |ranks: Vec<usize>| {
        let mut way = vec![FlavorChoice::new(); choices.len()];
        for (group, number) in shared.iter().zip(ranks).flat_map(|(s, rank)| s.at(rank)) {
            let choice = choices.get(group).and_then(|choices| choices.get(number));
            if let (Some(slot), Some(choice)) = (way.get_mut(group), choice) {
                slot.clone_from(choice);
            }
        }
        way
    };
    let cut = cut || shared.iter().any(|shared| shared.is_cut);
    (ways.into_iter().map(way).collect(), cut)
}

/// A combination has one number for each length, and each number is smaller than its length. Returns
/// the first `most` combinations.
fn first_combinations(lengths: impl Iterator<Item = usize>, most: usize) -> Vec<Vec<usize>> {
    let mut ways: Vec<Vec<usize>> = vec![Vec::new()];
    for length in lengths {
        ways = ways
            .into_iter()
            .flat_map(|way| {
                (0..length).map(move |number| {
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

/// Returns the choices of a group in a queue without quotas. The queue offers all that the nodes
/// have: every flavor that the group accepts, or no flavor if the group accepts any.
fn choices_without_quotas(
    (number, group, accepted): (usize, &TaskGroup, &[FlavorName]),
    flavors: &Flavors,
) -> Result<Vec<FlavorChoice>, NoFlavorAssignment> {
    if accepted.is_empty() {
        return Ok(vec![FlavorChoice::new()]);
    }
    let choices: Vec<FlavorChoice> = accepted
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
            flavors: accepted.to_vec(),
        });
    }
    Ok(choices)
}

/// Returns the resources that the pods of a group request.
fn requested_resources(group: &TaskGroup) -> impl Iterator<Item = &ResourceName> {
    group
        .request
        .iter()
        .filter(|(_, amount)| *amount > 0)
        .map(|(resource, _)| resource)
}

fn group_choices(
    (number, group, accepted): (usize, &TaskGroup, &[FlavorName]),
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
    // A group that names flavors gets one of them, or no assignment. A named flavor need not apply
    // to all resources of the group, but must apply to at least one.
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
        // If a resource group names `pods`, the pods themselves count too.
        let pods = ResourceName::new("pods");
        if offers_resource(offered, &pods) && !resources.contains(&&pods) {
            resources.push(&pods);
        }
        if resources.is_empty() {
            continue;
        }
        let wanted = wanted_flavors(accepted, offered);
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

/// Returns the flavors of `offered` that `accepted` contains, in the order of `accepted`. If `accepted`
/// contains none of them, its names apply to other resources. The result then has all flavors, in
/// the queue's order.
fn wanted_flavors<'a>(accepted: &[FlavorName], offered: &'a ResourceGroup) -> Vec<&'a FlavorName> {
    let all = || offered.flavors.iter().map(|f| &f.flavor);
    let wanted: Vec<&FlavorName> = accepted
        .iter()
        .filter_map(|flavor| all().find(|offered| *offered == flavor))
        .collect();
    if wanted.is_empty() {
        all().collect()
    } else {
        wanted
    }
}

#[cfg(test)]
mod tests;
