//! Pods that are created while other pods of their attempt exist.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{format_ranges, parse_ranges};

/// Pods of one attempt that are created while other pods of it exist: replacements of failed pods,
/// and pods whose dependencies have become ready. The operator acts on each entry exactly once.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AwaitedPods {
    /// Number of the attempt.
    pub attempt: i64,
    /// Number of rounds in which pods of the group were replaced. Each pod carries its round, and
    /// the operator deletes pods of earlier rounds.
    pub round: i64,
    /// Last round that counted against a limit. If a pod of an earlier round fails a moment later,
    /// it failed by the same cause, and its failure does not count again.
    pub counted_round: i64,
    /// Task groups whose pods wait for pods of other groups (`dependsOn`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub held_groups: Vec<String>,
    /// Pods that must be created and do not exist yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub pods: Vec<AwaitedGroup>,
}

/// Pods of one task group that must be created and do not exist yet.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AwaitedGroup {
    /// Name of the task group.
    pub name: String,
    /// Indexes of the pods, such as `0-3,7`.
    pub indexes: String,
    /// Round of the pods.
    pub round: i64,
    /// Earliest time at which the operator creates the pods: a back-off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    /// True: the pods that are replaced have nothing to save, and get at most 30 seconds to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hurried: bool,
    /// True: the pods belong to slices that cannot return to their nodes. Other slices replace them in
    /// the gang. The pods return where there is room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub displaced: bool,
}

/// Options for the creation of awaited pods.
#[derive(Clone, Debug, Default)]
pub struct AwaitedPodOptions {
    /// As [`AwaitedGroup::not_before`].
    pub not_before: Option<Time>,
    /// As [`AwaitedGroup::hurried`].
    pub hurried: bool,
    /// As [`AwaitedGroup::displaced`].
    pub displaced: bool,
}

impl AwaitedGroup {
    /// Returns the indexes of the pods.
    #[must_use]
    pub fn indexes(&self) -> BTreeSet<u32> {
        parse_ranges(&self.indexes)
    }
}

/// Awaited pods, by group and index.
#[derive(Clone, Debug, Default)]
pub struct AwaitedPodIndex<'a> {
    groups: BTreeMap<&'a str, Vec<(BTreeSet<u32>, &'a AwaitedGroup)>>,
}

impl<'a> AwaitedPodIndex<'a> {
    /// Returns the entry that awaits this pod. If two entries do, the later round wins.
    #[must_use]
    pub fn get(&self, group: &str, index: u32) -> Option<&'a AwaitedGroup> {
        let entries = self.groups.get(group)?.iter();
        let of_it = entries.filter(|(indexes, _)| indexes.contains(&index));
        of_it.map(|(_, group)| *group).max_by_key(|g| g.round)
    }
}

impl AwaitedPods {
    /// Returns an index for many lookups.
    #[must_use]
    pub fn index_by_pod(&self) -> AwaitedPodIndex<'_> {
        let mut groups: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for group in &self.pods {
            let entries = groups.entry(group.name.as_str()).or_default();
            entries.push((group.indexes(), group));
        }
        AwaitedPodIndex { groups }
    }

    /// Awaits these pods. New entries replace earlier entries of the same pods.
    pub fn await_pods(&mut self, group: &str, pods: &BTreeSet<u32>, options: AwaitedPodOptions) {
        self.stop_awaiting_pods(group, pods);
        if !pods.is_empty() {
            self.pods.push(AwaitedGroup {
                name: group.to_owned(),
                indexes: format_ranges(pods),
                round: self.round,
                not_before: options.not_before,
                hurried: options.hurried,
                displaced: options.displaced,
            });
        }
    }

    /// Removes these pods from the awaited ones.
    pub fn stop_awaiting_pods(&mut self, group: &str, pods: &BTreeSet<u32>) {
        for entry in self.pods.iter_mut().filter(|g| g.name == group) {
            let left: BTreeSet<u32> = entry.indexes().difference(pods).copied().collect();
            entry.indexes = format_ranges(&left);
        }
        self.pods.retain(|g| !g.indexes.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_is_awaited_only_in_its_last_round() {
        let mut awaited = AwaitedPods {
            attempt: 1,
            round: 1,
            ..AwaitedPods::default()
        };
        awaited.await_pods("worker", &[0, 1, 2].into(), AwaitedPodOptions::default());
        awaited.round = 2;
        let hurried = AwaitedPodOptions {
            hurried: true,
            ..AwaitedPodOptions::default()
        };
        awaited.await_pods("worker", &[1].into(), hurried);
        let by_pod = awaited.index_by_pod();
        let round = |index| by_pod.get("worker", index).map(|g| g.round);
        assert_eq!([round(0), round(1), round(2)], [Some(1), Some(2), Some(1)]);
        assert_eq!(round(3), None);
        assert_eq!(by_pod.get("server", 0), None);
        awaited.stop_awaiting_pods("worker", &[0, 2].into());
        assert_eq!(awaited.pods.len(), 1);
        awaited.stop_awaiting_pods("worker", &[1].into());
        assert!(awaited.pods.is_empty());
    }
}
