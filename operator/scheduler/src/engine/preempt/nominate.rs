//! Victims leave, and who follows them gets its place.

use std::sync::Arc;

use super::super::placed::{self, Nomination, Standing};
use super::super::{Engine, Stage};
use super::{Leaver, Plan};
use crate::decision::{Because, Decision, Score, Victim};
use crate::gang::Gang;
use crate::ids::{GangId, PodKey};
use crate::placement::{Placement, Runs};
use crate::queue::GroupFlavors;
use crate::queueing::Signal;
use crate::state::{GangIdx, NodeIdx};
use crate::time::Time;

impl Engine {
    /// What has been found out is done: the victims leave, and nobody else is put
    /// where the gang is to go.
    pub(in crate::engine) fn nominate(
        &mut self,
        at: GangIdx,
        gang: &Arc<Gang>,
        plan: Plan,
    ) -> Decision {
        let Plan {
            way,
            groups,
            victims,
        } = plan;
        let decision = Decision::Preempt {
            gang: gang.id.clone(),
            placement: placed::placement(&self.nodes, gang, groups.iter()),
            victims: self.named(&victims),
        };
        let leaving: Vec<GangIdx> = victims.iter().map(|v| v.gang).collect();
        for victim in &leaving {
            self.leave(*victim);
        }
        self.parking.unpark(at);
        self.waiting.remove(gang);
        self.parking.raise(&Signal::Head(gang.queue.clone()), 1);
        for (group, runs) in way.shape.groups.iter().zip(&groups) {
            for (node, pods) in runs {
                self.take(*node, &group.demand, *pods, true);
            }
        }
        self.has_started(at, gang, &way);
        self.settle_place(at, &way, groups, self.now);
        self.follow(at, leaving);
        decision
    }

    /// Victims by name, in order.
    pub(in crate::engine) fn named(&self, victims: &[Leaver]) -> Vec<Victim> {
        let named = victims.iter().filter_map(|leaver| {
            Some(Victim {
                gang: self.gangs.name(leaver.gang)?.clone(),
                because: leaver.because,
                lost_device_seconds: leaver.lost_device_seconds,
            })
        });
        let mut named: Vec<Victim> = named.collect();
        named.sort_by(|a, b| a.gang.cmp(&b.gang));
        named
    }

    /// A placed gang gives up its quota; its nodes follow when its pods are gone.
    fn leave(&mut self, at: GangIdx) {
        let Some(state) = self.state_mut(at) else {
            return;
        };
        state.preempted = true;
        let Stage::Placed(placed) = &state.stage else {
            return;
        };
        if placed.standing.is_leaving() {
            return;
        }
        let queue = placed.gang.queue.clone();
        let demand = self.give_quota_back(&queue, at);
        if let Some(placed) = self.placed_mut(at) {
            placed.standing = Standing::Leaving(demand);
        }
    }

    /// A gang that has its place is to have it once these have left theirs.
    fn follow(&mut self, at: GangIdx, victims: Vec<GangIdx>) {
        let pods = victims.iter().flat_map(|v| self.seen_pods(*v)).collect();
        if let Some(placed) = self.placed_mut(at) {
            placed.standing = Standing::Nominated(Nomination { victims, pods });
            self.nominated.insert(at);
        }
    }

    /// The pods of a gang that have been seen, and where.
    fn seen_pods(&self, at: GangIdx) -> Vec<(PodKey, NodeIdx)> {
        let Some(Stage::Placed(placed)) = self.state(at).map(|s| &s.stage) else {
            return Vec::new();
        };
        let groups = placed.gang.groups.iter().zip(&placed.groups);
        let keys = groups.flat_map(|(group, planned)| {
            planned
                .settled()
                .map(|index| placed.gang.pod_key(group, index))
        });
        keys.filter_map(|key| {
            let node = self.pods.get(&key)?.node;
            Some((key, node))
        })
        .collect()
    }

    /// Looks at those that follow others: whose room is there gets its place, and
    /// who can have none any more waits again.
    pub(in crate::engine) fn settle_nominations(&mut self) -> Vec<Decision> {
        let mut decisions = Vec::new();
        // By name: what one gives up another may find free.
        let mut nominated: Vec<GangIdx> = self.nominated.iter().copied().collect();
        nominated.sort_by_key(|at| self.state(*at).map(|state| state.gang.id.clone()));
        for at in nominated {
            match self.prospect(at) {
                Prospect::Ready => decisions.extend(self.arrive(at)),
                Prospect::Waits => {}
                Prospect::Lost => self.give_up(at),
            }
        }
        decisions
    }

