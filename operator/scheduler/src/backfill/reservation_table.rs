//! The heads with their reservations, and the gangs that wait for room or quota.

use std::collections::BTreeMap;

use super::blocked::{BlockedGang, BlockedGangs};
use super::end_table::EndTable;
use super::head::{Head, Reservation};
use super::quota_head::QuotaHead;
use super::run_term::RunTerm;
use crate::ids::{GangId, QueueName};
use crate::queueing::OrderKey;
use crate::state::GangIdx;
use crate::time::Time;

/// The heads with their reservations, the blocked gangs from which they come, and the expected ends
/// on which they rely.
///
/// INVARIANT: unless they are stale, the heads are those that a new computation would find, except
/// for gangs that have started since and respect them. A quota head that is there is valid. Heads
/// that are not stale, and quota heads, are blocked gangs.
#[derive(Debug, Default)]
pub(crate) struct ReservationTable {
    ends: EndTable,
    blocked: BlockedGangs,
    /// The heads, in global order.
    heads: Vec<Head>,
    /// The first gang of each queue that lacks quota. Missing entries are not computed yet.
    quota_heads: BTreeMap<QueueName, QuotaHead>,
    /// The first end that the choice of heads relied on.
    first_quota_end: Option<Time>,
    /// The version of packing for which the heads are valid.
    packing_version: u64,
    /// True if the heads or their reservations may have changed.
    stale: bool,
    /// True if a gang has started since the engine computed the heads. The gang respects the heads.
    gang_has_started: bool,
    /// True if the engine ignores reservations: the caller only queries if there is room.
    ignored: bool,
    /// The reservations that the engine last reported.
    reported: BTreeMap<GangId, Reservation>,
}

/// The quota heads that a caller has set aside.
#[derive(Debug)]
pub(crate) struct QuotaHeadsAside(BTreeMap<QueueName, QuotaHead>);

impl ReservationTable {
    /// Records a change that may move a reservation.
    pub(crate) fn mark_stale(&mut self) {
        self.stale = true;
        self.quota_heads.clear();
    }

    /// Records that the heads may have changed. The quota heads stay valid.
    pub(crate) fn mark_heads_stale(&mut self) {
        self.stale = true;
    }

    /// True if the heads must be computed again before they are used.
    pub(crate) fn is_stale(&self) -> bool {
        self.stale
    }

    /// True if nothing has happened since the heads were computed.
    pub(crate) fn is_settled(&self) -> bool {
        !self.stale && !self.gang_has_started
    }

    /// Marks the results as stale that time or a change of packing has made invalid.
    pub(crate) fn check(&mut self, now: Time, packing_version: u64) {
        let late = self.expires_at().is_some_and(|end| end <= now);
        if late || self.packing_version != packing_version {
            self.stale = true;
        }
        self.quota_heads
            .retain(|_, head| head.first_end.is_none_or(|end| end >= now));
    }

    /// Returns the first time at which a current reservation becomes invalid if a gang has not
    /// ended on time.
    pub(crate) fn expires_at(&self) -> Option<Time> {
        let ends = self.heads.iter().filter_map(|head| head.plan.first_end);
        ends.chain(self.first_quota_end)
            .min()
            .map(|end| end.plus_millis(1))
    }

    /// Records that a gang has started. `respects_heads` is false if it may take room of a head.
    pub(crate) fn note_start(&mut self, respects_heads: bool) {
        self.gang_has_started = true;
        self.stale |= !respects_heads;
    }

    /// Begins to compute the heads again, and returns the heads so far. None: no gang waits for
    /// room, so there is no head. The caller calls [`Self::push_head`] for each head.
    pub(crate) fn start_renewal(&mut self, packing_version: u64) -> Option<Vec<Head>> {
        self.stale = false;
        self.gang_has_started = false;
        self.packing_version = packing_version;
        self.first_quota_end = None;
        if self.blocked.is_empty() && self.heads.is_empty() {
            return None;
        }
        Some(std::mem::take(&mut self.heads))
    }

    /// Adds the next head in global order.
    pub(crate) fn push_head(&mut self, head: Head) {
        self.heads.push(head);
    }

    /// Records the first end that the choice of heads relies on.
    pub(crate) fn set_first_quota_end(&mut self, end: Option<Time>) {
        self.first_quota_end = end;
    }

    /// True if the heads restrict other gangs otherwise than `before`.
    pub(crate) fn differs_from(&self, before: &[Head]) -> bool {
        before.len() != self.heads.len()
            || !before
                .iter()
                .zip(&self.heads)
                .all(|(a, b)| a.restricts_same(b))
    }

