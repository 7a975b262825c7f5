//! The placed task groups by the names of their pods.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::gang::Gang;
use crate::ids::PodKey;
use crate::state::GangIdx;

/// Task groups by `namespace/pod_prefix`. Never iterated, so its order does not matter. It uses the
/// standard hasher because users choose the names.
#[derive(Debug, Default)]
pub(super) struct PodPrefixes {
    groups: HashMap<String, SmallVec<[(GangIdx, usize); 1]>>,
}

/// The task groups that may have a pod.
pub(super) struct PossibleGroups<'s> {
    /// Each gang, with the number of its group.
    pub(super) groups: &'s [(GangIdx, usize)],
    /// The prefix of the pod's name, without the namespace.
    pub(super) prefix: &'s str,
    /// The number at the end of the name.
    pub(super) number: u32,
}

impl PodPrefixes {
    /// Adds the task groups of a gang.
    pub(super) fn insert(&mut self, at: GangIdx, gang: &Gang) {
        for (number, prefix) in prefixes(gang) {
            self.groups.entry(prefix).or_default().push((at, number));
        }
    }

    /// Removes the task groups of a gang.
    pub(super) fn remove(&mut self, at: GangIdx, gang: &Gang) {
        for (number, prefix) in prefixes(gang) {
            if let Some(groups) = self.groups.get_mut(&prefix) {
                groups.retain(|group| *group != (at, number));
                if groups.is_empty() {
                    self.groups.remove(&prefix);
                }
            }
        }
    }

    /// Returns the task groups that may have a pod of this name, in the order in which they were
    /// added.
    pub(super) fn find<'s>(&'s self, pod: &'s PodKey) -> Option<PossibleGroups<'s>> {
        let (prefix, digits) = pod.as_str().rsplit_once('-')?;
        let canonical = digits == "0" || !digits.starts_with(['0', '+']);
        let number = digits.parse().ok().filter(|_| canonical)?;
        let groups = self.groups.get(prefix)?;
        let (_, prefix) = prefix.split_once('/')?;
        Some(PossibleGroups {
            groups,
            prefix,
            number,
        })
    }

    /// Returns the number of task groups.
    #[cfg(test)]
    pub(super) fn group_count(&self) -> usize {
        self.groups.values().map(SmallVec::len).sum()
    }
}

fn prefixes(gang: &Gang) -> impl Iterator<Item = (usize, String)> {
    let namespace = gang.id.namespace();
    let groups = gang.groups.iter().enumerate();
    groups.flat_map(move |(number, group)| {
        let prefixes = group.members().map(|member| member.pod_prefix);
        prefixes.map(move |prefix| (number, format!("{namespace}/{prefix}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gang::TaskGroup;
    use crate::ids::{GangId, GroupName, QueueName};
    use crate::resources::Resources;

    fn gang(id: &str, prefixes: &[&str]) -> Gang {
        let group = |prefix: &&str| {
            let name = GroupName::new(*prefix);
            TaskGroup::new(name, 1, Resources::new(), (*prefix).to_owned())
        };
        let groups = prefixes.iter().map(group).collect();
        Gang::new(GangId::new(id), QueueName::new("q"), groups)
    }

    fn find(prefixes: &PodPrefixes, pod: &str) -> Option<(Vec<(usize, usize)>, u32)> {
        let pod = PodKey::new(pod);
        let found = prefixes.find(&pod)?;
        let groups = found.groups.iter().map(|(at, group)| (at.at(), *group));
        Some((groups.collect(), found.number))
    }

    #[test]
    fn pod_is_found_by_namespace_prefix_and_canonical_number() {
        let mut prefixes = PodPrefixes::default();
        prefixes.insert(GangIdx::of(0), &gang("ns/a", &["a-ps", "a-worker"]));
        assert_eq!(find(&prefixes, "ns/a-worker-12"), Some((vec![(0, 1)], 12)));
        assert_eq!(find(&prefixes, "ns/a-ps-0"), Some((vec![(0, 0)], 0)));
        let others = [
            "ns/a-ps-01",
            "ns/a-ps-+1",
            "ns/a-ps-",
            "ns/a-ps",
            "x/a-ps-0",
        ];
        for other in others {
            assert_eq!(find(&prefixes, other), None, "{other}");
        }
    }

    #[test]
    fn removal_of_a_gang_leaves_the_groups_of_another_gang_with_its_prefix() {
        let mut prefixes = PodPrefixes::default();
        let (one, other) = (gang("ns/a", &["w"]), gang("ns/b", &["v", "w"]));
        prefixes.insert(GangIdx::of(0), &one);
        prefixes.insert(GangIdx::of(1), &other);
        assert_eq!(find(&prefixes, "ns/w-3"), Some((vec![(0, 0), (1, 1)], 3)));
        prefixes.remove(GangIdx::of(0), &one);
        assert_eq!(find(&prefixes, "ns/w-3"), Some((vec![(1, 1)], 3)));
        prefixes.remove(GangIdx::of(1), &other);
        assert!(prefixes.groups.is_empty());
    }
}
