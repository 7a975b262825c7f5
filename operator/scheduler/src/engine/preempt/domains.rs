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
        let mut groups = self.wish.shape.groups.iter().zip(&close.groups);
        let mut with_pods = groups.by_ref().filter(|(group, _)| group.count > 0);
        let only = with_pods.next().filter(|_| with_pods.next().is_none());
        let own = only.and_then(|(_, near)| near.as_ref());
        let required = |near: &&Near| near.is_required();
        let (gang, own) = (close.gang.as_ref().filter(required), own.filter(required));
        let near = match (gang, own) {
            (Some(gang), Some(own)) if own.level.depth > gang.level.depth => own,
            (Some(near), _) | (None, Some(near)) => near,
            (None, None) => return None,
        };
        // One group in one domain: counting its nodes tells all.
        let one = only.is_some() && (gang.is_none() || own.is_none());
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
