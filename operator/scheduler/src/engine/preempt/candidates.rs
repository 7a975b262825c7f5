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
use crate::preemption::policy::{self, Holds};
use crate::preemption::price;
use crate::queue::Preemption;
use crate::quota::{Demand, QueueIdx};
use crate::state::{GangIdx, NodeIdx, ResourceIdx};
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

/// Pods of a gang on a node.
pub(super) struct Held {
    pub(super) node: NodeIdx,
    pub(super) demand: Arc<Vec<(ResourceIdx, i64)>>,
    pub(super) pods: u32,
    /// They are a placed gang's.
    pub(super) held: bool,
}

impl Engine {
    /// The gangs that may make room, in the order in which they are asked; and when
    /// the next one may that may not yet.
    pub(super) fn candidates(&self, asker: &Asker<'_>) -> (Vec<Candidate>, Option<Time>) {
        let mut ranked: Vec<(Rank, Candidate)> = Vec::new();
        let mut next: Option<Time> = None;
        let names: Vec<QueueName> = self.queues.holders().map(|(q, _)| q.clone()).collect();
        for name in names {
            let same_queue = name == asker.gang.queue;
            let Some(queue) = self.queues.tree().find(&name) else {
                continue;
            };
            let Some(lowest) = self.queues.lowest_priority(&name) else {
                continue;
            };
            if self.holds(asker, queue, same_queue, None).is_none()
                || (same_queue && lowest > asker.gang.priority)
            {
                continue;
            }
            let cap = self.queues.max_min_runtime(&name);
            for (gang, demand) in self.queues.held_by(&name) {
                let Some(placed) = self.settled(gang) else {
                    continue;
                };
                let Some(because) = self.because(asker, queue, same_queue, &placed.gang, demand)
                else {
                    continue;
                };
                if let Some(until) = safe_until(placed, cap).filter(|until| *until > self.now) {
                    next = Some(next.map_or(until, |n| n.min(until)));
                    continue;
                }
                let lost = self.lost(placed);
                let rank = (
                    placed.gang.priority,
                    lost,
                    Reverse(placed.since),
                    placed.gang.id.clone(),
                );
                let candidate = Candidate {
                    gang,
                    queue,
                    same_queue,
                    because,
                    priority: placed.gang.priority,
                    lost_device_seconds: lost,
                    demand: demand.clone(),
                };
                ranked.push((rank, candidate));
            }
        }
        ranked.sort_by(|a, b| a.0.cmp(&b.0));
        (ranked.into_iter().map(|(_, c)| c).collect(), next)
    }

    /// Whether a candidate may still be asked, after others have left.
    pub(super) fn is_still_asked(&self, asker: &Asker<'_>, candidate: &Candidate) -> bool {
        let Candidate {
            queue, same_queue, ..
        } = *candidate;
        self.settled(candidate.gang).is_some_and(|placed| {
            self.because(asker, queue, same_queue, &placed.gang, &candidate.demand)
                .is_some()
        })
    }

    fn because(
        &self,
        asker: &Asker<'_>,
        queue: QueueIdx,
        same_queue: bool,
        victim: &Gang,
        demand: &Demand,
    ) -> Option<Because> {
        let holds = self.holds(asker, queue, same_queue, Some((victim, demand)))?;
        policy::may(&asker.preemption, asker.gang, victim, holds)
    }

    /// What a queue, or one gang of it, is to the one that asks.
    fn holds(
        &self,
        asker: &Asker<'_>,
        queue: QueueIdx,
        same_queue: bool,
        victim: Option<(&Gang, &Demand)>,
    ) -> Option<Holds> {
        let tree = self.queues.tree();
        if same_queue {
            // Asked only where it matters: for gangs that are to be kept.
            let borrowing = victim.is_some_and(|(gang, demand)| {
                !gang.preemptible && tree.is_borrowing(queue, demand)
            });
            return Some(Holds::Own { borrowing });
        }
        let claim = tree.claim(asker.queue, asker.demand, queue)?;
        Some(Holds::Other(claim))
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
    pub(super) fn going(&self) -> Vec<Held> {
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
        let mut going: Vec<Held> = seen
            .map(|seen| Held {
                node: seen.node,
                demand: self.catalog.demand(seen.demand),
                pods: 1,
                held: seen.held,
            })
            .collect();
        // Pods of theirs that nobody has seen yet.
        for gang in gangs {
            let Some(Stage::Placed(placed)) = self.state(gang).map(|s| &s.stage) else {
                continue;
            };
            for (shape, planned) in placed.shape.groups.iter().zip(&placed.groups) {
                let assumed = planned.assumed().into_iter();
                going.extend(assumed.map(|(node, pods)| Held {
                    node,
                    demand: Arc::clone(&shape.demand),
                    pods,
                    held: true,
                }));
            }
        }
        going
    }

    /// What the pods of a placed gang hold, node by node.
    pub(super) fn held(&self, at: GangIdx) -> Vec<Held> {
        let Some(state) = self.state(at) else {
            return Vec::new();
        };
        let Stage::Placed(placed) = &state.stage else {
            return Vec::new();
        };
        let mut held = Vec::new();
        let groups = placed.gang.groups.iter().zip(&placed.shape.groups);
        for ((group, shape), planned) in groups.zip(&placed.groups) {
            held.extend(planned.as_planned().map(|(node, pods)| Held {
                node,
                demand: Arc::clone(&shape.demand),
                pods,
                held: true,
            }));
            for index in planned.apart() {
                if let Some(seen) = self.pods.get(&placed.gang.pod_key(group, index))
                    && seen.held
                {
                    held.push(Held {
                        node: seen.node,
                        demand: self.catalog.demand(seen.demand),
                        pods: 1,
                        held: true,
                    });
                }
            }
        }
        held
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
