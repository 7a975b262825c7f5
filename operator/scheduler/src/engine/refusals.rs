//! What has just been refused, so that a thousand equal gangs cost one search.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::backfill::Restraint;
use crate::explain::Change;
use crate::gang::Gang;
use crate::ids::GroupName;
use crate::queueing::Blocked;
use crate::state::Shape;

/// Answers about shapes: good until capacity or a shape's names change, when
/// they are cleared.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    known: HashMap<(Arc<Shape>, Vec<GroupName>), Box<Blocked>>,
    /// Those that fit, and not beside what these heads ask of them.
    restrained: HashSet<(Arc<Shape>, Restraints)>,
    /// What would make room for those that were asked about.
    helps: HashMap<Arc<Shape>, Option<Arc<Change>>>,
    /// Those that fit and do not start.
    fitting: HashSet<Arc<Shape>>,
}

/// By number of the head.
pub(super) type Restraints = Vec<(usize, Restraint)>;

/// The names that a certificate may bear belong to the question.
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

    /// The heads are others.
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
