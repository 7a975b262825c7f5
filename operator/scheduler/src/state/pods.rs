//! The known pods.

use super::name_index::NameIndex;
use super::{DemandIdx, NodeIdx};
use crate::ids::PodKey;

/// A pod on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownPod {
    pub(crate) node: NodeIdx,
    pub(crate) demand: DemandIdx,
    /// True if it belongs to a placed gang.
    pub(crate) in_placed_gang: bool,
}

/// All pods by name. They are stored without gaps and in no order, because a hash table would need
/// about half as many vacant places in addition.
#[derive(Debug, Default)]
pub(crate) struct KnownPods {
    pods: Vec<(PodKey, KnownPod)>,
    index: NameIndex,
}

impl KnownPods {
    fn find(&self, key: &PodKey) -> Option<usize> {
        let is = |number: u32| {
            self.pods
                .get(number as usize)
                .is_some_and(|(k, _)| k == key)
        };
        let number = self.index.find(key.as_str(), is)?;
        usize::try_from(number).ok()
    }

    pub(crate) fn get(&self, key: &PodKey) -> Option<&KnownPod> {
        self.pods.get(self.find(key)?).map(|(_, pod)| pod)
    }

    pub(crate) fn get_mut(&mut self, key: &PodKey) -> Option<&mut KnownPod> {
        let at = self.find(key)?;
        self.pods.get_mut(at).map(|(_, pod)| pod)
    }

    /// Adds a pod, or replaces the pod of the same name.
    pub(crate) fn insert(&mut self, key: PodKey, pod: KnownPod) {
        if let Some(before) = self.get_mut(&key) {
            *before = pod;
            return;
        }
        let number = u32::try_from(self.pods.len()).unwrap_or(u32::MAX);
        self.index.insert(key.as_str(), number);
        self.pods.push((key, pod));
    }

    pub(crate) fn remove(&mut self, key: &PodKey) -> Option<KnownPod> {
        let at = self.find(key)?;
        let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        self.index.remove(key.as_str(), number(at));
        let (_, pod) = self.pods.swap_remove(at);
        if let Some((moved, _)) = self.pods.get(at) {
            let before = number(self.pods.len());
            self.index.renumber(moved.as_str(), before, number(at));
        }
        Some(pod)
    }

    /// Returns all pods, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&PodKey, &KnownPod)> {
        self.pods.iter().map(|(key, pod)| (key, pod))
    }

    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }
}
