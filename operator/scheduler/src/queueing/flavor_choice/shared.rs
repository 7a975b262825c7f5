//! Task groups that must get the same flavor.

use smallvec::SmallVec;

use super::{FlavorChoice, MAX_CHOICES};
use crate::gang::Gang;
use crate::ids::FlavorName;

/// The task groups of a gang, by number. Groups that must get the same flavor are together.
#[derive(Debug)]
pub(super) struct SharingGroups(Vec<Vec<usize>>);

/// The choices of task groups that must get the same flavor, the best first.
#[derive(Debug)]
pub(super) struct SharedChoices<'g> {
    groups: &'g [usize],
    /// For each joint choice, the number of each group's own choice.
    pub(super) numbers: Vec<SmallVec<[usize; 4]>>,
    /// True if there are more joint choices than the engine considers.
    pub(super) is_cut: bool,
}

impl SharingGroups {
    pub(super) fn of_gang(gang: &Gang) -> Self {
        // The number of the first group with the same flavor.
        let mut first: Vec<usize> = (0..gang.groups.len()).collect();
        for (number, group) in gang.groups.iter().enumerate() {
            let same = group.same_flavor_as.as_ref();
            let same = same.and_then(|same| gang.groups.iter().position(|g| g.stands_for(same)));
            let firsts = (
                first.get(number).copied(),
                same.and_then(|same| first.get(same).copied()),
            );
            if let (Some(one), Some(other)) = firsts {
                let (kept, replaced) = (one.min(other), one.max(other));
                first
                    .iter_mut()
                    .filter(|first| **first == replaced)
                    .for_each(|first| *first = kept);
            }
        }
        let members = |of: usize| {
            let numbers = first
                .iter()
                .enumerate()
                .filter(move |(_, first)| **first == of);
            numbers.map(|(number, _)| number).collect::<Vec<usize>>()
        };
        let sets = (0..gang.groups.len()).map(members);
        Self(sets.filter(|set| !set.is_empty()).collect())
    }

    /// Returns the flavors that a group accepts: those that it names, or else those that the first
    /// group of its set names. Empty: all.
    pub(super) fn accepted_flavors<'g>(&self, gang: &'g Gang, group: usize) -> &'g [FlavorName] {
        let named = |number: usize| gang.groups.get(number).map(|group| &group.flavors[..]);
        let set = self.0.iter().find(|set| set.contains(&group));
        let others = set.into_iter().flatten().copied();
        let mut candidates = std::iter::once(group).chain(others).filter_map(named);
        candidates
            .find(|flavors| !flavors.is_empty())
            .unwrap_or(&[])
    }

    /// Returns the first set of several groups of which none names a flavor.
    pub(super) fn find_unnamed(&self, gang: &Gang) -> Option<&[usize]> {
        let mut sets = self.0.iter().filter(|set| set.len() > 1);
        let names_none = |group: &usize| self.accepted_flavors(gang, *group).is_empty();
        sets.find(|set| set.iter().all(names_none))
            .map(Vec::as_slice)
    }

    /// Returns the joint choices of the groups of each set.
    pub(super) fn choices(&self, choices: &[Vec<FlavorChoice>]) -> Vec<SharedChoices<'_>> {
        let sets = self.0.iter();
        sets.map(|groups| SharedChoices::new(groups, choices))
            .collect()
    }

    /// Returns the first set of groups that must get the same flavor and have no flavor in common.
    pub(super) fn find_conflict(&self, choices: &[Vec<FlavorChoice>]) -> Option<Vec<usize>> {
        // A group alone has a choice.
        let several = self.0.iter().filter(|set| set.len() > 1);
        let mut shared = several.map(|groups| SharedChoices::new(groups, choices));
        let none = shared.find(|shared| shared.numbers.is_empty() && !shared.is_cut);
        none.map(|shared| shared.groups.to_vec())
    }
}

impl<'g> SharedChoices<'g> {
    fn new(groups: &'g [usize], choices: &[Vec<FlavorChoice>]) -> Self {
        let chosen = |at: usize, number: usize| {
            let group = groups.get(at)?;
            choices.get(*group)?.get(number)
        };
        let mut numbers: Vec<SmallVec<[usize; 4]>> = vec![SmallVec::new()];
        let mut is_cut = false;
        for group in groups {
            let own = choices.get(*group).map_or(&[][..], Vec::as_slice);
            let joined = numbers.iter().flat_map(|before| {
                let fits = move |choice: &FlavorChoice| {
                    let mut others = before.iter().enumerate();
                    others.all(|(at, number)| {
                        chosen(at, *number).is_none_or(|other| is_same_flavor(choice, other))
                    })
                };
                let own = own
                    .iter()
                    .enumerate()
                    .filter(move |(_, choice)| fits(choice));
                own.map(move |(number, _)| {
                    let mut joined = before.clone();
                    joined.push(number);
                    joined
                })
            });
            numbers = joined.take(MAX_CHOICES.saturating_add(1)).collect();
            is_cut |= numbers.len() > MAX_CHOICES;
            numbers.truncate(MAX_CHOICES);
        }
        Self {
            groups,
            numbers,
            is_cut,
        }
    }

    /// Returns a pair for each group of the joint choice with this rank: the number of the group, and
    /// the number of its choice.
    pub(super) fn at(&self, rank: usize) -> impl Iterator<Item = (usize, usize)> {
        let numbers = self.numbers.get(rank).into_iter().flatten();
        self.groups.iter().copied().zip(numbers.copied())
    }
}

/// Returns true if two choices have the same flavor of each resource that both have.
fn is_same_flavor(one: &FlavorChoice, other: &FlavorChoice) -> bool {
    let mut all = one.iter();
    all.all(|(resource, flavor)| other.get(resource).is_none_or(|other| other == flavor))
}
