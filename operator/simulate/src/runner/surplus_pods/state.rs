//! The surplus pods of one job, and their states.

use std::collections::{BTreeMap, BTreeSet};

use trellis_gang::engine;
use trellis_scheduler::{GangId, NodeName, Time};

use crate::runner::script::ScriptSurplusUnit;

/// State of a surplus unit: of a pod, or of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::runner) enum SurplusPhase {
    /// The pods are pending.
    Waiting,
    /// The pods run on these nodes, in the order of their indexes.
    Placed(Vec<NodeName>),
    /// The pods are stopping on these nodes.
    Leaving(Vec<NodeName>),
    /// A pod failed, and the unit is submitted again after its back-off.
    BackingOff,
    /// The pods have ended and are not submitted again.
    Done,
}

/// The surplus of a job.
#[derive(Debug, Default)]
pub(in crate::runner) struct SimulatedSurplus {
    pub(in crate::runner) units: Vec<ScriptSurplusUnit>,
    pub(in crate::runner) phases: BTreeMap<GangId, SurplusPhase>,
    /// Last time at which surplus pods of elastic groups joined.
    pub(in crate::runner) last_growth: Option<Time>,
    /// Pods that are submitted again without the pause between two growths.
    pub(in crate::runner) replacements: BTreeSet<GangId>,
    /// Indexes of the pods of running slices that have finished.
    pub(in crate::runner) finished: BTreeMap<GangId, BTreeSet<u32>>,
}

impl SimulatedSurplus {
    /// Creates the state for surplus units that are not placed.
    pub(in crate::runner) fn from_units(units: Vec<ScriptSurplusUnit>) -> Self {
        Self {
            units,
            ..Self::default()
        }
    }

    pub(in crate::runner) fn unit(&self, id: &GangId) -> Option<&ScriptSurplusUnit> {
        self.units.iter().find(|unit| unit.gang.id == *id)
    }

    /// Returns the running units, with the nodes of their pods.
    pub(in crate::runner) fn placed_units(
        &self,
    ) -> impl Iterator<Item = (&ScriptSurplusUnit, &[NodeName])> {
        let phases = self.phases.iter();
        phases.filter_map(|(id, phase)| match phase {
            SurplusPhase::Placed(nodes) | SurplusPhase::Leaving(nodes) => {
                Some((self.unit(id)?, nodes.as_slice()))
            }
            _ => None,
        })
    }

    /// Returns the nodes of the running pods.
    pub(in crate::runner) fn node_names(&self) -> impl Iterator<Item = &NodeName> {
        self.placed_units().flat_map(|(_, nodes)| nodes)
    }
}

/// Returns the job of a surplus pod. None: the gang is a job's gang.
pub(in crate::runner) fn job_of(id: &GangId) -> Option<GangId> {
    let (job, member) = engine::parse_gang_id(id);
    member.map(|_| engine::gang_id(&job))
}
