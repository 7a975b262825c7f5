//! Trials: what a cycle would decide about a gang.

use std::sync::Arc;

use super::admission::{Before, Start};
use super::{Engine, Stage, placed};
use crate::decision::Outlook;
use crate::explain::Certificate;
use crate::gang::Gang;
use crate::ids::GangId;
use crate::placement::{Runs, UndoLog};
use crate::time::Time;

impl Engine {
    /// Decides if the gang would start now, and where, as a cycle would, but changes nothing. The
    /// engine need not know the gang.
    ///
    /// # Errors
    ///
    /// The explanation that a cycle would give.
    pub fn trial(&mut self, gang: &Gang, now: Time) -> Result<Outlook, Certificate> {
        self.know_levels(gang);
        let unsettled = self.look_again(now);
        let now = self.now;
        let shape = Arc::new(self.catalog.acquire_shape(gang));
        let ways = self.make_ways(gang, &shape);
        let lifted = self.ids.get(&gang.id).copied();
        let lifted = lifted.and_then(|at| self.lift(at));
        let mut log = UndoLog::default();
        let before = Before {
            not_before: gang.not_before,
            preempted: gang.preempted,
        };
        let answer = self.admit(gang, &ways, before, now, &mut log);
        log.roll_back(&mut self.nodes);
        let answer = answer.map_err(|mut blocked| {
            self.say_what_helps(gang, &ways, &mut blocked);
            blocked
        });
        self.put_back(lifted);
        self.backfill.stale |= unsettled;
        self.drop_ways(&ways);
        self.drop_shape(&shape);
        let place = |groups: &[Runs]| placed::placement(&self.nodes, gang, groups.iter());
        match answer {
            Ok(Start::Now(_, groups)) => Ok(Outlook {
                placement: place(&groups),
                victims: Vec::new(),
            }),
            Ok(Start::After(plan)) => Ok(Outlook {
                placement: place(&plan.groups),
                victims: self.named(&plan.victims),
            }),
            Err(blocked) => Err(blocked.certificate),
        }
    }

    /// Why a pending gang does not start, with current numbers. None: it is not pending, or the
    /// next cycle would start it if no gang went before it.
    pub fn explain(&mut self, gang: &GangId, now: Time) -> Option<Certificate> {
        let at = *self.ids.get(gang)?;
        let state = self.state(at)?;
        if state.idle || matches!(state.stage, Stage::Placed(_)) {
            return None;
        }
        let unsettled = self.look_again(now);
        let now = self.now;
        let (gang, ways) = (Arc::clone(&self.state(at)?.gang), self.ways(at)?);
        let lifted = self.lift(at);
        let mut log = UndoLog::default();
        let answer = self.try_to_admit(at, now, &mut log);
        log.roll_back(&mut self.nodes);
        let answer = answer.map(|answer| {
            answer.map_err(|mut blocked| {
                self.say_what_helps(&gang, &ways, &mut blocked);
                blocked
            })
        });
        self.put_back(lifted);
        self.backfill.stale |= unsettled;
        Some(answer?.err()?.certificate)
    }

    /// Why a gang is pending: with current numbers, or the last reported explanation if only its
    /// turn has not come. None: it is not pending.
    pub fn why_waiting(&mut self, gang: &GangId, now: Time) -> Option<Certificate> {
        self.explain(gang, now)
            .or_else(|| self.certificate(gang).cloned())
    }
}
