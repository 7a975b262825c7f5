//! Jobs with room on other nodes, whose move would let a job start.

use std::collections::BTreeSet;

use trellis_api::visibility::MovableJob;
use trellis_gang::external::job_ref;
use trellis_gang::{engine, external};
use trellis_scheduler::{GangId, GangMove, NodeName, Snapshot, find_moves};

use super::{Explainer, node_names};

/// Maximum number of gangs for which one snapshot is searched for moves. A search takes longer than
/// the rest of an explanation.
pub(super) const MAX_MOVE_SEARCHES: usize = 8;

impl Explainer {
    /// Returns the jobs whose move would let the gang start. After [`MAX_MOVE_SEARCHES`] gangs, the
    /// rest get none from this snapshot.
    pub(super) fn moves(&mut self, id: &GangId, snapshot: &Snapshot) -> Vec<MovableJob> {
        // External pods cannot be suspended.
        let is_job = |gang: &GangId| !external::is_external(&engine::job_key(gang));
        self.moves.find(id, || {
            let moves = find_moves(snapshot, id, is_job);
            moves.iter().map(describe_move).collect()
        })
    }
}

fn describe_move(step: &GangMove) -> MovableJob {
    let nodes = step.placement.iter().map(|(_, _, node)| node);
    let nodes: BTreeSet<&NodeName> = nodes.collect();
    MovableJob {
        job: job_ref(&engine::job_key(&step.gang)),
        nodes: node_names(nodes),
        lost_device_seconds: step.lost_device_seconds,
    }
}
