//! Tries a whole gang: in one domain, in few domains, or each group as its request says.

use super::super::frontier::SearchResult;
use super::super::group_fit::CapacityView;
use super::super::group_place::{charge_runs, fill_group, groups_by_size};
use super::super::packing::PackingState;
use super::super::request::{NoPlace, PlacementRequest, PodRuns};
use super::super::undo::UndoLog;
use super::best_fit::FreeLookup;
use super::domain_counts::DomainCounts;
use super::gang_topology::{GangTopology, ResolvedRequest};
use super::group_filler::GroupFiller;
use super::rank_order::{order_groups, order_runs};
use super::search::search_scope;
use crate::state::{Catalog, Layout, NodeIdx, Nodes};

/// A gang with a topology request, and the live state for the attempt.
pub(super) struct TopologyAttempt<'a> {
    pub(super) nodes: &'a mut Nodes,
    packing: &'a mut PackingState,
    pub(super) catalog: &'a Catalog,
    pub(super) request: &'a PlacementRequest<'a>,
    pub(super) gang_topology: &'a GangTopology,
    log: UndoLog,
    /// Comparisons of all searches together.
    spent: usize,
    /// True if no search has reached a bound.
    certain: bool,
}

/// Finds a place for a gang with a topology request, as `place::place` does.
pub(in super::super) fn place(
    nodes: &mut Nodes,
    packing: &mut PackingState,
    catalog: &Catalog,
    wish: &PlacementRequest<'_>,
    log: &mut UndoLog,
) -> Result<Vec<PodRuns>, NoPlace> {
    for layers in (1..=wish.shape.preferred_layers()).rev() {
        if let Some(close) = GangTopology::with_preferred_slices(nodes, wish.shape, layers)
            && let Ok(groups) = place_as_requested(nodes, packing, (catalog, wish), &close, log)
        {
            return Ok(groups);
        }
    }
    let Some(close) = GangTopology::for_shape(nodes, wish.shape) else {
        return Err(NoPlace { certain: true });
    };
    place_as_requested(nodes, packing, (catalog, wish), &close, log)
}

