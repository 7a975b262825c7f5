//! Lifts a kept place: while its gang is tried, the place counts as free for that gang only.

use std::collections::BTreeMap;

use super::super::Engine;
use crate::backfill::QuotaHead;
use crate::ids::{LimitName, QueueName};
use crate::placement::UndoLog;
use crate::queueing::{Aside, Signal};
use crate::state::GangIdx;

/// The lifted place of a gang. It must be put back or spent.
#[derive(Debug)]
#[must_use]
pub(in crate::engine) struct Lifted {
    at: GangIdx,
    log: UndoLog,
    quota: Option<Aside>,
    limits: Vec<(LimitName, i128)>,
    /// The quota heads, as they are for other gangs.
    heads: BTreeMap<QueueName, QuotaHead>,
}

impl Engine {
    /// Lifts what is kept for a gang, if anything is.
    pub(in crate::engine) fn lift(&mut self, at: GangIdx) -> Option<Box<Lifted>> {
        if !self.keeps.has(at) {
            return None;
        }
        if self.backfill.stale {
            // Other gangs' reservations must be computed with the kept place still charged.
            self.renew_heads();
        }
        let keep = self.keeps.get(at)?;
        let mut log = UndoLog::default();
        for hold in keep.holds(&self.catalog).iter().filter(|hold| hold.held) {
            log.lift(&mut self.nodes, hold);
        }
        // Answers that are found now do not hold for other gangs, nor the reverse.
        self.refusals.clear();
        Some(Box::new(Lifted {
            at,
            log,
            quota: self.queues.set_aside(&keep.gang.queue, at),
            limits: self.limits.lift(at),
            heads: std::mem::take(&mut self.backfill.quota),
        }))
    }

    pub(in crate::engine) fn put_back(&mut self, lifted: Option<Box<Lifted>>) {
        let Some(lifted) = lifted else { return };
        let mut log = self.take_back_charges(*lifted);
        log.roll_back(&mut self.nodes);
    }

    /// The gang has found a place: what was kept for it becomes free for other gangs.
    pub(in crate::engine) fn spend(&mut self, lifted: Option<Box<Lifted>>) {
        let Some(lifted) = lifted else { return };
        let at = lifted.at;
        // The nodes stay as they are.
        drop(self.take_back_charges(*lifted));
        let Some(keep) = self.keeps.remove(at) else {
            return;
        };
        for pod in &keep.pods {
            if pod.held {
                let demand = self.catalog.demand(pod.demand);
                self.tell(&demand, 1, Signal::Freed);
            }
            self.forget_kept(pod);
        }
        self.has_ended(at, &keep.gang.id, &keep.gang.queue);
        self.give_quota_back(&keep.gang.queue, at);
    }

    fn take_back_charges(&mut self, lifted: Lifted) -> UndoLog {
        let Lifted {
            at,
            log,
            quota,
            limits,
            heads,
        } = lifted;
        if let Some(aside) = quota {
            self.queues.put_back(aside);
        }
        self.limits.put_back(at, limits);
        self.backfill.quota = heads;
        self.refusals.clear();
        log
    }
}
