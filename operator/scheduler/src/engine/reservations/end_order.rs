//! The order in which a plan assumes that gangs end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use smallvec::SmallVec;

use super::super::Engine;
use crate::placement::{GangTopology, ResolvedRequest};
use crate::state::{DomainLevel, GangIdx, GangShape, NodeIdx};
use crate::time::Time;

/// Gangs with their ends, in the order in which a plan assumes that they end.
pub(in crate::engine) type EndOrder = Vec<(Option<Time>, GangIdx)>;

/// The number of gangs in a domain, and the place of the first of them in the order of placement. The
/// domain with the smallest value is assumed to be free first.
type DomainLoad = (usize, usize);

impl Engine {
    /// Returns all placed gangs in the order in which a plan for a shape assumes that they end, if the
    /// shape needs a domain. Gangs with a known end come first, then gangs that are late to stop. The
    /// order of the other gangs is a guess: those of the domain with the fewest of them come first,
    /// because a domain is empty only when its last gang has ended. Gangs in `yields` and gangs
    /// outside the usable nodes do not count. None: the shape needs no domain, so the gang that was
    /// placed first comes first.
    pub(in crate::engine) fn ends_by_domain(
        &self,
        shape: &GangShape,
        yields: &BTreeSet<GangIdx>,
        usable: &FixedBitSet,
    ) -> Option<EndOrder> {
        let topology = GangTopology::for_shape(&self.nodes, shape)?;
        let level = needed_level(&topology)?;
        let all = self.reservations.ends().all();
        let mut ends: EndOrder = all.iter().collect();
        let unknown = ends.split_off(ends.len().saturating_sub(all.unforeseen_count()));
        let mut loads: BTreeMap<u32, DomainLoad> = BTreeMap::new();
        let mut gangs: Vec<(GangIdx, SmallVec<[u32; 2]>)> = Vec::new();
        for (place, (_, at)) in unknown.into_iter().enumerate() {
            let mut domains: SmallVec<[u32; 2]> = SmallVec::new();
            if !yields.contains(&at) {
                let nodes = self.nodes_of(at);
                let nodes = nodes.into_iter().filter(|node| usable.contains(node.at()));
                domains.extend(nodes.filter_map(|node| level.layout.domain(level.depth, node)));
                domains.sort_unstable();
                domains.dedup();
            }
            for domain in &domains {
                let load = loads.entry(*domain).or_insert((0, place));
                load.0 = load.0.saturating_add(1);
            }
            gangs.push((at, domains));
        }
        let load = |domain: &u32| loads.get(domain).copied();
        let rank = |domains: &[u32]| {
            let least = domains.iter().filter_map(load).min();
            // Gangs outside all domains help no domain.
            (least.is_none(), least)
        };
        // The sort is stable: within a domain, the gang that was placed first comes first.
        gangs.sort_by_cached_key(|(_, domains)| rank(domains));
        ends.extend(gangs.into_iter().map(|(at, _)| (None, at)));
        Some(ends)
    }

    /// Returns the nodes that a gang holds, or that are kept for it.
    fn nodes_of(&self, at: GangIdx) -> SmallVec<[NodeIdx; 4]> {
        if let Some(keep) = self.kept_places.get(at) {
            let charges = keep.node_charges(&self.catalog).into_iter();
            return charges.map(|charge| charge.node).collect();
        }
        let placed = self.gangs.placed(at);
        let parts = placed.map(|placed| placed.node_usages(self.pods.known()));
        parts.into_iter().flatten().map(|part| part.node).collect()
    }
}

/// Returns the finest level of which the gang, a group or its slices need a domain. With requests in
/// several topologies, the topology of the first request decides.
fn needed_level(topology: &GangTopology) -> Option<DomainLevel> {
    let requests = || topology.gang.iter().chain(topology.groups.iter().flatten());
    let required = requests()
        .filter(|request| request.is_required())
        .map(|request| request.level.clone());
    let of_slices = |request: &ResolvedRequest| {
        let first = request.slices.layers().first()?;
        Some(DomainLevel {
            layout: Arc::clone(&request.level.layout),
            depth: first.depth,
        })
    };
    let levels: Vec<DomainLevel> = required.chain(requests().filter_map(of_slices)).collect();
    let layout = Arc::clone(&levels.first()?.layout);
    let in_layout = levels
        .into_iter()
        .filter(|level| Arc::ptr_eq(&level.layout, &layout));
    in_layout.max_by_key(|level| level.depth)
}
