//! The garbage collector: it deletes an object when none of its owners exists.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use trellis_api_server::Kind;

use crate::access::{Access, Target};
use crate::random::RandomSequence;

/// An object that may have lost its owners.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dependent {
    target: Target,
    uid: String,
}

#[derive(Debug)]
pub(crate) struct GarbageCollector {
    max_delay: u64,
    random: RandomSequence,
    /// Uids of all objects.
    uids: BTreeSet<String>,
    /// Objects by the uids of their owners.
    dependents: BTreeMap<String, BTreeSet<Dependent>>,
}

impl GarbageCollector {
    pub(crate) fn new(seed: u64, max_delay: u64) -> Self {
        Self {
            max_delay,
            random: RandomSequence::new(seed, "garbage collector"),
            uids: BTreeSet::new(),
            dependents: BTreeMap::new(),
        }
    }

    /// Takes in a change. Returns the objects that may have lost their owners by it.
    pub(crate) fn notice(
        &mut self,
        kind: &Kind,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Vec<Dependent> {
        if let Some(object) = after {
            let uid = uid_of(object);
            self.uids.insert(uid.to_owned());
            let dependent = Dependent {
                target: Target::of(kind, object),
                uid: uid.to_owned(),
            };
            for owner in owners(object) {
                let of_owner = self.dependents.entry(owner.to_owned()).or_default();
                of_owner.insert(dependent.clone());
            }
            // The owner may have gone before the object came.
            return if self.is_orphan(object) {
                vec![dependent]
            } else {
                Vec::new()
            };
        }
        let Some(object) = before else {
            return Vec::new();
        };
        let uid = uid_of(object);
        self.uids.remove(uid);
        let dependents = self.dependents.remove(uid);
        dependents.into_iter().flatten().collect()
    }

    /// Returns true if the object has owners, and none of them exists.
    fn is_orphan(&self, object: &Value) -> bool {
        let mut owners = owners(object).peekable();
        owners.peek().is_some() && !owners.any(|uid| self.uids.contains(uid))
    }

    pub(crate) fn delay(&mut self) -> Duration {
        self.random.log_uniform_millis(20, self.max_delay.max(21))
    }

    /// Deletes an object that is still an orphan.
    pub(crate) fn collect(&self, dependent: &Dependent, access: &mut Access<'_>) {
        let Some(object) = access.get(&dependent.target) else {
            return;
        };
        if object["metadata"]["uid"] == dependent.uid.as_str() && self.is_orphan(&object) {
            access.delete(&dependent.target, Some(&dependent.uid));
        }
    }
}

fn uid_of(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners
        .into_iter()
        .flatten()
        .filter_map(|owner| owner["uid"].as_str())
}
