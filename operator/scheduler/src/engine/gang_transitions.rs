//! Moves of a gang between pending, blocked and placed. Each move changes the gang table, the
//! scheduling queue and the reservations together, so that they agree.

use std::sync::Arc;

use super::Engine;
use super::cycle::CycleLog;
use super::gang_table::PlacedGang;
use crate::placement::asks_for_topology;
use crate::queueing::{Blockage, OrderKey, Signal};
use crate::state::GangIdx;

impl Engine {
    /// Makes a gang without a place pending and due.
    pub(super) fn make_pending(&mut self, at: GangIdx) {
        if let Some(state) = self.gangs.get_mut(at) {
            state.awaits_apply = false;
            self.scheduling_queue.insert(&state.gang, at);
        }
    }

    /// Blocks a gang after a try, with this explanation.
    pub(super) fn block_gang(
        &mut self,
        at: GangIdx,
        mut blocked: Box<Blockage>,
        log: &mut CycleLog,
    ) {
        let reported = self.gangs.get(at).and_then(|state| state.reported_reason);
        if self.finds_changes
            && reported != Some(blocked.explanation.reported())
            && let Some(gang) = self.gangs.get(at).map(|state| Arc::clone(&state.gang))
            && let Some(ways) = self.assignments(at)
        {
            let lifted = self.lift_place(at);
            self.complete_explanation(&gang, &ways, &mut blocked);
            self.put_back_place(lifted);
        }
        let Some(state) = self.gangs.get_mut(at) else {
            return;
        };
        let short_since = state.short_since.unwrap_or(self.now);
        state.short_since = blocked.lacks_only_room().then_some(short_since);
        if asks_for_topology(&state.shape) {
            // The topology level of the gang may come or go, so the gang always wakes on changes of
            // topologies.
            blocked.wake.on_rise(Signal::Topologies, 1);
        }
        let gang = Arc::clone(&state.gang);
        let key = OrderKey::for_gang(&gang);
        self.gangs.set_explanation(at, blocked.explanation.clone());
        self.insert_blocked(at, &blocked);
        self.scheduling_queue.park(&gang, at, blocked.wake);
        log.add_tried(key, at);
    }

    /// Makes all woken gangs due.
    pub(super) fn wake_gangs(&mut self) {
        for at in self.scheduling_queue.take_woken() {
            let blocked = self.reservations.blocked().get(at);
            if blocked.is_none_or(|blocked| !blocked.waits_for_reservation) {
                self.reservations.remove_blocked(at);
            }
            if let Some(state) = self.gangs.get(at) {
                self.scheduling_queue.make_due(&state.gang, at);
            }
        }
    }

    /// Makes a gang due, if it is pending.
    pub(super) fn make_due(&mut self, at: GangIdx) {
        self.reservations.remove_blocked(at);
        if let Some(state) = self.gangs.get(at) {
            self.scheduling_queue.make_due(&state.gang, at);
        }
    }

    /// Ends the pending stage of a gang that is changed, placed or deleted.
    pub(super) fn end_pending(&mut self, at: GangIdx) {
        self.reservations.remove_blocked(at);
        if let Some(state) = self.gangs.get(at) {
            self.scheduling_queue.remove(&state.gang, at);
        }
    }

    /// Records the place of a gang.
    pub(super) fn set_placed(&mut self, at: GangIdx, placed: PlacedGang) {
        self.end_pending(at);
        self.finish_provisioning(at);
        self.gangs.place(at, placed);
        self.insert_end(at);
        self.scheduling_queue.raise(&Signal::Turns, 1);
    }

    /// Takes a gang out of its place, if it has one. The caller must release the charges of the
    /// place, and make the gang pending if it should be.
    pub(super) fn take_placed(&mut self, at: GangIdx) -> Option<Box<PlacedGang>> {
        let placed = self.gangs.take_placed(at)?;
        self.reservations
            .remove_end(at, &placed.gang.id, &placed.gang.queue);
        self.scheduling_queue.raise(&Signal::Turns, 1);
        Some(placed)
    }
}
