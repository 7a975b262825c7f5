//! A cache of recent refusals: a thousand equal gangs cost one search.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::backfill::Restriction;
use crate::explain::UnblockingChange;
use crate::gang::Gang;
use crate::ids::GroupName;
use crate::queueing::Blockage;
use crate::state::GangShape;

/// Cached results by shape. The engine clears them when capacity or the names of a shape change.
#[derive(Debug, Default)]
pub(crate) struct BlockageCache {
    blockages: HashMap<(Arc<GangShape>, Vec<GroupName>), Box<Blockage>>,
    /// Shapes that fit, but not under these restrictions by heads.
    restrained: HashSet<(Arc<GangShape>, HeadRestrictions)>,
    /// The change that would make room for a shape, for each shape that was explained.
    changes: HashMap<Arc<GangShape>, Option<Arc<UnblockingChange>>>,
    /// Shapes that fit but do not start.
    fitting: HashSet<Arc<GangShape>>,
}

/// Restrictions, each with the number of its head.
pub(super) type HeadRestrictions = Vec<(usize, Restriction)>;

/// Returns the group names for the cache key, because the explanation may contain them.
fn group_names(gang: &Gang) -> Vec<GroupName> {
    if gang.groups.len() < 2 {
        return Vec::new();
    }
    gang.groups.iter().map(|g| g.name.clone()).collect()
}

impl BlockageCache {
    pub(crate) fn get(&self, gang: &Gang, shape: &Arc<GangShape>) -> Option<Box<Blockage>> {
        if self.blockages.is_empty() {
            return None;
        }
        self.blockages
            .get(&(Arc::clone(shape), group_names(gang)))
            .cloned()
    }

    pub(crate) fn insert(&mut self, gang: &Gang, shape: &Arc<GangShape>, refusal: Box<Blockage>) {
        self.blockages
            .insert((Arc::clone(shape), group_names(gang)), refusal);
    }

    pub(super) fn change(&self, shape: &Arc<GangShape>) -> Option<Option<Arc<UnblockingChange>>> {
        self.changes.get(shape).cloned()
    }

    pub(super) fn insert_change(
        &mut self,
        shape: &Arc<GangShape>,
        change: Option<Arc<UnblockingChange>>,
    ) {
        self.changes.insert(Arc::clone(shape), change);
    }

    pub(super) fn is_restrained(&self, shape: &Arc<GangShape>, by: &HeadRestrictions) -> bool {
        !self.restrained.is_empty() && self.restrained.contains(&(Arc::clone(shape), by.clone()))
    }

    pub(super) fn insert_restrained(&mut self, shape: &Arc<GangShape>, by: HeadRestrictions) {
        self.restrained.insert((Arc::clone(shape), by));
    }

    pub(super) fn is_fitting(&self, shape: &Arc<GangShape>) -> bool {
        !self.fitting.is_empty() && self.fitting.contains(shape)
    }

    pub(super) fn insert_fitting(&mut self, shape: &Arc<GangShape>) {
        self.fitting.insert(Arc::clone(shape));
    }

    /// Drops the results that depend on heads, after the heads have changed.
    pub(super) fn clear_restrained(&mut self) {
        self.restrained.clear();
    }

    pub(crate) fn clear(&mut self) {
        self.blockages.clear();
        self.changes.clear();
        self.restrained.clear();
        self.fitting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::WaitDetail;
    use crate::gang::TaskGroup;
    use crate::ids::{GangId, QueueName};
    use crate::queueing::WakeCondition;
    use crate::resources::Resources;
    use crate::state::Catalog;

    fn gang(groups: &[&str]) -> Gang {
        let group = |name: &&str| {
            let prefix = (*name).to_owned();
            TaskGroup::new(GroupName::new(*name), 1, Resources::new(), prefix)
        };
        let groups = groups.iter().map(group).collect();
        Gang::new(GangId::new("ns/g"), QueueName::new("q"), groups)
    }

    fn shape(gang: &Gang) -> Arc<GangShape> {
        Arc::new(Catalog::default().acquire_shape(gang))
    }

    fn blockage() -> Box<Blockage> {
        let detail = WaitDetail::GroupsCollide {
            pods: 1,
            nodes: 1,
            certain: true,
        };
        Blockage::new(detail, WakeCondition::default())
    }

    #[test]
    fn equal_shapes_share_a_refusal_unless_it_may_name_other_groups() {
        let mut cache = BlockageCache::default();
        let (one, renamed) = (gang(&["a"]), gang(&["b"]));
        cache.insert(&one, &shape(&one), blockage());
        assert!(cache.get(&renamed, &shape(&renamed)).is_some());
        let (pair, renamed) = (gang(&["a", "b"]), gang(&["a", "c"]));
        cache.insert(&pair, &shape(&pair), blockage());
        assert!(cache.get(&pair, &shape(&pair)).is_some());
        assert!(cache.get(&renamed, &shape(&renamed)).is_none());
    }

    #[test]
    fn new_heads_drop_only_the_results_that_depend_on_heads() {
        let mut cache = BlockageCache::default();
        let gang = gang(&["a"]);
        let shape = shape(&gang);
        let heads = vec![(0, Restriction::Keep)];
        cache.insert(&gang, &shape, blockage());
        cache.insert_fitting(&shape);
        cache.insert_change(&shape, None);
        cache.insert_restrained(&shape, heads.clone());
        assert!(cache.is_restrained(&shape, &heads));
        assert!(!cache.is_restrained(&shape, &vec![(1, Restriction::Keep)]));
        cache.clear_restrained();
        assert!(!cache.is_restrained(&shape, &heads));
        assert!(cache.is_fitting(&shape) && cache.change(&shape).is_some());
        cache.clear();
        assert!(cache.get(&gang, &shape).is_none());
        assert!(!cache.is_fitting(&shape) && cache.change(&shape).is_none());
    }
}
