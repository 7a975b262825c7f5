//! The order in which a plan assumes that gangs end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::Engine;
use crate::placement::{GangTopology, ResolvedRequest};
use crate::state::{DomainLevel, GangIdx, GangShape};
use crate::time::Time;

impl Engine {
    /// Returns all placed gangs in the order in which a plan for a shape assumes that they end, if the
    /// shape needs a domain. Gangs with a known end come first. The order of the other gangs is a
    /// guess: those of the domain with the fewest of them come first, because a domain is empty only
    /// when its last gang has ended. None: the shape needs no domain, so the gang that was placed
    /// first comes first.
    pub(in crate::engine) fn ends_by_domain(
        &self,
        shape: &GangShape,
    ) -> Option<Vec<(Option<Time>, GangIdx)>> {
        let topology = GangTopology::for_shape(&self.nodes, shape)?;
        let level = needed_level(&topology)?;
        let mut ends: Vec<(Option<Time>, GangIdx)> =
            self.reservations.ends().all().iter().collect();
        let known = ends.partition_point(|(end, _)| end.is_some());
        let unknown = ends.get_mut(known..)?;
        let domains = |at: GangIdx| -> BTreeSet<u32> {
            let parts = self
                .gangs
                .placed(at)
                .map(|placed| placed.node_usages(self.pods.known()));
            let nodes = parts.into_iter().flatten().map(|part| part.node);
            nodes
                .filter_map(|node| level.layout.domain(level.depth, node))
                .collect()
        };
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for domain in unknown.iter().flat_map(|(_, at)| domains(*at)) {
            let count = counts.entry(domain).or_default();
            *count = count.saturating_add(1);
        }
        let rank = |at: GangIdx| {
            let ranks = domains(at).into_iter();
            let least = ranks
                .map(|domain| (counts.get(&domain).copied(), domain))
                .min();
            // Gangs outside all domains help no domain.
            (least.is_none(), least)
        };
        // The sort is stable: within a domain, the gang that was placed first comes first.
        unknown.sort_by_cached_key(|(_, at)| rank(*at));
        Some(ends)
    }
}

/// Returns the level of the first request for one domain: of the gang, of a group, or of slices.
fn needed_level(topology: &GangTopology) -> Option<DomainLevel> {
    let groups = || topology.groups.iter().flatten();
    let mut requests = topology.gang.iter().chain(groups());
    let required = requests.find(|request| request.is_required());
    let of_slices = |request: &ResolvedRequest| {
        let first = request.slices.layers().first()?;
        Some(DomainLevel {
            layout: Arc::clone(&request.level.layout),
            depth: first.depth,
        })
    };
    let level = required.map(|request| request.level.clone());
    level.or_else(|| groups().find_map(of_slices))
}
