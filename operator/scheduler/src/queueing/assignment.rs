//! The flavor assignments that a gang may get, the best first.

use std::collections::{BTreeMap, BTreeSet};

use super::flavors::Flavors;
use crate::gang::{Gang, TaskGroup};
use crate::ids::{FlavorName, ResourceName};
use crate::queue::{FlavorQuotas, ResourceGroup};

/// Assignments that are tried at most. A gang has few task groups and a queue few flavors. If there
/// are more assignments than this, some are left out and the explanation says so.
const WAYS: usize = 64;

/// Choices per group that are considered at most.
const CHOICES: usize = 256;

/// The flavor of each resource of one task group.
pub(crate) type Choice = BTreeMap<ResourceName, FlavorName>;

/// Why a gang has no flavor assignment at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoWay {
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
pub(crate) fn choices(
    gang: &Gang,
    offered: &[ResourceGroup],
    flavors: &Flavors,
) -> Result<Vec<Vec<Choice>>, NoWay> {
    let groups = gang.groups.iter().enumerate();
    let choices = groups.map(|(number, group)| {
        if offered.is_empty() {
            choices_of_all(number, group, flavors)
        } else {
            choices_of(number, group, offered, flavors)
        }
    });
    choices.collect()
}

/// Flavor assignments of a gang: a choice for each of its task groups. Ordered by the preference of
/// the first group, then of the second, and so on. If there are too many to try, the result has
/// those in which all groups take the same rank in their order, and the first of the rest. Returns
/// true if some are left out.
pub(crate) fn combine(choices: &[Vec<Choice>]) -> (Vec<Vec<Choice>>, bool) {
    let all = choices.iter().map(Vec::len);
    let cut = all.clone().fold(1, usize::saturating_mul) > WAYS;
    let alike: Vec<Vec<usize>> = if cut {
        let most = all.clone().max().unwrap_or(0).min(WAYS);
        let last = |number: usize, len: usize| number.min(len.saturating_sub(1));
        (0..most)
            .map(|number| all.clone().map(|len| last(number, len)).collect())
            .collect()
    } else {
        Vec::new()
    };
    let others = WAYS.saturating_sub(alike.len());
    let mut ways = first(choices, if cut { others } else { WAYS });
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
fn first(choices: &[Vec<Choice>], most: usize) -> Vec<Vec<usize>> {
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
fn choices_of_all(
    number: usize,
    group: &TaskGroup,
    flavors: &Flavors,
) -> Result<Vec<Choice>, NoWay> {
    if group.flavors.is_empty() {
        return Ok(vec![Choice::new()]);
    }
    let choices: Vec<Choice> = group
        .flavors
        .iter()
        .filter(|flavor| flavors.exists(flavor) && flavors.accepts(flavor, group))
        .map(|flavor| {
            let needs = needs(group);
            needs.map(|r| (r.clone(), flavor.clone())).collect()
        })
        .collect();
    if choices.is_empty() {
        return Err(NoWay::NoFlavor {
            group: number,
            flavors: group.flavors.clone(),
        });
    }
    Ok(choices)
}

/// The resources that the pods of a group request.
fn needs(group: &TaskGroup) -> impl Iterator<Item = &ResourceName> {
    group
        .request
        .iter()
        .filter(|(_, amount)| *amount > 0)
        .map(|(resource, _)| resource)
}

fn choices_of(
    number: usize,
    group: &TaskGroup,
    offered: &[ResourceGroup],
    flavors: &Flavors,
) -> Result<Vec<Choice>, NoWay> {
    let needs: Vec<&ResourceName> = needs(group).collect();
    for resource in &needs {
        let named = offered.iter().any(|o| names(o, resource));
        if !named && resource.as_str() != "pods" {
            return Err(NoWay::NotOffered {
                group: number,
                resource: (*resource).clone(),
            });
        }
    }
    // A group that names flavors gets one of them, or none. A name may apply to some resources
    // only, but to at least one that the group needs.
    let its = |o: &&ResourceGroup| needs.iter().any(|r| names(o, r));
    let its_flavors = || offered.iter().filter(its).flat_map(|o| &o.flavors);
    if !group.flavors.is_empty() && !its_flavors().any(|f| group.flavors.contains(&f.flavor)) {
        let offers: BTreeSet<FlavorName> = its_flavors().map(|f| f.flavor.clone()).collect();
        return Err(NoWay::NotOfferedFlavor {
            group: number,
            offers: offers.into_iter().collect(),
        });
    }
    let mut choices: Vec<Choice> = vec![Choice::new()];
    for offered in offered {
        let mut resources: Vec<&ResourceName> = needs
            .iter()
            .filter(|r| names(offered, r))
            .copied()
            .collect();
        // The pods themselves are counted if a resource group names `pods`.
        let pods = ResourceName::new("pods");
        if names(offered, &pods) && !resources.contains(&&pods) {
            resources.push(&pods);
        }
        if resources.is_empty() {
            continue;
        }
        let wanted = wanted(group, offered);
        let accepted: Vec<&FlavorName> = wanted
            .iter()
            .filter(|flavor| flavors.exists(flavor) && flavors.accepts(flavor, group))
            .copied()
            .collect();
        if accepted.is_empty() {
            return Err(NoWay::NoFlavor {
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
            .take(CHOICES)
            .collect();
    }
    Ok(choices)
}

fn names(offered: &ResourceGroup, resource: &ResourceName) -> bool {
    offered
        .flavors
        .first()
        .is_some_and(|f: &FlavorQuotas| f.quotas.contains_key(resource))
}

/// The flavors of these resources that the group wants, in its order. If it names none of them, it
/// means other resources: then all flavors, in the queue's order.
fn wanted<'a>(group: &TaskGroup, offered: &'a ResourceGroup) -> Vec<&'a FlavorName> {
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
mod tests {
    use super::*;
    use crate::ids::{GangId, GroupName, QueueName};
    use crate::queue::Flavor;
    use crate::quota::Quota;
    use crate::resources::Resources;

    fn group(name: &str, gpus: i64, flavors: &[&str]) -> TaskGroup {
        let request = Resources::new().with("cpu", 1).with("gpu", gpus);
        TaskGroup {
            flavors: flavors.iter().map(|f| FlavorName::new(*f)).collect(),
            ..TaskGroup::new(GroupName::new(name), 1, request, name.to_owned())
        }
    }

    /// The assignments that the engine computes, if all of them may be tried.
    fn ways(
        gang: &Gang,
        offered: &[ResourceGroup],
        flavors: &Flavors,
    ) -> Result<Vec<Vec<Choice>>, NoWay> {
        let (ways, cut) = combine(&choices(gang, offered, flavors)?);
        assert!(!cut);
        Ok(ways)
    }

    fn gang(groups: Vec<TaskGroup>) -> Gang {
        Gang::new(GangId::new("a/b"), QueueName::new("q"), groups)
    }

    fn offer(resources: &[&str], flavors: &[&str]) -> ResourceGroup {
        ResourceGroup {
            flavors: flavors
                .iter()
                .map(|flavor| FlavorQuotas {
                    flavor: FlavorName::new(*flavor),
                    quotas: resources
                        .iter()
                        .map(|r| (ResourceName::new(*r), Quota::default()))
                        .collect(),
                })
                .collect(),
        }
    }

    fn defined(names: &[&str]) -> Flavors {
        let mut flavors = Flavors::default();
        for name in names {
            flavors.apply(Flavor {
                name: FlavorName::new(*name),
                node_labels: BTreeMap::new(),
                node_taints: vec![],
                tolerations: vec![],
            });
        }
        flavors
    }

    fn text(ways: &[Vec<Choice>]) -> Vec<String> {
        let choice = |c: &Choice| {
            let parts: Vec<String> = c.iter().map(|(r, f)| format!("{r}={f}")).collect();
            parts.join(",")
        };
        ways.iter()
            .map(|way| way.iter().map(choice).collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn the_queues_order_the_jobs_order_and_one_flavor_for_resources_that_belong_together() {
        let offered = [offer(&["cpu", "gpu"], &["h100", "a100"])];
        let flavors = defined(&["h100", "a100"]);
        let any = gang(vec![group("w", 1, &[])]);
        assert_eq!(
            text(&ways(&any, &offered, &flavors).unwrap()),
            ["cpu=h100,gpu=h100", "cpu=a100,gpu=a100"]
        );
        let own = gang(vec![group("w", 1, &["a100", "h100"])]);
        assert_eq!(
            text(&ways(&own, &offered, &flavors).unwrap()),
            ["cpu=a100,gpu=a100", "cpu=h100,gpu=h100"]
        );
        let one = gang(vec![group("w", 1, &["a100"])]);
        assert_eq!(
            text(&ways(&one, &offered, &flavors).unwrap()),
            ["cpu=a100,gpu=a100"]
        );
    }

    #[test]
    fn resource_groups_are_chosen_apart() {
        let offered = [
            offer(&["cpu"], &["spot", "own"]),
            offer(&["gpu"], &["h100"]),
        ];
        let flavors = defined(&["spot", "own", "h100"]);
        let both = gang(vec![group("w", 1, &[]), group("master", 0, &["own"])]);
        assert_eq!(
            text(&ways(&both, &offered, &flavors).unwrap()),
            ["cpu=spot,gpu=h100 cpu=own", "cpu=own,gpu=h100 cpu=own"]
        );
    }

    #[test]
    fn what_is_not_offered_or_not_defined_says_so() {
        let offered = [offer(&["cpu"], &["gone"])];
        let none = ways(&gang(vec![group("w", 1, &[])]), &offered, &defined(&[]));
        assert_eq!(
            none,
            Err(NoWay::NotOffered {
                group: 0,
                resource: ResourceName::new("gpu")
            })
        );
        let none = ways(&gang(vec![group("w", 0, &[])]), &offered, &defined(&[]));
        assert_eq!(
            none,
            Err(NoWay::NoFlavor {
                group: 0,
                flavors: vec![FlavorName::new("gone")]
            })
        );
    }

    #[test]
    fn a_flavor_that_a_group_names_is_never_left_out_of_account() {
        let flavors = defined(&["spot", "own", "h100"]);
        let nosuch = gang(vec![group("w", 1, &["nosuch"])]);
        let offered = [
            offer(&["cpu"], &["spot", "own"]),
            offer(&["gpu"], &["h100"]),
        ];
        let offers = ["h100", "own", "spot"].map(FlavorName::new).to_vec();
        assert_eq!(
            ways(&nosuch, &offered, &flavors),
            Err(NoWay::NotOfferedFlavor { group: 0, offers })
        );
        // A name of one resource group says nothing about another ...
        let gpu = gang(vec![group("w", 1, &["h100"])]);
        assert_eq!(
            text(&ways(&gpu, &offered, &flavors).unwrap()),
            ["cpu=spot,gpu=h100", "cpu=own,gpu=h100"]
        );
        // ... but one of resources that the group does not need is none of its.
        let cpu = gang(vec![group("w", 0, &["h100"])]);
        let offers = ["own", "spot"].map(FlavorName::new).to_vec();
        assert_eq!(
            ways(&cpu, &offered, &flavors),
            Err(NoWay::NotOfferedFlavor { group: 0, offers })
        );
    }

    #[test]
    fn without_quotas_a_flavor_is_its_nodes() {
        let flavors = defined(&["h100"]);
        let of = |names: &[&str]| ways(&gang(vec![group("w", 1, names)]), &[], &flavors);
        assert_eq!(text(&of(&[]).unwrap()), [""]);
        assert_eq!(text(&of(&["gone", "h100"]).unwrap()), ["cpu=h100,gpu=h100"]);
        let gone = vec![FlavorName::new("gone")];
        assert_eq!(
            of(&["gone"]),
            Err(NoWay::NoFlavor {
                group: 0,
                flavors: gone
            })
        );
    }

    #[test]
    fn past_the_bound_groups_that_take_the_same_are_still_tried() {
        let names: Vec<String> = (0..16).map(|i| format!("f{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let offered = [offer(&["cpu", "gpu"], &names)];
        let groups = (0..16).map(|i| group(&format!("g{i}"), 1, &[])).collect();
        let choices = choices(&gang(groups), &offered, &defined(&names)).unwrap();
        let (found, cut) = combine(&choices);
        assert!(cut && found.len() <= WAYS && found.len() > WAYS / 2);
        for name in names {
            let all =
                |way: &&Vec<Choice>| way.iter().all(|c| c.values().all(|f| f.as_str() == name));
            assert_eq!(found.iter().filter(all).count(), 1, "{name}");
        }
        let few: Vec<Vec<Choice>> = choices.into_iter().take(1).collect();
        assert!(matches!(combine(&few), (ways, false) if ways.len() == 16));
    }
}
