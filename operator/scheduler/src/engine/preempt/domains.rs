//! Search within topology domains, for a gang that must be in one domain.

use fixedbitset::FixedBitSet;

use super::field::{Ground, Search};
use crate::placement::{Closeness, Near};
use crate::state::Nodes;

/// Domains that are searched at most: those first that lack least.
const DOMAINS: usize = 64;

impl Search<'_> {
    /// The domains in which room could be made, those first that lack least. None: the gang need
    /// not be in one.
    pub(super) fn domains(&self, nodes: &Nodes) -> Option<Vec<Ground>> {
        let close = Closeness::of(nodes, self.wish.shape)?;
        let required = |near: &Near| near.is_required();
        // One group in one domain: counting pods is exact.
        let single = close.single(self.wish.shape).map(|(_, near)| near);
        let single = single.filter(required);
        let one = single.is_some();
        let near = single.or_else(|| close.gang.clone().filter(required))?;
        let layout = &near.level.layout;
        let mut grounds: Vec<(u64, Ground)> = Vec::new();
        for stretch in layout.domains(near.level.depth) {
            let mut domain = FixedBitSet::with_capacity(nodes.len());
            for node in layout.stretch(stretch) {
                domain.insert(node.at());
            }
            let rooms = self.ground.rooms.within(&domain);
            let short = rooms.short();
            domain.intersect_with(&self.ground.of_use);
            if short > 0 && domain.is_clear() {
                continue;
            }
            let ground = Ground {
                rooms,
                of_use: domain,
                counted: one && self.counts(),
            };
            grounds.push((short, ground));
        }
        // The sort is stable: equal domains stay ordered by name.
        grounds.sort_by_key(|(short, _)| *short);
        grounds.truncate(DOMAINS);
        Some(grounds.into_iter().map(|(_, ground)| ground).collect())
    }
}
