//! Places that are kept for gangs which have lost them and start again: room that
//! their pods leave, and quota, for a bounded time.
//!
//! `keep` is how a place comes to be kept and is given back, `pods` what the pods mean
//! to it that go and come meanwhile, `lift` what is as good as free for its gang alone,
//! and `seats` how the gang finds back to it.

mod keep;
mod lift;
mod pods;
mod seats;

pub(super) use lift::Lifted;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::gang::Gang;
use crate::ids::PodKey;
use crate::placement::Hold;
use crate::queueing::Choice;
use crate::quota::Demand;
use crate::state::{Catalog, DemandIdx, GangIdx, NodeIdx};
use crate::time::Time;

/// All places that are kept.
#[derive(Debug, Default)]
pub(super) struct Keeps {
    gangs: BTreeMap<GangIdx, Keep>,
    by_time: BTreeSet<(Time, GangIdx)>,
    /// Whose pod a pod is, and which of them.
    pods: HashMap<PodKey, (GangIdx, usize)>,
}

/// What is kept for one gang.
#[derive(Debug)]
pub(super) struct Keep {
    /// The gang as it was placed, by which it is charged.
    pub(super) gang: Arc<Gang>,
    /// What its queue is charged with.
    pub(super) charge: Arc<Demand>,
    /// The flavors that it was given, by task group.
    pub(super) choices: Vec<Choice>,
    pub(super) until: Time,
    /// By when its pods are to be gone.
    pub(super) by: Time,
    pub(super) pods: Vec<KeptPod>,
}

/// The room of one pod.
#[derive(Clone, Debug)]
pub(super) struct KeptPod {
    pub(super) key: PodKey,
    pub(super) group: usize,
    pub(super) index: u32,
    pub(super) node: NodeIdx,
    pub(super) demand: DemandIdx,
    /// The pod is not there, and its room is charged for the gang. Else the pod counts
    /// itself, until it is gone.
    pub(super) held: bool,
}

impl Keep {
    /// What it keeps of nodes, those pods among it that have not left yet.
    pub(super) fn holds(&self, catalog: &Catalog) -> SmallVec<[Hold; 2]> {
        let holds = self.pods.iter().map(|pod| Hold {
            node: pod.node,
            demand: catalog.demand(pod.demand),
            pods: 1,
            held: pod.held,
        });
        holds.collect()
    }
}

impl Keeps {
    pub(super) fn is_empty(&self) -> bool {
        self.gangs.is_empty()
    }

    pub(super) fn has(&self, at: GangIdx) -> bool {
        self.gangs.contains_key(&at)
    }

    pub(super) fn get(&self, at: GangIdx) -> Option<&Keep> {
        self.gangs.get(&at)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (GangIdx, &Keep)> {
        self.gangs.iter().map(|(at, keep)| (*at, keep))
    }

    /// When the first of them is given back.
    pub(super) fn first_end(&self) -> Option<Time> {
        self.by_time.first().map(|(until, _)| *until)
    }

    /// For whom the room of a pod is kept that has not left yet.
    pub(super) fn of_pod(&self, pod: &PodKey) -> Option<GangIdx> {
        self.pods.get(pod).map(|(at, _)| *at)
    }

    fn pod_mut(&mut self, key: &PodKey) -> Option<(GangIdx, &mut KeptPod)> {
        let (at, number) = *self.pods.get(key)?;
        let pod = self.gangs.get_mut(&at)?.pods.get_mut(number)?;
        Some((at, pod))
    }

    fn insert(&mut self, at: GangIdx, keep: Keep) {
        self.by_time.insert((keep.until, at));
        for (number, pod) in keep.pods.iter().enumerate() {
            self.pods.insert(pod.key.clone(), (at, number));
        }
        self.gangs.insert(at, keep);
    }

    fn remove(&mut self, at: GangIdx) -> Option<Keep> {
        let keep = self.gangs.remove(&at)?;
        self.by_time.remove(&(keep.until, at));
        for pod in &keep.pods {
            self.pods.remove(&pod.key);
        }
        Some(keep)
    }
}
