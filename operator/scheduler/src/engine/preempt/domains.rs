//! Search within topology domains, for a gang that must be in one domain.

use fixedbitset::FixedBitSet;

use super::search_data::{EvictionNodes, VictimSearch};
use crate::placement::{GangTopology, ResolvedRequest};
use crate::state::Nodes;

/// Maximum number of domains to search. Domains that lack least come first.
const MAX_DOMAINS: usize = 64;

impl VictimSearch<'_> {
    /// Returns the domains in which preemption could make room, first those that lack least. None:
    /// the gang need not be in one domain.
    pub(super) fn domains(&self, nodes: &Nodes) -> Option<Vec<EvictionNodes>> {
        let close = GangTopology::for_shape(nodes, self.request.shape)?;
        let required = |near: &ResolvedRequest| near.is_required();
        // One group in one domain: counting pods is exact.
        let single = close
            .single_request(self.request.shape)
            .map(|(_, near)| near);
        let single = single.filter(required);
        let one = single.is_some();
        let near = single.or_else(|| close.gang.clone().filter(required))?;
        let layout = &near.level.layout;
        let mut grounds: Vec<(u64, EvictionNodes)> = Vec::new();
        for stretch in layout.domains(near.level.depth) {
            let mut domain = FixedBitSet::with_capacity(nodes.index_bound());
            for node in layout.nodes_in(stretch) {
                domain.insert(node.at());
            }
            let rooms = self.eviction_nodes.rooms.within(&domain);
            let short = rooms.missing_pods();
            domain.intersect_with(&self.eviction_nodes.useful_nodes);
            if short > 0 && domain.is_clear() {
                continue;
            }
            let ground = EvictionNodes {
                rooms,
                useful_nodes: domain,
                is_count_exact: one && self.is_count_exact(),
            };
            grounds.push((short, ground));
        }
        // The sort is stable: equal domains stay ordered by name.
        grounds.sort_by_key(|(short, _)| *short);
        grounds.truncate(MAX_DOMAINS);
        Some(grounds.into_iter().map(|(_, ground)| ground).collect())
    }
}
