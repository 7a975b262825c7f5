//! The start of a gang on its new placement.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::flavor_assignment::FlavorAssignment;
use super::super::kept_places::LiftedPlace;
use super::super::{Engine, gang_table};
use crate::decision::{Decision, PlacementScore};
use crate::gang::Gang;
use crate::placement::PodRuns;
use crate::queueing::Signal;
use crate::state::{GangIdx, GangShape, NodeIdx, ResourceIdx};

impl Engine {
    /// Starts a gang at once on its new placement. `lifted` is the place that was kept for it.
    pub(in crate::engine) fn start_now(
        &mut self,
        at: GangIdx,
        lifted: Option<Box<LiftedPlace>>,
        way: &FlavorAssignment,
        groups: Vec<PodRuns>,
    ) -> Option<Decision> {
        self.note_placement(at, lifted.is_some());
        self.spend_place(lifted);
        let gang = Arc::clone(&self.gangs.get(at)?.gang);
        Some(self.commit(at, &gang, way, groups))
    }

    /// Records a new placement and returns the decision to place the gang.
    fn commit(
        &mut self,
        at: GangIdx,
        gang: &Arc<Gang>,
        way: &FlavorAssignment,
        groups: Vec<PodRuns>,
    ) -> Decision {
        self.blockages.clear();
        self.raise(way.shape.total.iter().copied(), Signal::Taken);
        let score = self.score(&way.shape, &groups);
        let placement = gang_table::placement(&self.nodes, gang, groups.iter());
        self.record_start(at, gang, way);
        self.record_place(at, way, groups, self.now);
        Decision::Place {
            gang: gang.id.clone(),
            placement,
            score,
        }
    }

    /// Returns the score of a placement that is already charged.
    pub(in crate::engine) fn score(&self, shape: &GangShape, groups: &[PodRuns]) -> PlacementScore {
        let used: BTreeSet<NodeIdx> = groups.iter().flatten().map(|(node, _)| *node).collect();
        let mut devices: Vec<ResourceIdx> = shape.groups.iter().filter_map(|g| g.device).collect();
        if devices.is_empty() {
            devices = self.nodes.devices().to_vec();
        }
        devices.sort_unstable();
        devices.dedup();
        let mut devices_left = 0_u64;
        for node in &used {
            for device in &devices {
                let free = self.nodes.free(*device, *node).max(0);
                devices_left = devices_left.saturating_add(u64::try_from(free).unwrap_or(0));
            }
        }
        let nodes = u32::try_from(used.len()).unwrap_or(u32::MAX);
        PlacementScore {
            devices_left,
            nodes,
        }
    }
}
