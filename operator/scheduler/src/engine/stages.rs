//! The stage of each gang: pending, parked or placed. It is changed only here, so that queues,
//! parking, blocked gangs and the gang itself stay consistent.

use std::sync::Arc;

use super::cycle::LookedAt;
use super::placed::Placed;
use super::{Engine, Stage};
use crate::limits::Lines;
use crate::placement::asks_for_topology;
use crate::queueing::{Blocked, OrderKey, Signal};
use crate::state::GangIdx;

impl Engine {
    /// Makes a gang without a place pending and due.
    pub(super) fn wait(&mut self, at: GangIdx) {
        if let Some(state) = self.state_mut(at) {
            state.idle = false;
        }
        if let Some(state) = self.gangs.get(at.at()) {
            self.waiting.insert(&state.gang, at);
            for signal in self.lines.join(&state.gang) {
                self.parking.raise(&signal, 1);
            }
            self.parking
                .raise(&Signal::Head(state.gang.queue.clone()), 1);
        }
    }

    /// Blocks a gang that has been tried, with this explanation.
    pub(super) fn block(
        &mut self,
        at: GangIdx,
        mut blocked: Box<Blocked>,
        looked_at: &mut LookedAt,
    ) {
        let told = self.state(at).and_then(|state| state.told);
        if told != Some(blocked.certificate.reason)
            && let Some(gang) = self.state(at).map(|state| Arc::clone(&state.gang))
            && let Some(ways) = self.ways(at)
        {
            let lifted = self.lift(at);
            self.say_what_helps(&gang, &ways, &mut blocked);
            self.put_back(lifted);
        }
        let Some(state) = self.state_mut(at) else {
            return;
        };
        if asks_for_topology(&state.shape) {
            // The topology level of the gang may come or go, whatever else it waits for.
            blocked.wake.on(Signal::Topologies, 1);
        }
        Lines::watch(&state.gang, &mut blocked.wake);
        state.stage = Stage::Waiting(Some(blocked.certificate.clone()));
        let key = OrderKey::of(&state.gang);
        self.note_blocked(at, &blocked);
        self.parking.park(at, blocked.wake);
        looked_at.insert((key, at));
    }

    /// Makes all woken gangs due.
    pub(super) fn wake(&mut self) {
        for at in self.parking.take_woken() {
            let blocked = self.backfill.blocked.get(at);
            if blocked.is_none_or(|blocked| !blocked.is_kept_out) {
                self.forget_blocked(at);
            }
            if let Some(state) = self.gangs.get(at.at()) {
                self.waiting.make_due(&state.gang, at);
            }
        }
    }

    /// Makes a gang due, if it is pending.
    pub(super) fn look_again_at(&mut self, at: GangIdx) {
        self.parking.unpark(at);
        self.forget_blocked(at);
        if let Some(state) = self.gangs.get(at.at()) {
            self.waiting.make_due(&state.gang, at);
        }
    }

    /// Ends the pending stage of a gang that changes, is placed or goes.
    pub(super) fn stop_waiting(&mut self, at: GangIdx) {
        self.parking.unpark(at);
        self.forget_blocked(at);
        if let Some(state) = self.gangs.get(at.at())
            && self.waiting.remove(&state.gang)
        {
            for signal in self.lines.leave(&state.gang) {
                self.parking.raise(&signal, 1);
            }
            self.parking
                .raise(&Signal::Head(state.gang.queue.clone()), 1);
        }
    }

    /// Records the place of a gang.
    pub(super) fn put_in_place(&mut self, at: GangIdx, placed: Placed) {
        self.stop_waiting(at);
        let Some(state) = self.state_mut(at) else {
            return;
        };
        state.not_before = None;
        state.told = None;
        state.stage = Stage::Placed(Box::new(placed));
        self.placed = self.placed.saturating_add(1);
        self.starts_to_end(at);
        self.parking.raise(&Signal::Turns, 1);
    }

    /// Takes a gang out of its place, if it has one. The caller must release what the place holds,
    /// and make the gang pending if it should be.
    pub(super) fn take_out(&mut self, at: GangIdx) -> Option<Box<Placed>> {
        let state = self.state_mut(at)?;
        if matches!(state.stage, Stage::Waiting(_)) {
            return None;
        }
        let stage = std::mem::replace(&mut state.stage, Stage::Waiting(None));
        let Stage::Placed(placed) = stage else {
            return None;
        };
        self.placed = self.placed.saturating_sub(1);
        self.nominated.remove(&at);
        self.has_ended(at, &placed.gang.id, &placed.gang.queue);
        self.parking.raise(&Signal::Turns, 1);
        Some(placed)
    }
}