    /// Returns the heads, in global order.
    pub(crate) fn heads(&self) -> &[Head] {
        &self.heads
    }

    /// True if a gang is head of a pool of nodes.
    pub(crate) fn is_head(&self, at: GangIdx) -> bool {
        self.heads.iter().any(|head| head.gang_idx == at)
    }

    /// Returns the quota head of a queue, if it is computed.
    pub(crate) fn quota_head(&self, queue: &QueueName) -> Option<&QuotaHead> {
        self.quota_heads.get(queue)
    }

    pub(crate) fn insert_quota_head(&mut self, queue: QueueName, head: QuotaHead) {
        self.quota_heads.insert(queue, head);
    }

    /// Sets the quota heads aside, for a short time in which other quota is free.
    pub(crate) fn set_quota_heads_aside(&mut self) -> QuotaHeadsAside {
        QuotaHeadsAside(std::mem::take(&mut self.quota_heads))
    }

    /// Puts back the quota heads that [`Self::set_quota_heads_aside`] returned.
    pub(crate) fn put_back_quota_heads(&mut self, heads: QuotaHeadsAside) {
        self.quota_heads = heads.0;
    }

    /// Returns the gangs that wait for room or quota.
    pub(crate) fn blocked(&self) -> &BlockedGangs {
        &self.blocked
    }

    /// Records what a gang waits for. Returns false if this is known.
    pub(crate) fn insert_blocked(&mut self, at: GangIdx, blocked: BlockedGang) -> bool {
        if self.blocked.get(at) == Some(&blocked) {
            return false;
        }
        self.remove_blocked(at);
        self.blocked.insert(at, blocked);
        true
    }

    /// Records that a gang at this place of its queue waits for quota. If it comes before the quota
    /// head, or if there is none, the quota head must be computed again.
    pub(crate) fn note_quota_wait(&mut self, queue: &QueueName, key: &OrderKey) {
        let head = self.quota_heads.get(queue);
        if head.is_none_or(|head| *key < head.key) {
            self.quota_heads.remove(queue);
            self.stale = true;
        }
    }

    /// Removes a gang from the blocked gangs, because it is due again or no longer pending.
    pub(crate) fn remove_blocked(&mut self, at: GangIdx) {
        let was_first = self.blocked.remove(at);
        let before = self.quota_heads.len();
        self.quota_heads.retain(|_, head| head.gang_idx != at);
        let was_quota_head = before != self.quota_heads.len();
        if was_first || was_quota_head || self.is_head(at) {
            self.stale = true;
        }
    }

    /// Returns the expected ends of placed gangs.
    pub(crate) fn ends(&self) -> &EndTable {
        &self.ends
    }

    /// Returns the expected ends of placed gangs, to update them to the current time.
    pub(crate) fn ends_mut(&mut self) -> &mut EndTable {
        &mut self.ends
    }

    /// Records the expected end of a placed gang. The start of a quota head may depend on it.
    pub(crate) fn insert_end(
        &mut self,
        at: GangIdx,
        id: &GangId,
        queue: QueueName,
        term: RunTerm,
        now: Time,
    ) {
        self.ends.insert(at, id, queue, term, now);
        self.quota_heads.clear();
    }

    /// Removes the end of a gang that is no longer placed.
    pub(crate) fn remove_end(&mut self, at: GangIdx, id: &GangId, queue: &QueueName) {
        self.ends.remove(at, id, queue);
        self.mark_stale();
    }

    /// True if the engine ignores reservations for now.
    pub(crate) fn are_ignored(&self) -> bool {
        self.ignored
    }

    /// Ignores reservations until this is called with false.
    pub(crate) fn ignore(&mut self, ignored: bool) {
        self.ignored = ignored;
    }

    /// Returns the reservations that were last reported, by gang.
    pub(crate) fn reported(&self) -> &BTreeMap<GangId, Reservation> {
        &self.reported
    }

    /// Replaces the reservations that were last reported.
    pub(crate) fn restore_reported(&mut self, reported: impl IntoIterator<Item = Reservation>) {
        let reported = reported.into_iter();
        self.reported = reported.map(|r| (r.gang.clone(), r)).collect();
    }

    /// Reports all reservations. Returns those that are new or have changed since the last report.
    pub(crate) fn report(&mut self) -> Vec<Reservation> {
        let before = std::mem::take(&mut self.reported);
        let mut news = Vec::new();
        for head in &self.heads {
            let reservation = head.reservation();
            if before.get(head.id()) != Some(&reservation) {
                news.push(reservation.clone());
            }
            self.reported.insert(head.id().clone(), reservation);
        }
        news
    }
}

#[cfg(test)]
mod tests;
