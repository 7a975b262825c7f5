//! The domains of which a gang must be in one, each as ground of its own.

use fixedbitset::FixedBitSet;

use super::field::{Ground, Search};
use crate::placement::{Closeness, Near};
use crate::state::Nodes;

/// Domains that are searched at most: those first in which least is missing.
const DOMAINS: usize = 64;

impl Search<'_> {
    /// The domains in which room could be made, in the order of how little is
    /// missing. None: the gang need not be in one.
    pub(super) fn domains(&self, nodes: &Nodes) -> Option<Vec<Ground>> {
        let close = Closeness::of(nodes, self.wish.shape)?;
        let required = |near: &Near| near.is_required();
        // One group in one domain: counting its nodes tells all.
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
        // Stable: of equal ones the first by name.
        grounds.sort_by_key(|(short, _)| *short);
        grounds.truncate(DOMAINS);
        Some(grounds.into_iter().map(|(_, ground)| ground).collect())
    }
}
