//! What a queue may ask back of another that holds something.

use super::amounts::{Demand, FlavorResource};
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

/// What may be asked of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claimed {
    pub(crate) claim: Claim,
    /// What it borrows.
    pub(crate) what: FlavorResource,
    /// As long as less than this of it has been given back, anywhere, it still does.
    pub(crate) left: i128,
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
    ) -> Option<Claimed> {
        let above: Vec<QueueIdx> = self.path(asker).map(|(at, _)| at).collect();
        let (common, _) = match self.path(holder).find(|(at, _)| above.contains(at)) {
            Some(common) => common,
            None => return self.claims_from_outside(asker, demand, holder),
        };
        let borrowed = |what: FlavorResource| -> i128 {
            if self.offer(holder, what) != Offer::Quota {
                return 0;
            }
            let below = self.path(holder).take_while(|(at, _)| *at != common);
            let mut chain = below.map(|(_, node)| node.cell(what)).peekable();
            let own = chain.peek().map_or(0, |cell| cell.counted());
            chain.fold(own, |least, cell| least.min(cell.borrowed()))
        };
        let most = demand.iter().map(|(what, _)| (borrowed(what), what));
        let (left, what) = most.max().filter(|(left, _)| *left > 0)?;
        let owed = self.owing(asker, demand).contains(&common);
        Some(Claimed {
            claim: if owed { Claim::Owed } else { Claim::Borrowing },
            what,
            left,
        })
    }

    fn claims_from_outside(
        &self,
        asker: QueueIdx,
        demand: &Demand,
        holder: QueueIdx,
    ) -> Option<Claimed> {
        let named = |(what, _): &(FlavorResource, i128)| what.resource != self.pods;
        let limited = |(what, _)| self.offer(asker, what) == Offer::Quota;
        if !demand.iter().filter(named).any(limited) || self.borrows(asker, demand) {
            return None;
        }
        let unlimited =
            |(what, _): &(FlavorResource, i128)| self.offer(holder, *what) == Offer::NoLimit;
        let (what, _) = demand.iter().filter(named).find(unlimited)?;
        Some(Claimed {
            claim: Claim::Owed,
            what,
            left: i128::MAX,
        })
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

    /// As if so much more (or less, where it is negative) were charged to a queue,
    /// until it is taken back: what has been held is remembered as if nothing had
    /// happened.
    pub(crate) fn shift(&mut self, queue: QueueIdx, amounts: &[(FlavorResource, i128)]) {
        for (what, amount) in amounts {
            self.change(queue, *what, |cell| {
                cell.own = cell.own.saturating_add(*amount);
            });
        }
    }
}
