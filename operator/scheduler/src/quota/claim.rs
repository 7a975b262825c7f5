//! What a queue may ask back of another that holds something.

use super::amounts::Demand;
use super::room::Offer;
use super::tree::{QueueIdx, Tree};

/// Why a queue may ask another to give something back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// What is asked for is guaranteed to it, and the other holds more than its own.
    Owed,
    /// It would borrow as well.
    Borrowing,
}

impl Tree {
    /// Whether a queue with a demand may ask another back what it holds, as of now:
    /// the other borrows something of the kind, by way of queues that all do, up to
    /// the lowest queue that both are below. A queue without any limit has no
    /// guarantee: whoever asks for its own may ask it, though they share no root.
    pub(crate) fn claim(
        &self,
        asker: QueueIdx,
        demand: &Demand,
        holder: QueueIdx,
    ) -> Option<Claim> {
        let above: Vec<QueueIdx> = self.path(asker).map(|(at, _)| at).collect();
        let (common, _) = match self.path(holder).find(|(at, _)| above.contains(at)) {
            Some(common) => common,
            None => return self.claims_from_outside(asker, demand, holder),
        };
        let borrows = demand.iter().any(|(what, _)| {
            if self.offer(holder, what) != Offer::Quota {
                return false;
            }
            let below = self.path(holder).take_while(|(at, _)| *at != common);
            let mut chain = below.map(|(_, node)| node.cell(what)).peekable();
            let own = chain.peek().is_some_and(|cell| cell.counted() > 0);
            own && chain.all(|cell| cell.borrowed() > 0)
        });
        if !borrows {
            return None;
        }
        if self.owing(asker, demand).contains(&common) {
            Some(Claim::Owed)
        } else {
            Some(Claim::Borrowing)
        }
    }

    fn claims_from_outside(
        &self,
        asker: QueueIdx,
        demand: &Demand,
        holder: QueueIdx,
    ) -> Option<Claim> {
        let limited = |(what, _)| self.offer(asker, what) == Offer::Quota;
        let unlimited = |(what, _)| self.offer(holder, what) == Offer::NoLimit;
        let named = |(what, _): &(super::FlavorResource, i128)| what.resource != self.pods;
        let owed = demand.iter().filter(named).any(limited)
            && demand.iter().filter(named).any(unlimited)
            && !self.borrows(asker, demand);
        owed.then_some(Claim::Owed)
    }

    /// Whether a queue holds more than its quota of anything in a demand.
    pub(crate) fn is_borrowing(&self, queue: QueueIdx, demand: &Demand) -> bool {
        let Some(node) = self.node(queue) else {
            return false;
        };
        demand.iter().any(|(what, _)| {
            self.offer(queue, what) == Offer::Quota && node.cell(what).borrowed() > 0
        })
    }

    /// As if a demand were not charged to a queue, until it is put back: what has
    /// been held is remembered as if nothing had happened.
    pub(crate) fn lift(&mut self, queue: QueueIdx, demand: &Demand) {
        for (what, amount) in demand.iter() {
            self.change(queue, what, |cell| {
                cell.own = cell.own.saturating_sub(amount);
            });
        }
    }

    /// Takes a lift back.
    pub(crate) fn put_back(&mut self, queue: QueueIdx, demand: &Demand) {
        for (what, amount) in demand.iter() {
            self.change(queue, what, |cell| {
                cell.own = cell.own.saturating_add(amount);
            });
        }
    }
}
