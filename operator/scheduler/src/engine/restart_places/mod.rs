//! Kept places: for a gang that restarts, the engine keeps its quota and the room that its pods
//! leave, for a limited time.
//!
//! `lifecycle` starts and ends keeping a place. `pods` handles pods that come and go in that time.
//! `lifted_place` makes the place free for its gang only, and `seats` brings the gang back to it.

mod lifecycle;
mod lifted_place;
mod pods;
mod seats;

pub(super) use lifted_place::LiftedPlace;

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
#[derive(Debug, Default)]
pub(super) struct RestartPlaces {
    gangs: BTreeMap<GangIdx, RestartPlace>,
    by_time: BTreeSet<(Time, GangIdx)>,
    /// The gang of a pod, and the pod's number in its kept place.
    pods: HashMap<PodKey, (GangIdx, usize)>,
}

/// The place that is kept for one gang.
#[derive(Debug)]
pub(super) struct RestartPlace {
    /// The gang as it was placed; its charge follows from this.
    pub(super) gang: Arc<Gang>,
    /// The charge to its queue.
    pub(super) charge: Arc<Demand>,
    /// The flavors of each task group.
    pub(super) choices: Vec<FlavorChoice>,
    pub(super) until: Time,
    /// When its pods should be gone.
    pub(super) pods_gone_by: Time,
    pub(super) pods: Vec<PodRoom>,
}

/// The room of one pod.
#[derive(Clone, Debug)]
pub(super) struct PodRoom {
    pub(super) key: PodKey,
    pub(super) group: usize,
    pub(super) index: u32,
    pub(super) node: NodeIdx,
    pub(super) demand: DemandIdx,
    /// True: the pod is gone, and its room is charged to the gang. False: the pod still exists and
    /// is charged itself.
    pub(super) pod_is_gone: bool,
}

impl RestartPlace {
    /// Returns the node usage that it keeps, including pods that have not left yet.
    pub(super) fn node_charges(&self, catalog: &Catalog) -> SmallVec<[NodeCharge; 2]> {
        let holds = self.pods.iter().map(|pod| NodeCharge {
            node: pod.node,
            demand: catalog.demand(pod.demand),
            pods: 1,
            in_placed_gang: pod.pod_is_gone,
        });
        holds.collect()
    }
}

impl RestartPlaces {
    pub(super) fn is_empty(&self) -> bool {
        self.gangs.is_empty()
    }

    pub(super) fn contains(&self, at: GangIdx) -> bool {
        self.gangs.contains_key(&at)
    }

    pub(super) fn get(&self, at: GangIdx) -> Option<&RestartPlace> {
        self.gangs.get(&at)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (GangIdx, &RestartPlace)> {
        self.gangs.iter().map(|(at, keep)| (*at, keep))
    }

    /// Returns when the first kept place ends.
    pub(super) fn first_end(&self) -> Option<Time> {
        self.by_time.first().map(|(until, _)| *until)
    }

    /// Returns the gang for which the room of a pod is kept.
    pub(super) fn gang_of_pod(&self, pod: &PodKey) -> Option<GangIdx> {
        self.pods.get(pod).map(|(at, _)| *at)
    }

    fn pod_mut(&mut self, key: &PodKey) -> Option<(GangIdx, &mut PodRoom)> {
        let (at, number) = *self.pods.get(key)?;
        let pod = self.gangs.get_mut(&at)?.pods.get_mut(number)?;
        Some((at, pod))
    }

    fn insert(&mut self, at: GangIdx, keep: RestartPlace) {
        self.by_time.insert((keep.until, at));
        for (number, pod) in keep.pods.iter().enumerate() {
            self.pods.insert(pod.key.clone(), (at, number));
        }
        self.gangs.insert(at, keep);
    }

    fn remove(&mut self, at: GangIdx) -> Option<RestartPlace> {
        let keep = self.gangs.remove(&at)?;
        self.by_time.remove(&(keep.until, at));
        for pod in &keep.pods {
            self.pods.remove(&pod.key);
        }
        Some(keep)
    }
}