    fn prospect(&mut self, at: GangIdx) -> Prospect {
        let Some(Stage::Placed(placed)) = self.state(at).map(|s| &s.stage) else {
            return Prospect::Lost;
        };
        let Standing::Nominated(nomination) = &placed.standing else {
            return Prospect::Lost;
        };
        let shape = Arc::clone(&placed.shape);
        let runs: Vec<Runs> = placed.groups.iter().map(|g| g.runs().clone()).collect();
        let left = nomination
            .victims
            .iter()
            .all(|victim| !self.is_leaving(*victim));
        let gone = nomination
            .pods
            .iter()
            .all(|(pod, node)| self.pods.get(pod).is_none_or(|seen| seen.node != *node));
        self.catalog.refresh(&shape, &self.nodes);
        let mut room = true;
        for (group, runs) in shape.groups.iter().zip(&runs) {
            let signature = self.catalog.signature(group.signature);
            for (node, _) in runs {
                if signature.is_none_or(|s| !s.allows(*node)) {
                    return Prospect::Lost;
                }
                let free =
                    |(r, _): &(crate::state::ResourceIdx, i64)| self.nodes.free(*r, *node) >= 0;
                room &= group.demand.iter().all(free);
            }
        }
        match (left, room, gone) {
            // Quota is given back with the place, and not before.
            (true, true, _) => Prospect::Ready,
            // Someone else took it, or the nodes shrank.
            (true, false, true) => Prospect::Lost,
            _ => Prospect::Waits,
        }
    }

    pub(super) fn is_leaving(&self, at: GangIdx) -> bool {
        let stage = self.state(at).map(|state| &state.stage);
        matches!(stage, Some(Stage::Placed(placed)) if placed.standing.is_leaving())
    }

    fn arrive(&mut self, at: GangIdx) -> Option<Decision> {
        self.nominated.remove(&at);
        let now = self.now;
        let placed = self.placed_mut(at)?;
        placed.standing = Standing::Settled;
        placed.since = now;
        let (gang, shape) = (Arc::clone(&placed.gang), Arc::clone(&placed.shape));
        let groups: Vec<Runs> = placed.groups.iter().map(|g| g.runs().clone()).collect();
        let score: Score = self.score(&shape, &groups);
        // It runs from now on, and not since it was nominated.
        self.end_has_moved(at);
        Some(Decision::Place {
            gang: gang.id.clone(),
            placement: placed::placement(&self.nodes, &gang, groups.iter()),
            score,
        })
    }

    /// A gang is no more: nobody waits for it to leave, or for who gets its number.
    pub(in crate::engine) fn forget_victim(&mut self, gone: GangIdx) {
        for at in self.nominated.clone() {
            if let Some(placed) = self.placed_mut(at)
                && let Standing::Nominated(nomination) = &mut placed.standing
            {
                nomination.victims.retain(|victim| *victim != gone);
            }
        }
    }

    /// The room is not to be had: the gang waits again.
    fn give_up(&mut self, at: GangIdx) {
        self.unplace(at);
        self.wait(at);
    }

    /// Lets go of all that runs in queues that are drained.
    pub(in crate::engine) fn drain(&mut self) -> Vec<Decision> {
        let mut leavers = Vec::new();
        for queue in self.queues.draining() {
            for (gang, _) in self.queues.held_by(&queue) {
                leavers.extend(self.settled(gang).map(|placed| Leaver {
                    gang,
                    because: Because::Drained,
                    lost_device_seconds: placed.stake().lost_device_seconds(self.now),
                }));
            }
        }
        for leaver in &leavers {
            self.leave(leaver.gang);
        }
        let victims = self.named(&leavers).into_iter();
        victims.map(|victim| Decision::Drain { victim }).collect()
    }

    /// As [`Engine::restore_gang`], for a gang that is to have its place once these
    /// have left theirs: those of them that have a place leave it from now on. Of
    /// use to a new leader that finds a nomination written down.
    pub fn restore_nomination(&mut self, gang: Gang, placement: Placement, victims: &[GangId]) {
        self.restore_nomination_in(gang, placement, &[], victims);
    }

    /// The same of a gang that was given these flavors, as [`Engine::restore_gang_in`] takes them.
    pub fn restore_nomination_in(
        &mut self,
        gang: Gang,
        placement: Placement,
        flavors: &[GroupFlavors],
        victims: &[GangId],
    ) {
        let id = gang.id.clone();
        self.restore_gang_in(gang, placement, flavors, self.now);
        let Some(&at) = self.ids.get(&id) else {
            return;
        };
        let victims: Vec<GangIdx> = victims
            .iter()
            .filter_map(|victim| self.ids.get(victim).copied())
            .filter(|victim| *victim != at)
            .collect();
        for victim in &victims {
            self.leave(*victim);
        }
        self.follow(at, victims);
    }

    /// A gang that was told to leave stays: it has its quota again, whatever that
    /// says, and is no victim before then. Nothing happens to one that does not leave.
    pub fn stay(&mut self, gang: &GangId, until: Time) {
        let Some(&at) = self.ids.get(gang) else {
            return;
        };
        let Some(placed) = self.placed_mut(at).filter(|p| p.standing.is_leaving()) else {
            return;
        };
        let standing = std::mem::take(&mut placed.standing);
        placed.protected = Some(until);
        let gang = Arc::clone(&placed.gang);
        if let Standing::Leaving(demand) = standing {
            self.take_quota(at, &gang, demand);
        }
        self.backfill.disturb();
    }

    /// The work of a placed gang was safe at that time: what came before is not lost
    /// with it.
    pub fn checkpointed(&mut self, gang: &GangId, at: Time) {
        if let Some(&gang) = self.ids.get(gang)
            && let Some(placed) = self.placed_mut(gang)
        {
            placed.checkpoint = placed.checkpoint.max(Some(at));
        }
    }
}

/// What becomes of a gang that follows others.
enum Prospect {
    /// The room is there.
    Ready,
    /// The others have not left yet.
    Waits,
    /// It will not be there.
    Lost,
}
