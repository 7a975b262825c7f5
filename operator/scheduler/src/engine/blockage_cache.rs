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
