//! The surplus pods of one job, and their states.

use std::collections::{BTreeMap, BTreeSet};

use trellis_gang::engine;
use trellis_scheduler::{GangId, NodeName, Time};

use super::script::ScriptSurplusPod;

/// State of a surplus pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SurplusPodPhase {
    /// It is pending.
    Waiting,
    /// It runs on this node.
    Placed(NodeName),
    /// It is stopping.
    Leaving(NodeName),
    /// It failed, and comes back after its back-off.
    BackingOff,
    /// It has ended for good.
    Done,
}

/// The surplus pods of a job.
#[derive(Debug, Default)]
pub(super) struct SimulatedSurplus {
    pub(super) pods: Vec<ScriptSurplusPod>,
    pub(super) phases: BTreeMap<GangId, SurplusPodPhase>,
    /// When surplus pods of elastic groups joined last.
    pub(super) last_growth: Option<Time>,
    /// Pods that come back without the pause between two growths.
    pub(super) replacements: BTreeSet<GangId>,
}

impl SimulatedSurplus {
    /// Surplus pods, all without a place.
    pub(super) fn from_pods(pods: Vec<ScriptSurplusPod>) -> Self {
        Self {
            pods,
            ..Self::default()
        }
    }

    pub(super) fn pod(&self, id: &GangId) -> Option<&ScriptSurplusPod> {
        self.pods.iter().find(|pod| pod.gang.id == *id)
    }

    /// The nodes of the pods that run.
    pub(super) fn node_names(&self) -> impl Iterator<Item = &NodeName> {
        self.phases.values().filter_map(|seat| match seat {
            SurplusPodPhase::Placed(node) | SurplusPodPhase::Leaving(node) => Some(node),
            _ => None,
        })
    }
}

/// The job of a surplus pod. None: the gang is a job's own.
pub(super) fn job_of(id: &GangId) -> Option<GangId> {
    let (job, member) = engine::parse_gang_id(id);
    member.map(|_| engine::gang_id(&job))
}
