//! What a queue may ask back of another that holds something.

use super::amounts::{Demand, FlavorResource};
use super::room::Offer;
use super::tree::{QueueIdx, Tree};
use crate::ids::QueueName;

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
    ///
    /// `lacks` says of what there is too little: what is borrowed of anything else, by
    /// the asker or the other queue, does not count.
    pub(crate) fn claim(
        &self,
        asker: QueueIdx,
        demand: &Demand,
        holder: QueueIdx,
        lacks: impl Fn(FlavorResource) -> bool,
    ) -> Option<Claimed> {
        let Some(common) = self.lowest_above_both(asker, holder) else {
            return self.claims_from_outside(asker, demand, holder, lacks);
        };
        let borrowed = |what: FlavorResource| -> i128 {
            // What it holds and is no longer offered is borrowed, all of it.
            if self.offer(holder, what) == Offer::NoLimit {
                return 0;
            }
            let below = self.path(holder).take_while(|(at, _)| *at != common);
            let mut chain = below.map(|(_, node)| node.cell(what)).peekable();
            let own = chain.peek().map_or(0, |cell| cell.counted());
            chain.fold(own, |least, cell| least.min(cell.borrowed()))
        };
        let wanted = demand.iter().filter(|(what, _)| lacks(*what));
        let most = wanted.map(|(what, _)| (borrowed(what), what));
        let (left, what) = most.max().filter(|(left, _)| *left > 0)?;
        let lacking: Demand = demand.iter().filter(|(what, _)| lacks(*what)).collect();
        let owed = self.owing(asker, &lacking).contains(&common);
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
        lacks: impl Fn(FlavorResource) -> bool,
    ) -> Option<Claimed> {
        let named = |(what, _): &(FlavorResource, i128)| what.resource != self.pods;
        let lacking: Demand = demand.iter().filter(|(what, _)| lacks(*what)).collect();
        let limited = |(what, _)| self.offer(asker, what) == Offer::Quota;
        if !lacking.iter().filter(named).any(limited) || self.borrows(asker, &lacking) {
            return None;
        }
        let unlimited =
            |(what, _): &(FlavorResource, i128)| self.offer(holder, *what) == Offer::NoLimit;
        let (what, _) = lacking.iter().filter(named).find(unlimited)?;
        Some(Claimed {
            claim: Claim::Owed,
            what,
            left: i128::MAX,
        })
    }

    /// The most that may be asked of a queue, whatever turns out to be lacking.
    pub(crate) fn best_claim(
        &self,
        asker: QueueIdx,
        demand: &Demand,
        holder: QueueIdx,
    ) -> Option<Claim> {
        let claims = demand.iter().filter_map(|(one, _)| {
            let claimed = self.claim(asker, demand, holder, |what| what == one)?;
            Some(claimed.claim)
        });
        claims.min()
    }

    /// What is guaranteed to a queue. None: it has no quota of it.
    pub(crate) fn guaranteed(&self, queue: QueueIdx, what: FlavorResource) -> Option<i128> {
        let has = self.offer(queue, what) == Offer::Quota;
        has.then(|| self.node(queue).map_or(0, |node| node.cell(what).subtree()))
    }

    /// For a queue and each queue above it: how much more than its quota it would hold
    /// with `need` more; negative where some is left.
    pub(crate) fn beyond(
        &self,
        queue: QueueIdx,
        what: FlavorResource,
        need: i128,
    ) -> impl Iterator<Item = i128> {
        self.path(queue).scan(need, move |need, (_, node)| {
            let cell = node.cell(what);
            let beyond = cell.usage().saturating_add(*need);
            *need = cell.beyond_local(*need, cell.usage());
            Some(beyond.saturating_sub(cell.subtree()))
        })
    }

    /// The amount that is charged to a queue itself.
    pub(crate) fn own(&self, queue: QueueIdx, what: FlavorResource) -> i128 {
        self.node(queue).map_or(0, |node| node.cell(what).own)
    }

    /// Whether any queue of its tree names quotas.
    pub(crate) fn is_limited(&self, queue: QueueIdx) -> bool {
        let root = self.path(queue).last();
        root.is_some_and(|(_, root)| root.limiting > 0)
    }

    /// Of what a demand names: the queues from this one up that hold more than their
    /// quota. A queue without any limit does with all that it holds.
    pub(crate) fn lenders(
        &self,
        queue: &QueueName,
        demand: &Demand,
    ) -> Vec<(FlavorResource, QueueIdx)> {
        let mut over = Vec::new();
        let Some(queue) = self.find(queue) else {
            return over;
        };
        for (what, _) in demand.iter() {
            match self.offer(queue, what) {
                Offer::Nothing => {}
                Offer::NoLimit if what.resource == self.pods => {}
                Offer::NoLimit => {
                    let held = self.node(queue).map_or(0, |node| node.cell(what).counted());
                    over.extend((held > 0).then_some((what, queue)));
                }
                Offer::Quota => {
                    let path = self.path(queue);
                    let path = path.filter(|(_, node)| node.cell(what).borrowed() > 0);
                    over.extend(path.map(|(at, _)| (what, at)));
                }
            }
        }
        over
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
