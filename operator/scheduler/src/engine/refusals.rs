//! What has just been refused, so that a thousand equal gangs cost one search.

use std::collections::HashMap;
use std::sync::Arc;

use crate::gang::Gang;
use crate::ids::GroupName;
use crate::queueing::Blocked;
use crate::state::Shape;

/// Answers about shapes: good until capacity or a shape's names change, when
/// they are cleared.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    known: HashMap<(Arc<Shape>, Vec<GroupName>), Box<Blocked>>,
}

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

    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }
}
