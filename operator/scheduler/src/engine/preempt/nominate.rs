//! Victims leave, and who follows them gets its place.

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

    /// A gang that has its place is to have it once others have left theirs.
    pub(in crate::engine) fn is_to_follow(&mut self, at: GangIdx) {
        if let Some(placed) = self.placed_mut(at) {
            placed.standing = Standing::Nominated;
            let gang = Arc::clone(&placed.gang);
            self.nominated.insert(at);
            self.queues.follows(at, &gang.id, &gang.queue);
            self.limits.follows(at);
        }
    }

    /// A gang that followed others runs from now on.
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

    /// Whether quota and limits let a gang run that follows others.
    fn room_of_follower(&mut self, at: GangIdx) -> FollowerRoom {
        let quota = self.queues.room_of_follower(at);
        let draws = self.state(at).map(|state| state.gang.draws.as_slice());
        let limits = draws.map(|draws| self.limits.room_of_follower(at, draws));
        limits.map_or(quota, |limits| limits.max(quota))
    }

    /// Looks at those that follow others: whose room is there gets its place, and
    /// who can have none any more waits again.
    pub(in crate::engine) fn settle_nominations(&mut self) -> Vec<Decision> {
        let mut decisions = Vec::new();
        // By name: what one gives up another may find free.
        let mut nominated: Vec<GangIdx> = self.nominated.iter().copied().collect();
        nominated.sort_by_key(|at| self.state(*at).map(|state| state.gang.id.clone()));
        if !nominated.is_empty() {
            // Where nodes stand now.
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
                // Someone else took it, or the nodes shrank.
                false => Prospect::Lost,
            };
        }
        // Its victims' last pods may stop where it does not go to: it need not wait for them.
        match self.room_of_follower(at) {
            FollowerRoom::Now => Prospect::Ready,
            FollowerRoom::Later => Prospect::Waits,
            // Someone stays after all whom others were to follow, or the quota was lowered.
            FollowerRoom::Never => Prospect::Lost,
        }
    }

    /// Whether what a gang that follows others is to be is what was planned; its
    /// place is judged by what it asks of nodes now.
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
        // Where its flavors were not known when it was restored: by what it is charged.
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

    /// Whether the nodes of a place have room for all that is charged to them.
    pub(in crate::engine) fn is_booked_once(&self, shape: &Shape, runs: &[Runs]) -> bool {
        shape.groups.iter().zip(runs).all(|(group, runs)| {
            let free = |node| {
                let mut demand = group.demand.iter();
                demand.all(|(resource, _)| self.nodes.free(*resource, node) >= 0)
            };
            runs.iter().all(|(node, _)| free(*node))
        })
    }

    /// The same with all gone that is on the way out.
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

    /// A gang that followed others, or no gang, has its place.
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
        // It runs from now on, and not since it was nominated.
        self.end_has_moved(at);
        Some(Decision::Place {
            gang: gang.id.clone(),
            placement: placed::placement(&self.nodes, &gang, groups.iter()),
            score,
        })
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
        for victim in victims {
            self.leave(victim);
        }
        self.is_to_follow(at);
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

/// Whether two gangs have the same pods, as close to each other, in the same queue.
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

/// What becomes of a gang that follows others.
enum Prospect {
    /// The room is there.
    Ready,
    /// The others have not left yet.
    Waits,
    /// It will not be there.
    Lost,
}
