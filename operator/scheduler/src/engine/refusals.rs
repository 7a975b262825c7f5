//! A cache of recent refusals, so that a thousand equal gangs cost one search.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::backfill::Restraint;
use crate::explain::Change;
use crate::gang::Gang;
use crate::ids::GroupName;
use crate::queueing::Blocked;
use crate::state::Shape;

/// Answers by shape. They are valid until capacity or the names of a shape change, and are cleared
/// then.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    known: HashMap<(Arc<Shape>, Vec<GroupName>), Box<Blocked>>,
    /// Shapes that fit, but not under these restrictions of heads.
    restrained: HashSet<(Arc<Shape>, Restraints)>,
    /// The change that would make room for shapes that were asked about.
    helps: HashMap<Arc<Shape>, Option<Arc<Change>>>,
    /// Shapes that fit but do not start.
    fitting: HashSet<Arc<Shape>>,
}

/// By number of the head.
pub(super) type Restraints = Vec<(usize, Restraint)>;

/// The group names that the explanation may contain are part of the key.
fn names(gang: &Gang) -> Vec<GroupName> {
    if gang.groups.len() < 2 {
        return Vec::new();
    }
    gang.groups.iter().map(|g| g.name.clone()).collect()
}

impl Refusals {
    pub(crate) fn get(&self, gang: &Gang, shape: &Arc<Shape>) -> Option<Box<Blocked>> {
        if self.known.is_empty() {
            return None;
        }
        self.known.get(&(Arc::clone(shape), names(gang))).cloned()
    }

    pub(crate) fn insert(&mut self, gang: &Gang, shape: &Arc<Shape>, refusal: Box<Blocked>) {
        self.known.insert((Arc::clone(shape), names(gang)), refusal);
    }

    pub(super) fn what_helps(&self, shape: &Arc<Shape>) -> Option<Option<Arc<Change>>> {
        self.helps.get(shape).cloned()
    }

    pub(super) fn helps(&mut self, shape: &Arc<Shape>, change: Option<Arc<Change>>) {
        self.helps.insert(Arc::clone(shape), change);
    }

    pub(super) fn is_restrained(&self, shape: &Arc<Shape>, by: &Restraints) -> bool {
        !self.restrained.is_empty() && self.restrained.contains(&(Arc::clone(shape), by.clone()))
    }

    pub(super) fn restrain(&mut self, shape: &Arc<Shape>, by: Restraints) {
        self.restrained.insert((Arc::clone(shape), by));
    }

    pub(super) fn is_fitting(&self, shape: &Arc<Shape>) -> bool {
        !self.fitting.is_empty() && self.fitting.contains(shape)
    }

    pub(super) fn fits(&mut self, shape: &Arc<Shape>) {
        self.fitting.insert(Arc::clone(shape));
    }

    /// The heads have changed.
    pub(super) fn clear_restrained(&mut self) {
        self.restrained.clear();
    }

    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.helps.clear();
        self.restrained.clear();
        self.fitting.clear();
    }
}
