//! Who may be asked to make room.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::super::placed::{Placed, Standing};
use super::super::{Engine, Stage};
use crate::decision::Because;
use crate::gang::Gang;
use crate::ids::{GangId, PodKey, QueueName};
use crate::placement::Hold;
use crate::preemption::policy::{self, Holds};
use crate::preemption::{Budget, price};
use crate::queue::Preemption;
use crate::quota::{Claim, Demand, QueueIdx};
use crate::state::{GangIdx, NodeIdx, Pod};
use crate::time::Time;

/// A gang that wants room, in one of its ways.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    pub(super) gang: &'a Gang,
    pub(super) queue: QueueIdx,
    pub(super) demand: &'a Demand,
    pub(super) preemption: Preemption,
}

/// A gang that may make room.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) gang: GangIdx,
    pub(super) queue: QueueIdx,
    pub(super) same_queue: bool,
    pub(super) because: Because,
    pub(super) priority: i32,
    pub(super) lost_device_seconds: u64,
    pub(super) demand: Demand,
}

/// The order in which gangs are asked: lower priority, cheaper, newer; then by name.
type Rank = (i32, u64, Reverse<Time>, GangId);

impl Engine {
    /// The gangs that may make room, in the order in which they are asked; and when
    /// the next one may that may not yet.
    pub(super) fn candidates(
        &mut self,
        asker: &Asker<'_>,
        budget: &mut Budget,
    ) -> (Vec<Candidate>, Option<Time>) {
        let mut ranked: Vec<(Rank, Candidate)> = Vec::new();
        let mut next: Option<Time> = None;
        let names: Vec<QueueName> = self.queues.holders().map(|(q, _)| q.clone()).collect();
        for name in names {
            let Some(queue) = self.queues.tree().find(&name) else {
                continue;
            };
            let same_queue = name == asker.gang.queue;
            let claim = if same_queue {
                let lowest = self.queues.lowest_priority(&name);
                if lowest.is_none_or(|lowest| lowest > asker.gang.priority) {
                    continue;
                }
                None
            } else {
                match budget.claim(&mut self.queues, queue) {
                    None => continue,
                    claimed => claimed,
                }
            };
            let cap = self.queues.max_min_runtime(&name);
            for (gang, demand) in self.queues.held_by(&name) {
                let Some(placed) = self.settled(gang) else {
                    continue;
                };
                let holds = match claim {
                    Some(claimed) => Holds::Other(claimed.claim),
                    None => self.own(queue, &placed.gang, demand),
                };
                let may = policy::may(&asker.preemption, asker.gang, &placed.gang, holds);
                let Some(because) = may else {
                    continue;
                };
                if let Some(until) = safe_until(placed, cap).filter(|until| *until > self.now) {
                    next = Some(next.map_or(until, |n| n.min(until)));
                    continue;
                }
                let lost = self.lost(placed);
                let priority = placed.gang.priority;
                let candidate = Candidate {
                    gang,
                    queue,
                    same_queue,
                    because,
                    priority,
                    lost_device_seconds: lost,
                    demand: demand.clone(),
                };
                let id = placed.gang.id.clone();
                ranked.push(((priority, lost, Reverse(placed.since), id), candidate));
            }
        }
        ranked.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        (ranked.into_iter().map(|(_, c)| c).collect(), next)
    }

    /// Whether a candidate may still be asked, after others have left.
    pub(super) fn is_still_asked(
        &mut self,
        asker: &Asker<'_>,
        budget: &mut Budget,
        candidate: &Candidate,
    ) -> bool {
        let gang = |engine: &Self| Some(Arc::clone(&engine.settled(candidate.gang)?.gang));
        if candidate.same_queue {
            // Who may always be asked may be now.
            let Some(gang) = gang(self).filter(|g| !g.preemptible) else {
                return true;
            };
            let holds = self.own(candidate.queue, &gang, &candidate.demand);
            return policy::may(&asker.preemption, asker.gang, &gang, holds).is_some();
        }
        let Some(claimed) = budget.claim(&mut self.queues, candidate.queue) else {
            return false;
        };
        let because = match claimed.claim {
            Claim::Owed => Because::Borrows,
            Claim::Borrowing => Because::LowerPriority,
        };
        because == candidate.because
            || gang(self).is_some_and(|gang| {
                let holds = Holds::Other(claimed.claim);
                policy::may(&asker.preemption, asker.gang, &gang, holds).is_some()
            })
    }

