//! The surplus pods of one job, and their states.

use std::collections::{BTreeMap, BTreeSet};

use trellis_gang::engine;
use trellis_scheduler::{GangId, NodeName, Time};

use crate::runner::script::ScriptSurplusPod;

/// State of a surplus pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::runner) enum SurplusPodPhase {
    /// The pod is pending.
    Waiting,
    /// The pod runs on this node.
    Placed(NodeName),
    /// The pod is stopping on this node.
    Leaving(NodeName),
    /// The pod failed and is submitted again after its back-off.
    BackingOff,
    /// The pod has ended and is not submitted again.
    Done,
}

/// The surplus pods of a job.
#[derive(Debug, Default)]
pub(in crate::runner) struct SimulatedSurplus {
    pub(in crate::runner) pods: Vec<ScriptSurplusPod>,
    pub(in crate::runner) phases: BTreeMap<GangId, SurplusPodPhase>,
    /// Last time at which surplus pods of elastic groups joined.
    pub(in crate::runner) last_growth: Option<Time>,
    /// Pods that are submitted again without the pause between two growths.
    pub(in crate::runner) replacements: BTreeSet<GangId>,
}

impl SimulatedSurplus {
    /// Creates the state for surplus pods that are not placed.
    pub(in crate::runner) fn from_pods(pods: Vec<ScriptSurplusPod>) -> Self {
        Self {
            pods,
            ..Self::default()
        }
    }

    pub(in crate::runner) fn pod(&self, id: &GangId) -> Option<&ScriptSurplusPod> {
        self.pods.iter().find(|pod| pod.gang.id == *id)
    }

    /// Returns the running pods, with their nodes.
    pub(in crate::runner) fn placed_pods(
        &self,
    ) -> impl Iterator<Item = (&ScriptSurplusPod, &NodeName)> {
        let phases = self.phases.iter();
        phases.filter_map(|(id, phase)| match phase {
            SurplusPodPhase::Placed(node) | SurplusPodPhase::Leaving(node) => {
                Some((self.pod(id)?, node))
            }
            _ => None,
        })
    }

    /// Returns the nodes of the running pods.
    pub(in crate::runner) fn node_names(&self) -> impl Iterator<Item = &NodeName> {
        self.placed_pods().map(|(_, node)| node)
    }
}

/// Returns the job of a surplus pod. None: the gang is a job's gang.
pub(in crate::runner) fn job_of(id: &GangId) -> Option<GangId> {
    let (job, member) = engine::parse_gang_id(id);
    member.map(|_| engine::gang_id(&job))
}
