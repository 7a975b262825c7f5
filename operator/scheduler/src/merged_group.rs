//! Task groups that the engine places as one, because slices count the pods of all of them.
//!
//! All pods of a merged group are alike: each gets the largest request of any of its parts, and the
//! constraints of all of them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::gang::TaskGroup;
use crate::ids::GroupName;

/// A task group that is part of a merged group. A merged group has one part if the world has only one
/// task group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPart {
    /// Its name.
    pub name: GroupName,
    /// The number of pods.
    pub count: u32,
    /// The prefix of pod names: `<pod_prefix>-<number>`. The number of the first pod is 0.
    pub pod_prefix: String,
}

/// A task group that a group of the engine stands for.
#[derive(Clone, Debug)]
pub struct Member<'g> {
    /// Its name.
    pub name: &'g GroupName,
    /// The prefix of the names of its pods.
    pub pod_prefix: &'g str,
    /// The indexes of its pods in the group of the engine.
    pub pods: Range<u32>,
}

impl Member<'_> {
    /// Returns the number of its pods.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.pods.end.saturating_sub(self.pods.start)
    }
}

impl TaskGroup {
    /// Merges task groups: the pods of the second follow those of the first, and so on. The name lists
    /// those of the parts: `master+worker`. Topology, slices and flavors are those of the first group. In
    /// at most one part, `same_flavor_as` may name a group that is not a part. None: there are no groups.
    ///
    /// A group with [`starts`](TaskGroup::starts) cannot be part of a merged group: its numbers would
    /// be lost.
    #[must_use]
    pub fn merge(groups: Vec<Self>) -> Option<Self> {
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let name = GroupName::new(names.join("+"));
        let parts = groups.iter().map(|group| GroupPart {
            name: group.name.clone(),
            count: group.count,
            pod_prefix: group.pod_prefix.clone(),
        });
        let parts: Vec<GroupPart> = parts.collect();
        // A group that a part names may be another part.
        let same_flavor = groups
            .iter()
            .filter_map(|group| group.same_flavor_as.clone());
        let same_flavor: Vec<GroupName> = same_flavor.collect();
        let mut groups = groups.into_iter();
        let mut merged = groups.next()?;
        for group in groups {
            merged.count = merged.count.saturating_add(group.count);
            for (resource, amount) in group.request.iter() {
                let most = merged.request.get(resource).max(amount);
                merged.request.set(resource.clone(), most);
            }
            merged.constraints.add(group.constraints);
        }
        merged.name = name;
        merged.parts = parts;
        let mut others = same_flavor.into_iter();
        merged.same_flavor_as = others.find(|named| !merged.stands_for(named));
        Some(merged)
    }

