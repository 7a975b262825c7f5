//! Nomination: victims leave, and their preemptor gets its place afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::placed::{self, Standing};
use super::super::ways::Way;
use super::super::{Engine, Stage};
use super::{Leaver, Plan};
use crate::decision::{Because, Decision, Score, Victim};
use crate::gang::{Gang, TaskGroup};
use crate::ids::GangId;
use crate::placement::{Closeness, Placement, Runs, UndoLog, excluded};
use crate::queue::GroupFlavors;
use crate::queueing::{Choice, FollowerRoom, Signal};
use crate::state::{GangIdx, NodeIdx, Shape};
use crate::time::Time;

impl Engine {
    /// Carries out a plan: the victims leave, and the placement is reserved for the gang.
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
        for victim in &victims {
            self.leave(victim.gang);
        }
        for (group, runs) in way.shape.groups.iter().zip(&groups) {
            for (node, pods) in runs {
                self.take(*node, &group.demand, *pods, true);
            }
        }
        self.has_started(at, gang, &way);
        self.settle_place(at, &way, groups, self.now);
        self.is_to_follow(at);
        decision
    }

    /// The victims with names, ordered by name.
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

    /// A placed gang is nominated: it starts once its victims have left.
    pub(in crate::engine) fn is_to_follow(&mut self, at: GangIdx) {
        if let Some(placed) = self.placed_mut(at) {
            placed.standing = Standing::Nominated;
            let gang = Arc::clone(&placed.gang);
            self.nominated.insert(at);
            self.queues.follows(at, &gang.id, &gang.queue);
            self.limits.follows(at);
        }
    }

    /// A nominated gang runs from now on.
    fn has_come(&mut self, at: GangIdx, gang: &Gang) {
        let root = self.queues.root(&gang.queue);
        let charged = self.queues.has_come(at).unwrap_or_default();
        for (what, amount) in charged.iter() {
            let taken = Signal::QuotaTaken(root.clone(), what);
            self.parking.raise(&taken, amount);
        }
        for (taken, amount) in self.limits.has_come(at) {
            self.parking.raise(&taken, amount);
        }
    }

    /// The room that quota and limits have for a nominated gang.
    fn room_of_follower(&mut self, at: GangIdx) -> FollowerRoom {
        let quota = self.queues.room_of_follower(at);
        let draws = self.state(at).map(|state| state.gang.draws.as_slice());
        let limits = draws.map(|draws| self.limits.room_of_follower(at, draws));
        limits.map_or(quota, |limits| limits.max(quota))
    }

    /// Checks the nominated gangs. A gang whose room is free starts; a gang that can no longer get
    /// its room is pending again.
    pub(in crate::engine) fn settle_nominations(&mut self) -> Vec<Decision> {
        let mut decisions = Vec::new();
        // By name: what one gang gives up may be free for the next.
        let mut nominated: Vec<GangIdx> = self.nominated.iter().copied().collect();
        nominated.sort_by_key(|at| self.state(*at).map(|state| state.gang.id.clone()));
        if !nominated.is_empty() {
            // The topologies must be up to date.
            self.nodes.rank();
        }
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
        if !self.is_still_its_place(at) {
            return Prospect::Lost;
        }
        let Some(Stage::Placed(placed)) = self.state(at).map(|s| &s.stage) else {
            return Prospect::Lost;
        };
        if placed.standing != Standing::Nominated {
            return Prospect::Lost;
        }
        let id = placed.gang.id.clone();
        let shape = Arc::clone(&placed.shape);
        let runs: Vec<Runs> = placed.groups.iter().map(|g| g.runs().clone()).collect();
        self.catalog.refresh(&shape, &self.nodes);
        let close = Closeness::of(&self.nodes, &shape);
        if close.is_none_or(|close| !close.allows(&runs)) {
            return Prospect::Lost;
        }
        let excluded = excluded(&shape, &self.nodes);
        for (group, runs) in shape.groups.iter().zip(&runs) {
            let signature = self.catalog.signature(group.signature);
            let allows = |(node, _): &(NodeIdx, u32)| {
                signature.is_some_and(|s| s.allows(*node)) && !excluded.contains(node)
            };
            if !runs.iter().all(allows) {
                return Prospect::Lost;
            }
        }
        if !self.is_booked_once(&shape, &runs) {
            return match self.is_booked_once_others_left(&id, &shape, &runs) {
                true => Prospect::Waits,
                // Another pod took the room, or the nodes shrank.
                false => Prospect::Lost,
            };
        }
        // The last pods of its victims may stop on other nodes; the gang need not wait for them.
        match self.room_of_follower(at) {
            FollowerRoom::Now => Prospect::Ready,
            FollowerRoom::Later => Prospect::Waits,
            // A victim stays after all, or the quota was lowered.
            FollowerRoom::Never => Prospect::Lost,
        }
    }

    /// True if the gang still has the pods and flavors that were planned. Its place is judged by
    /// its current constraints.
    fn is_still_its_place(&mut self, at: GangIdx) -> bool {
        let Some(Ok(ways)) = self.ways(at) else {
            return false;
        };
        let Some(state) = self.state(at) else {
            return false;
        };
        let Stage::Placed(placed) = &state.stage else {
            return false;
        };
        let (gang, planned) = (Arc::clone(&state.gang), &placed.gang);
        if self.queues.open(&gang.queue).is_err() || !has_same_pods(&gang, planned) {
            return false;
        }
        let nothing = Choice::default();
        let chosen = |choices: &[Choice]| -> Vec<Choice> {
            let groups = (0..gang.groups.len()).map(|n| choices.get(n).unwrap_or(&nothing));
            groups.cloned().collect()
        };
        let taken = chosen(&placed.choices);
        // If the flavors were unknown at restore, the charge identifies the assignment.
        let unknown = taken.iter().all(Choice::is_empty);
        let charged = self.queues.held(&gang.queue, at);
        let is_it = |way: &&Way| {
            let like = unknown && charged.is_none_or(|charged| way.demand == *charged);
            chosen(&way.choices) == taken || like
        };
        let Some(way) = ways.iter().find(is_it) else {
            return false;
        };
        let choices = way.choices.clone();
        let shape = Arc::clone(&way.shape);
        let is_same = Arc::ptr_eq(&shape, &placed.shape);
        if !is_same {
            self.catalog.retain_shape(&shape);
        }
        if let Some(placed) = self.placed_mut(at) {
            (placed.gang, placed.choices) = (gang, choices);
            if !is_same {
                let before = std::mem::replace(&mut placed.shape, shape);
                self.drop_shape(&before);
            }
        }
        true
    }

    /// True if the nodes of a placement have room for all that is charged to them.
    pub(in crate::engine) fn is_booked_once(&self, shape: &Shape, runs: &[Runs]) -> bool {
        shape.groups.iter().zip(runs).all(|(group, runs)| {
            let free = |node| {
                let mut demand = group.demand.iter();
                demand.all(|(resource, _)| self.nodes.free(*resource, node) >= 0)
            };
            runs.iter().all(|(node, _)| free(*node))
        })
    }

    /// Checks the same once everything that leaves is gone.
    fn is_booked_once_others_left(&mut self, gang: &GangId, shape: &Shape, runs: &[Runs]) -> bool {
        let nodes: BTreeSet<NodeIdx> = runs.iter().flatten().map(|(node, _)| *node).collect();
        let mut left = UndoLog::default();
        for hold in self.going(gang) {
            if nodes.contains(&hold.node) {
                left.lift(&mut self.nodes, &hold);
            }
        }
        let is_booked_once = self.is_booked_once(shape, runs);
        left.roll_back(&mut self.nodes);
        is_booked_once
    }

    /// Starts a nominated gang, or one without victims.
    pub(in crate::engine) fn arrive(&mut self, at: GangIdx) -> Option<Decision> {
        self.nominated.remove(&at);
        let now = self.now;
        let placed = self.placed_mut(at)?;
        placed.standing = Standing::Settled;
        placed.since = now;
        let (gang, shape) = (Arc::clone(&placed.gang), Arc::clone(&placed.shape));
        let groups: Vec<Runs> = placed.groups.iter().map(|g| g.runs().clone()).collect();
        let score: Score = self.score(&shape, &groups);
        self.has_come(at, &gang);
        // The runtime counts from now, not from the nomination.
        self.end_has_moved(at);
        Some(Decision::Place {
            gang: gang.id.clone(),
            placement: placed::placement(&self.nodes, &gang, groups.iter()),
            score,
        })
    }

    /// The room is not available: the gang is pending again.
    fn give_up(&mut self, at: GangIdx) {
        self.unplace(at);
        self.wait(at);
    }

    /// Evicts all gangs of queues that are being drained.
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

    /// Like [`Engine::restore_gang`], for a gang that starts once these victims have left. Victims
    /// that are placed leave from now on. A new leader uses it for a nomination that was recorded.
    pub fn restore_nomination(&mut self, gang: Gang, placement: Placement, victims: &[GangId]) {
        self.restore_nomination_in(gang, placement, &[], victims);
    }

    /// Does the same for a gang with these flavors, see [`Engine::restore_gang_in`].
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
        for victim in victims {
            self.leave(victim);
        }
        self.is_to_follow(at);
    }

    /// Records that a placed gang saved its work at `at`: earlier work is not lost with it.
    pub fn checkpointed(&mut self, gang: &GangId, at: Time) {
        if let Some(&gang) = self.ids.get(gang)
            && let Some(placed) = self.placed_mut(gang)
        {
            placed.checkpoint = placed.checkpoint.max(Some(at));
        }
    }
}

/// True if two gangs have the same pods and topology requests, in the same queue.
fn has_same_pods(gang: &Gang, other: &Gang) -> bool {
    let pods = |group: &TaskGroup| {
        let TaskGroup {
            name,
            count,
            request,
            topology,
            pod_prefix,
            ..
        } = group.clone();
        (name, count, request, topology, pod_prefix)
    };
    let all = |gang: &Gang| gang.groups.iter().map(pods).collect::<Vec<_>>();
    let is_like = |a: &Gang, b: &Gang| {
        (&a.queue, &a.topology, a.surplus) == (&b.queue, &b.topology, b.surplus)
    };
    is_like(gang, other) && all(gang) == all(other)
}

/// The outlook of a nominated gang.
enum Prospect {
    /// Its room is free.
    Ready,
    /// Its victims have not left yet.
    Waits,
    /// Its room will not become free.
    Lost,
}
