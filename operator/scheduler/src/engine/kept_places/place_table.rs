//! All kept places, by gang, by end and by pod.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::gang::Gang;
use crate::ids::PodKey;
use crate::placement::NodeCharge;
use crate::queueing::FlavorChoice;
use crate::quota::Demand;
use crate::state::{Catalog, DemandIdx, GangIdx, NodeIdx};
use crate::time::Time;

/// All kept places.
///
/// INVARIANT: `by_time` has each place once, by its end, and `pods` has the pods of all places. A
/// pod belongs to one place.
#[derive(Debug, Default)]
pub(in crate::engine) struct KeptPlaces {
    gangs: BTreeMap<GangIdx, KeptPlace>,
    by_time: BTreeSet<(Time, GangIdx)>,
    /// The gang of a pod, and the pod's number in its kept place.
    pods: HashMap<PodKey, (GangIdx, usize)>,
}

/// The place that is kept for one gang.
#[derive(Debug)]
pub(in crate::engine) struct KeptPlace {
    /// The gang as it was placed; its charge follows from this.
    pub(in crate::engine) gang: Arc<Gang>,
    /// The charge to its queue.
    pub(in crate::engine) charge: Arc<Demand>,
    /// The flavors of each task group.
    pub(in crate::engine) choices: Vec<FlavorChoice>,
    pub(in crate::engine) until: Time,
    /// When its pods should be gone.
    pub(in crate::engine) pods_gone_by: Time,
    pub(in crate::engine) pods: Vec<PodRoom>,
}

/// The room of one pod.
#[derive(Clone, Debug)]
pub(in crate::engine) struct PodRoom {
    pub(in crate::engine) key: PodKey,
    pub(in crate::engine) group: usize,
    pub(in crate::engine) index: u32,
    pub(in crate::engine) node: NodeIdx,
    pub(in crate::engine) demand: DemandIdx,
    /// True: the pod is gone, and its room is charged to the gang. False: the pod still exists and
    /// is charged itself.
    pub(in crate::engine) pod_is_gone: bool,
}

impl KeptPlace {
    /// Returns the node usage that it keeps, including pods that have not left yet.
    pub(in crate::engine) fn node_charges(&self, catalog: &Catalog) -> SmallVec<[NodeCharge; 2]> {
        let holds = self.pods.iter().map(|pod| NodeCharge {
            node: pod.node,
            demand: catalog.demand(pod.demand),
            pods: 1,
            in_placed_gang: pod.pod_is_gone,
        });
        holds.collect()
    }
}

impl KeptPlaces {
    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.gangs.is_empty()
    }

    pub(in crate::engine) fn contains(&self, at: GangIdx) -> bool {
        self.gangs.contains_key(&at)
    }

    pub(in crate::engine) fn get(&self, at: GangIdx) -> Option<&KeptPlace> {
        self.gangs.get(&at)
    }

    pub(in crate::engine) fn iter(&self) -> impl Iterator<Item = (GangIdx, &KeptPlace)> {
        self.gangs.iter().map(|(at, keep)| (*at, keep))
    }

    /// Returns when the first kept place ends.
    pub(in crate::engine) fn first_end(&self) -> Option<Time> {
        self.by_time.first().map(|(until, _)| *until)
    }

    /// Returns the gang for which the room of a pod is kept.
    pub(in crate::engine) fn gang_of_pod(&self, pod: &PodKey) -> Option<GangIdx> {
        self.pods.get(pod).map(|(at, _)| *at)
    }

    /// Returns the room of a pod to change, with its gang. Its key must stay.
    pub(super) fn pod_mut(&mut self, key: &PodKey) -> Option<(GangIdx, &mut PodRoom)> {
        let (at, number) = *self.pods.get(key)?;
        let pod = self.gangs.get_mut(&at)?.pods.get_mut(number)?;
        Some((at, pod))
    }

    /// Keeps a place for a gang that has none.
    pub(super) fn insert(&mut self, at: GangIdx, keep: KeptPlace) {
        self.by_time.insert((keep.until, at));
        for (number, pod) in keep.pods.iter().enumerate() {
            self.pods.insert(pod.key.clone(), (at, number));
        }
        self.gangs.insert(at, keep);
    }

    /// Stops keeping a gang's place.
    pub(super) fn remove(&mut self, at: GangIdx) -> Option<KeptPlace> {
        let keep = self.gangs.remove(&at)?;
        self.by_time.remove(&(keep.until, at));
        for pod in &keep.pods {
            self.pods.remove(&pod.key);
        }
        Some(keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{GangId, QueueName};

    fn place(name: &str, until: i64, pods: usize) -> KeptPlace {
        let gang = Gang::new(GangId::new(name), QueueName::new("q"), Vec::new());
        let pod = |index: usize| PodRoom {
            key: PodKey::new(format!("{name}-{index}")),
            group: 0,
            index: 0,
            node: NodeIdx::of(index),
            demand: DemandIdx::of(0),
            pod_is_gone: true,
        };
        KeptPlace {
            gang: Arc::new(gang),
            charge: Arc::default(),
            choices: Vec::new(),
            until: Time::from_millis(until),
            pods_gone_by: Time::from_millis(0),
            pods: (0..pods).map(pod).collect(),
        }
    }

    #[test]
    fn each_pod_is_found_with_its_gang_and_room() {
        let mut places = KeptPlaces::default();
        places.insert(GangIdx::of(4), place("ns/a", 9, 2));
        places.insert(GangIdx::of(2), place("ns/b", 5, 1));
        let pod = PodKey::new("ns/a-1");
        assert_eq!(places.gang_of_pod(&pod), Some(GangIdx::of(4)));
        let found = places.pod_mut(&pod).map(|(at, room)| (at, room.node));
        assert_eq!(found, Some((GangIdx::of(4), NodeIdx::of(1))));
        assert_eq!(places.gang_of_pod(&PodKey::new("ns/b-1")), None);
    }

    #[test]
    fn removed_place_leaves_neither_its_end_nor_its_pods() {
        let mut places = KeptPlaces::default();
        places.insert(GangIdx::of(4), place("ns/a", 9, 2));
        places.insert(GangIdx::of(2), place("ns/b", 5, 1));
        assert_eq!(places.first_end(), Some(Time::from_millis(5)));
        assert!(places.remove(GangIdx::of(2)).is_some());
        assert!(places.remove(GangIdx::of(2)).is_none());
        assert_eq!(places.first_end(), Some(Time::from_millis(9)));
        assert_eq!(places.gang_of_pod(&PodKey::new("ns/b-0")), None);
        assert!(places.contains(GangIdx::of(4)) && !places.contains(GangIdx::of(2)));
        places.remove(GangIdx::of(4));
        assert!(places.is_empty() && places.first_end().is_none());
    }
}
