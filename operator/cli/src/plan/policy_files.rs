//! The policies that a plan decides by: those that are given, else those of a
//! fresh install.

use std::collections::BTreeMap;

use trellis_policies::cedar::{ObjectKey, Policies, PolicyLoader, PolicyObject, starter_set};

/// The policy objects, and what they decide once they are loaded.
#[derive(Default)]
pub(crate) struct PolicyFiles {
    /// None: nobody has said which there are.
    objects: Option<BTreeMap<ObjectKey, PolicyObject>>,
    loaded: Option<Policies>,
}

impl PolicyFiles {
    /// What is taken is all that there is, be it nothing.
    pub(super) fn mark_complete(&mut self) {
        self.objects.get_or_insert_default();
        self.loaded = None;
    }

    /// Takes an object.
    pub(super) fn add(&mut self, object: PolicyObject) {
        let objects = self.objects.get_or_insert_default();
        objects.insert(object.key.clone(), object);
        self.loaded = None;
    }

    /// There is no such object any more.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> bool {
        self.loaded = None;
        let objects = self.objects.as_mut();
        objects.is_some_and(|objects| objects.remove(key).is_some())
    }

    /// Adds what another holds.
    pub(super) fn overlay(&mut self, other: Self) {
        if let Some(objects) = other.objects {
            self.objects.get_or_insert_default().extend(objects);
            self.loaded = None;
        }
    }

    /// Whether an object of it has no name.
    pub(super) fn has_nameless(&self) -> bool {
        let mut keys = self.objects.iter().flat_map(BTreeMap::keys);
        keys.any(|key| key.name.is_empty())
    }

    /// True if nobody has said which there are.
    pub(crate) fn is_unset(&self) -> bool {
        self.objects.is_none()
    }

    /// The objects that are given.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &PolicyObject> {
        self.objects.iter().flat_map(BTreeMap::values)
    }

    /// Loads what has changed. Gives what is wrong with objects.
    pub(crate) fn load(&mut self) -> Vec<String> {
        if self.loaded.is_some() {
            return Vec::new();
        }
        let Ok(loader) = PolicyLoader::new() else {
            return Vec::new();
        };
        let objects = match &self.objects {
            Some(objects) => objects.values().cloned().collect(),
            None => starter_set::starter_objects(),
        };
        let (policies, verdicts) = loader.load(None, objects);
        self.loaded = Some(policies);
        let wrong = verdicts.iter().flat_map(|verdict| {
            let (kind, name) = (verdict.key.kind(), verdict.key.to_string());
            let told = move |problem| format!("{kind} {name:?} does not take effect: {problem}");
            verdict.problems.iter().map(told)
        });
        wrong.collect()
    }

    /// The policies that decide, once they are loaded.
    pub(crate) fn loaded(&self) -> Option<&Policies> {
        self.loaded.as_ref()
    }
}
