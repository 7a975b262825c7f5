//! The known pods, and the pods among them that are leaving or stopping.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::ids::PodKey;
use crate::state::{GangIdx, KnownPod, KnownPods};
use crate::time::Time;

/// All known pods. A *leaving* pod belongs to no placed gang and should be gone at a known time. A
/// *stopping* pod belonged to a deleted gang, whose charges end with its last pod.
///
/// INVARIANT: leaving and stopping pods are known and belong to no placed gang. A pod that is gone,
/// or that belongs to a placed gang again, is neither.
#[derive(Debug, Default)]
pub(super) struct PodTable {
    known: KnownPods,
    /// When each leaving pod should be gone.
    leaving: BTreeMap<PodKey, Time>,
    leaving_by_time: BTreeSet<(Time, PodKey)>,
    /// The deleted gang of each stopping pod.
    stopping: HashMap<PodKey, GangIdx>,
}

impl PodTable {
    /// Returns the known pods.
    pub(super) fn known(&self) -> &KnownPods {
        &self.known
    }

    pub(super) fn get(&self, pod: &PodKey) -> Option<&KnownPod> {
        self.known.get(pod)
    }

    /// Adds a pod, or replaces its record.
    pub(super) fn insert(&mut self, pod: PodKey, seen: KnownPod) {
        self.known.insert(pod, seen);
    }

    /// Removes a pod that is gone. Returns its record, and its gang if it was stopping.
    pub(super) fn remove(&mut self, pod: &PodKey) -> Option<(KnownPod, Option<GangIdx>)> {
        let seen = self.known.remove(pod)?;
        Some((seen, self.end_departure(pod)))
    }

    /// Gives a pod to a placed gang. Returns its record, and its gang if it was stopping.
    /// None: the pod is unknown, or already belongs to a placed gang.
    pub(super) fn attach(&mut self, pod: &PodKey) -> Option<(KnownPod, Option<GangIdx>)> {
        let seen = self.known.get_mut(pod)?;
        if std::mem::replace(&mut seen.in_placed_gang, true) {
            return None;
        }
        let seen = *seen;
        Some((seen, self.end_departure(pod)))
    }

    /// Takes a pod from its placed gang. The pod is leaving and should be gone at `by`. None: the
    /// pod is unknown, or belongs to no placed gang.
    pub(super) fn detach(&mut self, pod: &PodKey, by: Time) -> Option<KnownPod> {
        let seen = self.known.get_mut(pod)?;
        if !std::mem::take(&mut seen.in_placed_gang) {
            return None;
        }
        let seen = *seen;
        self.mark_leaving(pod, by);
        Some(seen)
    }

    /// Records that a pod is leaving and should be gone at `by`. Returns true if this is new. The
    /// pod must be known and belong to no placed gang.
    pub(super) fn mark_leaving(&mut self, pod: &PodKey, by: Time) -> bool {
        let is_free = self.get(pod).is_some_and(|seen| !seen.in_placed_gang);
        if !is_free || self.leaving_end(pod) == Some(by) {
            return false;
        }
        if let Some(before) = self.leaving.insert(pod.clone(), by) {
            self.leaving_by_time.remove(&(before, pod.clone()));
        }
        self.leaving_by_time.insert((by, pod.clone()));
        true
    }

    /// Records that a pod of a deleted gang is stopping.
    pub(super) fn mark_stopping(&mut self, pod: PodKey, gang: GangIdx) {
        self.stopping.insert(pod, gang);
    }

    /// Returns true if the pod belongs to a deleted gang.
    pub(super) fn is_stopping(&self, pod: &PodKey) -> bool {
        self.stopping.contains_key(pod)
    }

    fn end_departure(&mut self, pod: &PodKey) -> Option<GangIdx> {
        if let Some(by) = self.leaving.remove(pod) {
            self.leaving_by_time.remove(&(by, pod.clone()));
        }
        self.stopping.remove(pod)
    }

    /// Returns when a pod should be gone. None: it is not leaving, or it leaves with its gang.
    pub(super) fn leaving_end(&self, pod: &PodKey) -> Option<Time> {
        self.leaving.get(pod).copied()
    }