    /// What the asker's own queue is to it: looked at for gangs that are to be kept.
    fn own(&self, queue: QueueIdx, victim: &Gang, demand: &Demand) -> Holds {
        let borrowing = !victim.preemptible && self.queues.tree().is_borrowing(queue, demand);
        Holds::Own { borrowing }
    }

    /// A gang that has its place for good.
    pub(super) fn settled(&self, at: GangIdx) -> Option<&Placed> {
        match &self.state(at)?.stage {
            Stage::Placed(placed) if placed.standing == Standing::Settled => Some(placed),
            _ => None,
        }
    }

    /// The price of a victim.
    pub(super) fn lost(&self, placed: &Placed) -> u64 {
        let devices = placed.shape.groups.iter().map(|group| {
            let each = group.device.map_or(1, |device| group.need(device).max(1));
            u64::try_from(each)
                .unwrap_or(0)
                .saturating_mul(u64::from(group.count))
        });
        let devices = devices.fold(0, u64::saturating_add);
        price::lost_device_seconds(devices, placed.since, placed.checkpoint, self.now)
    }

    /// What is on its way out already, so that others may follow.
    pub(super) fn going(&self) -> Vec<Hold> {
        let mut pods: BTreeSet<&PodKey> = BTreeSet::new();
        let mut gangs: BTreeSet<GangIdx> = BTreeSet::new();
        for at in &self.nominated {
            if let Some(Stage::Placed(placed)) = self.state(*at).map(|s| &s.stage)
                && let Standing::Nominated(nomination) = &placed.standing
            {
                let there = |(pod, node): &&(PodKey, NodeIdx)| {
                    self.pods.get(pod).is_some_and(|seen| seen.node == *node)
                };
                pods.extend(nomination.pods.iter().filter(there).map(|(pod, _)| pod));
                gangs.extend(nomination.victims.iter().filter(|v| self.is_leaving(**v)));
            }
        }
        let seen = pods.into_iter().filter_map(|pod| self.pods.get(pod));
        let mut going: Vec<Hold> = seen.map(|seen| self.holds(seen)).collect();
        for gang in gangs {
            if let Some(Stage::Placed(placed)) = self.state(gang).map(|s| &s.stage) {
                going.extend(placed.assumed());
            }
        }
        going
    }

    /// Adds what the pods of a placed gang hold, node by node.
    pub(super) fn held(&self, at: GangIdx, held: &mut Vec<Hold>) {
        let Some(Stage::Placed(placed)) = self.state(at).map(|s| &s.stage) else {
            return;
        };
        held.extend(placed.holds());
        for (group, planned) in placed.gang.groups.iter().zip(&placed.groups) {
            let gone = planned
                .gone()
                .map(|index| placed.gang.pod_key(group, index));
            let elsewhere = gone.filter_map(|pod| self.pods.get(&pod));
            held.extend(
                elsewhere
                    .filter(|seen| seen.held)
                    .map(|seen| self.holds(seen)),
            );
        }
    }

    /// What a pod holds that has been seen.
    fn holds(&self, seen: &Pod) -> Hold {
        Hold {
            node: seen.node,
            demand: self.catalog.demand(seen.demand),
            pods: 1,
            held: seen.held,
        }
    }
}

/// Until when a gang is no victim.
fn safe_until(placed: &Placed, cap: Option<Duration>) -> Option<Time> {
    let safe = cap.map_or(placed.gang.min_runtime, |cap| {
        placed.gang.min_runtime.min(cap)
    });
    let by_runtime = (!safe.is_zero()).then(|| placed.since.plus(safe));
    by_runtime.max(placed.protected)
}
