//! Tries a whole gang: in one domain, in few domains, or each group as close as it asks.

use super::super::fit::Room;
use super::super::frontier::Answer;
use super::super::pack::Runs;
use super::super::packing::Packing;
use super::super::place::{self, NoPlace, Wish};
use super::super::undo::UndoLog;
use super::best_fit::FreeLookup;
use super::close::Close;
use super::search::search_scope;
use super::{Closeness, Counts, Near, in_order};
use crate::state::{Catalog, Layout, NodeIdx, Nodes};

/// A gang with a topology request, and the live state on which it is tried.
pub(super) struct Attempt<'a> {
    pub(super) nodes: &'a mut Nodes,
    packing: &'a mut Packing,
    pub(super) catalog: &'a Catalog,
    pub(super) wish: &'a Wish<'a>,
    pub(super) close: &'a Closeness,
    log: UndoLog,
    /// Comparisons of all searches together.
    spent: usize,
    /// No search has reached a bound.
    certain: bool,
}

/// Finds a place for a gang with a topology request, as [`place::place`] does.
pub(in super::super) fn place(
    nodes: &mut Nodes,
    packing: &mut Packing,
    catalog: &Catalog,
    wish: &Wish<'_>,
    log: &mut UndoLog,
) -> Result<Vec<Runs>, NoPlace> {
    let Some(close) = Closeness::of(nodes, wish.shape) else {
        return Err(NoPlace { certain: true });
    };
    let mut attempt = Attempt {
        nodes,
        packing,
        catalog,
        wish,
        close: &close,
        log: UndoLog::default(),
        spent: 0,
        certain: true,
    };
    let placed = attempt.run();
    let (tried, certain) = (attempt.log, attempt.certain);
    let Some(groups) = placed else {
        return Err(NoPlace { certain });
    };
    log.append(tried);
    let ordered = groups.into_iter().enumerate().map(|(at, runs)| {
        let near = close.gang.as_ref().or_else(|| close.own(at));
        in_order(nodes, near, runs)
    });
    Ok(ordered.collect())
}

impl Attempt<'_> {
    fn run(&mut self) -> Option<Vec<Runs>> {
        if let Some((group, near)) = self.close.single(self.wish.shape) {
            // Identical pods do not compete, so this is exact.
            return self.largest_first(None, |at| (at == group).then(|| near.clone()));
        }
        match &self.close.gang {
            Some(near) if near.is_required() => self.in_one(near),
            Some(near) => self
                .in_one(near)
                .or_else(|| self.in_few(near))
                .or_else(|| self.anywhere()),
            None => self.anywhere(),
        }
    }

    /// On all nodes, each group as close as it asks.
    fn anywhere(&mut self) -> Option<Vec<Runs>> {
        let close = self.close;
        if let Some(runs) = self.largest_first(None, |at| close.within(at)) {
            return Some(runs);
        }
        let all: Vec<NodeIdx> = self.nodes.iter().map(|(node, _)| node).collect();
        self.search(&all)
    }

    /// On these nodes, where each group alone would fit.
    pub(super) fn scope(&mut self, among: &[NodeIdx]) -> Option<Vec<Runs>> {
        self.greedy(among).or_else(|| self.search(among))
    }

    /// On these nodes, without trying every way.
    pub(super) fn greedy(&mut self, among: &[NodeIdx]) -> Option<Vec<Runs>> {
        let close = self.close;
        self.largest_first(Some(among), |at| close.within(at))
    }

    /// Places groups one after another, the one with the largest pods first, each as close as
    /// `near` says. Charges them if all have a place.
    fn largest_first(
        &mut self,
        among: Option<&[NodeIdx]>,
        near: impl Fn(usize) -> Option<Near>,
    ) -> Option<Vec<Runs>> {
        let wish = self.wish;
        let mut placed: Vec<(usize, Runs)> = Vec::new();
        for (at, group) in place::by_size(self.nodes, wish.shape) {
            let Some(runs) = self.group(at, near(at).as_ref(), among) else {
                self.log.roll_back(self.nodes);
                return None;
            };
            place::charge(self.nodes, group, &runs, &mut self.log);
            placed.push((at, runs));
        }
        placed.sort_unstable_by_key(|(at, _)| *at);
        Some(placed.into_iter().map(|(_, runs)| runs).collect())
    }

    /// A place for one group.
    fn group(&mut self, at: usize, near: Option<&Near>, among: Option<&[NodeIdx]>) -> Option<Runs> {
        let (wish, catalog) = (self.wish, self.catalog);
        let group = wish.shape.groups.get(at)?;
        if group.count == 0 {
            return Some(Runs::new());
        }
        let Some(near) = near else {
            let how = (wish.strategy, wish.excluded);
            return place::fill(self.nodes, self.packing, catalog, group, how);
        };
        let signature = catalog.signature(group.signature)?;
        let layout = &near.level.layout;
        let ranked = self
            .packing
            .rank(group, (&mut *self.nodes, catalog), true)?;
        let close = Close {
            ranked: &ranked,
            signature,
            strategy: wish.strategy,
            layout,
            free: FreeLookup::new(ranked.nodes(), catalog, std::iter::once(group)),
        };
        let allows = |node: NodeIdx| signature.allows(node) && !wish.excluded.contains(&node);
        let among = among.unwrap_or(layout.nodes());
        close.fill(group.count, near, among, &allows)
    }

    /// How many pods of each group the nodes of a topology hold, as of now.
    pub(super) fn counts(&mut self, layout: &Layout) -> Counts {
        let (wish, catalog) = (self.wish, self.catalog);
        let mut counts = Counts::default();
        for (at, group) in wish.shape.groups.iter().enumerate() {
            let mut earlier = wish.shape.groups.iter().take(at);
            if let Some(like) = earlier.position(|earlier| earlier.is_like(group)) {
                counts.repeat(like);
                continue;
            }
            let signature = catalog.signature(group.signature);
            let ranked = self.packing.rank(group, (&mut *self.nodes, catalog), true);
            let (Some(signature), Some(ranked)) = (signature, ranked) else {
                counts.add(layout, |_| 0);
                continue;
            };
            let mut wanted = ranked.wanted();
            counts.add(layout, |node| {
                let allows = signature.allows(node) && !wish.excluded.contains(&node);
                wanted(node).filter(|_| allows).map_or(0, |(_, pods)| pods)
            });
        }
        counts
    }

    /// Tries every way on these nodes, within bounds. Charges the place if one is found.
    fn search(&mut self, among: &[NodeIdx]) -> Option<Vec<Runs>> {
        let wish = self.wish;
        let answer = search_scope(
            self.nodes,
            self.catalog,
            (wish.shape, wish.excluded),
            self.close,
            (among, Room::Free),
            &mut self.spent,
        );
        match answer {
            Answer::Found(runs) => {
                for (group, runs) in wish.shape.groups.iter().zip(&runs) {
                    place::charge(self.nodes, group, runs, &mut self.log);
                }
                Some(runs)
            }
            Answer::Nothing { certain } => {
                self.certain &= certain;
                None
            }
        }
    }
}