    /// Returns the leaving pods, ordered by when they should be gone. Overdue pods come last,
    /// because their end is unknown.
    pub(super) fn leaving(
        &self,
        now: Time,
    ) -> impl Iterator<Item = (Option<Time>, &PodKey, &KnownPod)> {
        let is_late = move |by: &Time| *by < now;
        let all = self.leaving_by_time.iter();
        let on_time = all.clone().filter(move |(by, _)| !is_late(by));
        let late = all.take_while(move |(by, _)| is_late(by));
        let on_time = on_time.map(|(by, pod)| (Some(*by), pod));
        let pods = on_time.chain(late.map(|(_, pod)| (None, pod)));
        pods.filter_map(|(end, pod)| Some((end, pod, self.get(pod)?)))
    }

    pub(super) fn has_stopping(&self) -> bool {
        !self.stopping.is_empty()
    }

    /// Returns the stopping pods with their gangs, in no order.
    pub(super) fn stopping(&self) -> impl Iterator<Item = (&PodKey, GangIdx)> {
        self.stopping.iter().map(|(pod, at)| (pod, *at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{DemandIdx, NodeIdx};

    fn key(name: &str) -> PodKey {
        PodKey::new(name)
    }

    fn time(millis: i64) -> Time {
        Time::from_millis(millis)
    }

    fn table(pods: &[(&str, bool)]) -> PodTable {
        let mut table = PodTable::default();
        for (name, in_placed_gang) in pods {
            let seen = KnownPod {
                node: NodeIdx::of(0),
                demand: DemandIdx::of(0),
                in_placed_gang: *in_placed_gang,
            };
            table.insert(key(name), seen);
        }
        table
    }

    fn leaving(table: &PodTable, now: i64) -> Vec<(Option<i64>, &str)> {
        let pods = table.leaving(time(now));
        pods.map(|(end, pod, _)| (end.map(Time::as_millis), pod.as_str()))
            .collect()
    }

    #[test]
    fn only_known_pods_outside_placed_gangs_leave() {
        let mut table = table(&[("x/free", false), ("x/held", true)]);
        assert!(!table.mark_leaving(&key("x/unknown"), time(5)));
        assert!(!table.mark_leaving(&key("x/held"), time(5)));
        assert!(table.mark_leaving(&key("x/free"), time(5)));
        assert!(!table.mark_leaving(&key("x/free"), time(5)), "not new");
        assert!(table.mark_leaving(&key("x/free"), time(7)));
        assert_eq!(leaving(&table, 0), [(Some(7), "x/free")]);
        assert!(table.detach(&key("x/held"), time(6)).is_some());
        assert!(table.detach(&key("x/held"), time(6)).is_none());
        let both = [(Some(6), "x/held"), (Some(7), "x/free")];
        assert_eq!(leaving(&table, 0), both);
    }

    #[test]
    fn overdue_pods_come_last_and_without_an_end() {
        let mut table = table(&[("x/a", false), ("x/b", false), ("x/c", false)]);
        for (pod, by) in [("x/a", 1), ("x/b", 2), ("x/c", 3)] {
            table.mark_leaving(&key(pod), time(by));
        }
        let expected = [(Some(2), "x/b"), (Some(3), "x/c"), (None, "x/a")];
        assert_eq!(leaving(&table, 2), expected);
    }

    #[test]
    fn pod_that_is_gone_or_attached_neither_leaves_nor_stops() {
        let mut table = table(&[("x/a", false), ("x/b", false)]);
        for pod in ["x/a", "x/b"] {
            table.mark_leaving(&key(pod), time(1));
            table.mark_stopping(key(pod), GangIdx::of(3));
        }
        let (_, gang) = table.remove(&key("x/a")).expect("the pod is known");
        assert_eq!(gang, Some(GangIdx::of(3)));
        assert!(table.remove(&key("x/a")).is_none());
        assert_eq!(leaving(&table, 0), [(Some(1), "x/b")]);
        let (_, gang) = table.attach(&key("x/b")).expect("the pod is free");
        assert_eq!(gang, Some(GangIdx::of(3)));
        assert!(table.attach(&key("x/b")).is_none());
        assert!(leaving(&table, 0).is_empty() && !table.has_stopping());
        assert!(table.get(&key("x/b")).is_some_and(|pod| pod.in_placed_gang));
    }
}