    /// Returns the task groups that this group stands for: its parts, or itself.
    pub fn members(&self) -> impl Iterator<Item = Member<'_>> {
        let own = self.parts.is_empty().then(|| Member {
            name: &self.name,
            pod_prefix: &self.pod_prefix,
            pods: 0..self.count,
        });
        let mut next = 0_u32;
        let parts = self.parts.iter().map(move |part| {
            let first = next;
            next = next.saturating_add(part.count);
            Member {
                name: &part.name,
                pod_prefix: &part.pod_prefix,
                pods: first..next,
            }
        });
        own.into_iter().chain(parts)
    }

    /// Returns true if this group is, or has as a part, the task group of this name.
    #[must_use]
    pub fn stands_for(&self, name: &GroupName) -> bool {
        self.members().any(|member| member.name == name)
    }

    /// Splits the runs of all pods into those of each task group that this group stands for.
    pub(crate) fn split_runs<'s, N: Clone>(
        &'s self,
        runs: &'s [(N, u32)],
    ) -> impl Iterator<Item = (&'s GroupName, Vec<(N, u32)>)> {
        let mut runs = runs.iter().cloned();
        let mut open: Option<(N, u32)> = None;
        let last = self.parts.len().max(1);
        (1..).zip(self.members()).map(move |(number, member)| {
            let mut own = Vec::new();
            // The last part also gets the pods that exceed the counts.
            let mut left = if number == last {
                u32::MAX
            } else {
                member.count()
            };
            while left > 0 {
                let Some((node, pods)) = open.take().or_else(|| runs.next()) else {
                    break;
                };
                let taken = pods.min(left);
                left = left.saturating_sub(taken);
                if taken < pods {
                    open = Some((node.clone(), pods.saturating_sub(taken)));
                }
                own.push((node, taken));
            }
            (member.name, own)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraints::{LabelDomain, Toleration, TolerationOperator};
    use crate::resources::Resources;

    fn group(name: &str, count: u32) -> TaskGroup {
        let request = Resources::new().with("gpu", 8);
        TaskGroup::new(GroupName::new(name), count, request, format!("j-{name}"))
    }

    fn merged(counts: &[(&str, u32)]) -> TaskGroup {
        TaskGroup::merge(
            counts
                .iter()
                .map(|(name, count)| group(name, *count))
                .collect(),
        )
        .unwrap()
    }

    #[test]
    fn runs_are_split_where_a_part_ends() {
        let merged = merged(&[("master", 1), ("worker", 4), ("tail", 2)]);
        assert_eq!(
            (merged.count, merged.name.as_str()),
            (7, "master+worker+tail")
        );
        let split = |runs: &[(char, u32)]| -> Vec<(String, Vec<(char, u32)>)> {
            let split = merged.split_runs(runs);
            split.map(|(name, runs)| (name.to_string(), runs)).collect()
        };
        assert_eq!(
            split(&[('a', 3), ('b', 2), ('c', 2)]),
            [
                ("master".to_owned(), vec![('a', 1)]),
                ("worker".to_owned(), vec![('a', 2), ('b', 2)]),
                ("tail".to_owned(), vec![('c', 2)]),
            ]
        );
        assert_eq!(
            split(&[('a', 2)]),
            [
                ("master".to_owned(), vec![('a', 1)]),
                ("worker".to_owned(), vec![('a', 1)]),
                ("tail".to_owned(), vec![]),
            ]
        );
    }

    #[test]
    fn single_group_has_one_part() {
        assert_eq!(TaskGroup::merge(Vec::new()), None);
        let single = merged(&[("worker", 3)]);
        assert_eq!(single.name.as_str(), "worker");
        assert_eq!(single.pod_name(2), ("j-worker", 2));
        assert_eq!(single.pod_index("j-worker", 2), Some(2));
        assert_eq!(single.pod_index("j-worker", 3), None);
        let split: Vec<_> = single.split_runs(&[('a', 3)]).collect();
        assert_eq!(split, [(&single.name, vec![('a', 3)])]);
    }

    #[test]
    fn pods_get_the_largest_request_and_all_constraints() {
        let toleration = |key: &str| Toleration {
            key: Some(key.to_owned()),
            operator: TolerationOperator::Exists,
            value: String::new(),
            effect: None,
        };
        let mut master = group("master", 1);
        master.request = Resources::new().with("gpu", 8).with("cpu", 2);
        master.constraints.node_selector = [("pool".to_owned(), "a".to_owned())].into();
        master.constraints.tolerations = vec![toleration("x"), toleration("y")];
        let mut worker = group("worker", 3);
        worker.request = Resources::new()
            .with("gpu", 8)
            .with("cpu", 1)
            .with("memory", 5);
        worker.constraints.kept_out = [LabelDomain {
            label: "zone".to_owned(),
            value: "b".to_owned(),
        }]
        .into();
        worker.constraints.tolerations = vec![toleration("y")];
        let kept_out = worker.constraints.kept_out.clone();
        let merged = TaskGroup::merge(vec![master, worker]).unwrap();
        let request = Resources::new()
            .with("gpu", 8)
            .with("cpu", 2)
            .with("memory", 5);
        assert_eq!(merged.request, request);
        assert_eq!(merged.constraints.node_selector["pool"], "a");
        assert_eq!(merged.constraints.kept_out, kept_out);
        assert_eq!(merged.constraints.tolerations, [toleration("y")]);
    }
}
