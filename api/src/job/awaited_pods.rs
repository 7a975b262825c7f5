//! Pods that come while the others of their attempt are there.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{format_ranges, parse_ranges};

/// Pods of one attempt that are created while the others are there: in place of pods that have
/// failed, or once what they wait for is ready. What is written here is done, and counts once.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AwaitedPods {
    /// The attempt.
    pub attempt: i64,
    /// Rounds in which pods of the group were replaced. A pod carries its round, and the operator
    /// deletes a pod of an earlier round.
    pub round: i64,
    /// Last round that counted against a limit. A pod of an earlier round that fails a moment
    /// later failed by the same cause, and does not count again.
    pub counted_round: i64,
    /// Task groups whose pods wait for those of others (`dependsOn`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub held_groups: Vec<String>,
    /// Pods that are to be there and are not yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub pods: Vec<AwaitedGroup>,
}

/// Pods of one task group that are to be there and are not yet.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AwaitedGroup {
    /// Name of the task group.
    pub name: String,
    /// Their indexes, such as `0-3,7`.
    pub indexes: String,
    /// The round that they are of.
    pub round: i64,
    /// Earliest time of the next creation: a back-off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    /// True: those in whose place they come have nothing to save, and 30 seconds at most to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hurried: bool,
}

impl AwaitedGroup {
    /// The indexes.
    #[must_use]
    pub fn indexes(&self) -> BTreeSet<u32> {
        parse_ranges(&self.indexes)
    }
}

/// Pods that are awaited, by group and index.
#[derive(Clone, Debug, Default)]
pub struct AwaitedPodIndex<'a> {
    groups: BTreeMap<&'a str, Vec<(BTreeSet<u32>, &'a AwaitedGroup)>>,
}

impl<'a> AwaitedPodIndex<'a> {
    /// What is awaited of that pod, if it is. Of two entries the later round counts.
    #[must_use]
    pub fn get(&self, group: &str, index: u32) -> Option<&'a AwaitedGroup> {
        let entries = self.groups.get(group)?.iter();
        let of_it = entries.filter(|(indexes, _)| indexes.contains(&index));
        of_it.map(|(_, group)| *group).max_by_key(|g| g.round)
    }
}

impl AwaitedPods {
    /// The same for whoever asks of many pods.
    #[must_use]
    pub fn index_by_pod(&self) -> AwaitedPodIndex<'_> {
        let mut groups: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for group in &self.pods {
            let entries = groups.entry(group.name.as_str()).or_default();
            entries.push((group.indexes(), group));
        }
        AwaitedPodIndex { groups }
    }

    /// Awaits these pods, and no longer what was awaited of them before.
    pub fn await_pods(
        &mut self,
        group: &str,
        pods: &BTreeSet<u32>,
        not_before: Option<Time>,
        hurried: bool,
    ) {
        self.stop_awaiting_pods(group, pods);
        if !pods.is_empty() {
            self.pods.push(AwaitedGroup {
                name: group.to_owned(),
                indexes: format_ranges(pods),
                round: self.round,
                not_before,
                hurried,
            });
        }
    }

    /// These are awaited no longer.
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
        awaited.await_pods("worker", &[0, 1, 2].into(), None, false);
        awaited.round = 2;
        awaited.await_pods("worker", &[1].into(), None, true);
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
