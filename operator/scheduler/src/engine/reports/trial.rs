//! Trials: what a cycle would decide about a gang.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::admission::{AdmissionHistory, GangStart};
use super::super::flavor_assignment::AssignmentResult;
use super::super::{Engine, gang_table};
use crate::decision::TrialPlacement;
use crate::explain::{self, WaitExplanation};
use crate::gang::Gang;
use crate::ids::GangId;
use crate::placement::{Placement, PodRuns, UndoLog};
use crate::time::Time;

impl Engine {
    /// Decides as a cycle would if the gang starts now, and where. Changes nothing. The engine need
    /// not know the gang.
    ///
    /// # Errors
    ///
    /// The explanation that a cycle would give.
    pub fn try_gang(&mut self, gang: &Gang, now: Time) -> Result<TrialPlacement, WaitExplanation> {
        let answer = self.with_assignments(gang, now, |engine, ways| {
            let lifted = engine.gangs.find(&gang.id);
            let lifted = lifted.and_then(|at| engine.lift_place(at));
            let mut log = UndoLog::default();
            let before = AdmissionHistory {
                not_before: gang.not_before,
                preempted: gang.preempted,
                short_since: None,
            };
            let answer = engine.admit(gang, ways, before, &mut log);
            log.roll_back(&mut engine.nodes);
            let answer = answer.map_err(|mut blocked| {
                engine.complete_explanation(gang, ways, &mut blocked);
                blocked
            });
            engine.put_back_place(lifted);
            answer
        });
        let place = |groups: &[PodRuns]| gang_table::placement(&self.nodes, gang, groups.iter());
        match answer {
            Ok(GangStart::Immediate(_, groups)) => Ok(TrialPlacement {
                placement: place(&groups),
                victims: Vec::new(),
                new_nodes: BTreeMap::new(),
            }),
            Ok(GangStart::AfterNodes(plan)) => Ok(TrialPlacement {
                placement: plan.placement,
                victims: Vec::new(),
                new_nodes: plan.nodes,
            }),
            Ok(GangStart::AfterVictims(plan)) => Ok(TrialPlacement {
                placement: place(&plan.groups),
                victims: self.name_victims(&plan.victims),
                new_nodes: BTreeMap::new(),
            }),
            Err(blocked) => Err(blocked.explanation),
        }
    }

    /// Returns where a gang would start now, within quota and limits and on free room, without victims
    /// or new nodes. Changes nothing. It ignores the order of its queue. The engine need not know the
    /// gang. None: the gang would not start.
    pub(crate) fn find_immediate_place(&mut self, gang: &Gang, now: Time) -> Option<Placement> {
        explain::topology_is_there(self.nodes.domains(), gang).ok()?;
        let groups = self.with_assignments(gang, now, |engine, ways| {
            let mut log = UndoLog::default();
            let mut all = ways.iter().flat_map(|ways| ways.iter());
            let groups = all.find_map(|way| engine.try_assignment(gang, way, &mut log).ok());
            log.roll_back(&mut engine.nodes);
            groups
        });
        Some(gang_table::placement(&self.nodes, gang, groups?.iter()))
    }

    /// Runs a trial between two cycles with the flavor assignments of a gang, which the engine need not
    /// know. The trial must undo its changes.
    fn with_assignments<T>(
        &mut self,
        gang: &Gang,
        now: Time,
        trial: impl FnOnce(&mut Self, &AssignmentResult) -> T,
    ) -> T {
        self.add_node_level(gang);
        let unsettled = self.advance_between_cycles(now);
        let shape = Arc::new(self.catalog.acquire_shape(gang));
        let ways = self.compute_assignments(gang, &shape);
        let answer = trial(self, &ways);
        if unsettled {
            self.reservations.mark_heads_stale();
        }
        self.release_assignments(&ways);
        self.drop_shape(&shape);
        answer
    }

    /// Explains why a pending gang does not start, with current numbers. None: it is not pending,
    /// or the next cycle would start it if no gang went before it.
    pub fn explain(&mut self, gang: &GangId, now: Time) -> Option<WaitExplanation> {
        let at = self.gangs.find(gang)?;
        let state = self.gangs.get(at)?;
        if state.awaits_apply || state.placed().is_some() {
            return None;
        }
        let unsettled = self.advance_between_cycles(now);
        let (gang, ways) = (Arc::clone(&self.gangs.get(at)?.gang), self.assignments(at)?);
        let lifted = self.lift_place(at);
        let mut log = UndoLog::default();
        let answer = self.try_to_admit(at, &mut log);
        log.roll_back(&mut self.nodes);
        let answer = answer.map(|answer| {
            answer.map_err(|mut blocked| {
                self.complete_explanation(&gang, &ways, &mut blocked);
                blocked
            })
        });
        self.put_back_place(lifted);
        if unsettled {
            self.reservations.mark_heads_stale();
        }
        match answer? {
            Err(blocked) => Some(blocked.explanation),
            // The last cycle has counted the nodes on order.
            Ok(GangStart::AfterNodes(_)) => self.explanation(&gang.id).cloned(),
            Ok(_) => None,
        }
    }

    /// Explains why a gang is pending, with current numbers. If only its turn has not come, returns
    /// the last reported explanation. None: it is not pending.
    pub fn explain_wait(&mut self, gang: &GangId, now: Time) -> Option<WaitExplanation> {
        self.explain(gang, now)
            .or_else(|| self.explanation(gang).cloned())
    }
}