fn place_as_requested(
    nodes: &mut Nodes,
    packing: &mut PackingState,
    (catalog, wish): (&Catalog, &PlacementRequest<'_>),
    close: &GangTopology,
    log: &mut UndoLog,
) -> Result<Vec<PodRuns>, NoPlace> {
    let mut attempt = TopologyAttempt::new((nodes, packing), catalog, wish, close);
    let placed = attempt.run();
    let (tried, certain) = (attempt.log, attempt.certain);
    let Some(groups) = placed else {
        return Err(NoPlace { certain });
    };
    log.append(tried);
    let near = |at| close.numbering_request(at);
    Ok(order_groups(nodes, near, groups))
}

/// Finds a place for a gang of one group on some nodes, as close as the request says, and charges
/// it. The runs are in the order of the topology.
pub(crate) fn place_one_group(
    nodes: &mut Nodes,
    packing: &mut PackingState,
    catalog: &Catalog,
    wish: &PlacementRequest<'_>,
    (near, among): (&ResolvedRequest, &[NodeIdx]),
    log: &mut UndoLog,
) -> Option<PodRuns> {
    let group = wish.shape.groups.first()?;
    let topology = GangTopology {
        gang: None,
        groups: vec![Some(near.clone())],
    };
    let mut attempt = TopologyAttempt::new((nodes, packing), catalog, wish, &topology);
    let runs = attempt.place_group(0, Some(near), Some(among))?;
    let runs = order_runs(nodes, Some(near), None, runs);
    charge_runs(nodes, group, &runs, log);
    Some(runs)
}

impl<'a> TopologyAttempt<'a> {
    fn new(
        (nodes, packing): (&'a mut Nodes, &'a mut PackingState),
        catalog: &'a Catalog,
        request: &'a PlacementRequest<'a>,
        gang_topology: &'a GangTopology,
    ) -> Self {
        Self {
            nodes,
            packing,
            catalog,
            request,
            gang_topology,
            log: UndoLog::default(),
            spent: 0,
            certain: true,
        }
    }
}

impl TopologyAttempt<'_> {
    fn run(&mut self) -> Option<Vec<PodRuns>> {
        if let Some((group, near)) = self.gang_topology.single_request(self.request.shape) {
            // Identical pods do not compete, so this is exact.
            return self.place_largest_first(None, |at| (at == group).then(|| near.clone()));
        }
        match &self.gang_topology.gang {
            Some(near) if near.is_required() => self.place_in_one(near),
            Some(near) => self
                .place_in_one(near)
                .or_else(|| self.place_in_few(near))
                .or_else(|| self.place_anywhere()),
            None => self.place_anywhere(),
        }
    }

    /// Places the gang on all nodes, each group as its topology request says.
    fn place_anywhere(&mut self) -> Option<Vec<PodRuns>> {
        let close = self.gang_topology;
        if let Some(runs) = self.place_largest_first(None, |at| close.request_within(at)) {
            return Some(runs);
        }
        let all: Vec<NodeIdx> = self.nodes.iter().map(|(node, _)| node).collect();
        self.search_exhaustively(&all)
    }

    /// Places the gang on these nodes, where each group alone would fit.
    pub(super) fn place_in_scope(&mut self, among: &[NodeIdx]) -> Option<Vec<PodRuns>> {
        self.place_greedily(among)
            .or_else(|| self.search_exhaustively(among))
    }

    /// Places the gang on these nodes, without trying every way.
    pub(super) fn place_greedily(&mut self, among: &[NodeIdx]) -> Option<Vec<PodRuns>> {
        let close = self.gang_topology;
        self.place_largest_first(Some(among), |at| close.request_within(at))
    }

    /// Places groups one after another, the one with the largest pods first, each as close as
    /// `near` says. Charges them if all have a place.
    fn place_largest_first(
        &mut self,
        among: Option<&[NodeIdx]>,
        near: impl Fn(usize) -> Option<ResolvedRequest>,
    ) -> Option<Vec<PodRuns>> {
        let wish = self.request;
        let mut placed: Vec<(usize, PodRuns)> = Vec::new();
        for (at, group) in groups_by_size(self.nodes, wish.shape) {
            let Some(runs) = self.place_group(at, near(at).as_ref(), among) else {
                self.log.roll_back(self.nodes);
                return None;
            };
            charge_runs(self.nodes, group, &runs, &mut self.log);
            placed.push((at, runs));
        }
        placed.sort_unstable_by_key(|(at, _)| *at);
        Some(placed.into_iter().map(|(_, runs)| runs).collect())
    }

    /// Finds a place for one group.
    fn place_group(
        &mut self,
        at: usize,
        near: Option<&ResolvedRequest>,
        among: Option<&[NodeIdx]>,
    ) -> Option<PodRuns> {
        let (wish, catalog) = (self.request, self.catalog);
        let group = wish.shape.groups.get(at)?;
        if group.count == 0 {
            return Some(PodRuns::new());
        }
        let Some(near) = near else {
            let how = (wish.strategy, wish.excluded);
            return fill_group(self.nodes, self.packing, catalog, group, how);
        };
        let signature = catalog.signature(group.signature)?;
        let layout = &near.level.layout;
        let ranked = self
            .packing
            .rank(group, (&mut *self.nodes, catalog), true)?;
        let close = GroupFiller {
            ranked: &ranked,
            signature,
            strategy: wish.strategy,
            layout,
            slices: &near.slices,
            free: FreeLookup::new(ranked.nodes(), catalog, std::iter::once(group)),
        };
        let allows = |node: NodeIdx| signature.allows(node) && !wish.excluded.contains(&node);
        let among = among.unwrap_or(layout.nodes());
        close.fill(group.count, near, among, &allows)
    }

    /// Returns how many pods of each group the nodes of a topology hold, as of now.
    pub(super) fn count_pods(&mut self, layout: &Layout) -> DomainCounts {
        let (wish, catalog) = (self.request, self.catalog);
        let mut counts = DomainCounts::default();
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
            let mut wanted = ranked.rank_lookup();
            counts.add(layout, |node| {
                let allows = signature.allows(node) && !wish.excluded.contains(&node);
                wanted(node).filter(|_| allows).map_or(0, |(_, pods)| pods)
            });
        }
        counts
    }

    /// Tries every way on these nodes, within bounds. Charges the place if one is found.
    fn search_exhaustively(&mut self, among: &[NodeIdx]) -> Option<Vec<PodRuns>> {
        let wish = self.request;
        let answer = search_scope(
            self.nodes,
            self.catalog,
            (wish.shape, wish.excluded),
            self.gang_topology,
            (among, CapacityView::Free),
            &mut self.spent,
        );
        match answer {
            SearchResult::Placed(runs) => {
                for (group, runs) in wish.shape.groups.iter().zip(&runs) {
                    charge_runs(self.nodes, group, runs, &mut self.log);
                }
                Some(runs)
            }
            SearchResult::NoPlace { certain } => {
                self.certain &= certain;
                None
            }
        }
    }
}
