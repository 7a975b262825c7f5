//! The policies for a plan: the given ones, else the policies of a fresh install.

use std::collections::BTreeMap;

use trellis_policies::cedar::{ObjectKey, Policies, PolicyLoader, PolicyObject, starter_set};

/// The policy objects, and the loaded policies.
#[derive(Default)]
pub(crate) struct PolicyFiles {
    /// None: the input does not tell which policies exist.
    objects: Option<BTreeMap<ObjectKey, PolicyObject>>,
    loaded: Option<Policies>,
}

impl PolicyFiles {
    /// Marks the objects as the complete set, even if there are none.
    pub(crate) fn mark_complete(&mut self) {
        self.objects.get_or_insert_default();
        self.loaded = None;
    }

    /// Adds an object.
    pub(super) fn add(&mut self, object: PolicyObject) {
        let objects = self.objects.get_or_insert_default();
        objects.insert(object.key.clone(), object);
        self.loaded = None;
    }

    /// Removes an object. Returns true if it existed.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> bool {
        self.loaded = None;
        let objects = self.objects.as_mut();
        objects.is_some_and(|objects| objects.remove(key).is_some())
    }

    /// Adds the objects of another set.
    pub(super) fn overlay(&mut self, other: Self) {
        if let Some(objects) = other.objects {
            self.objects.get_or_insert_default().extend(objects);
            self.loaded = None;
        }
    }

    /// Returns true if the input does not tell which policies exist.
    pub(crate) fn is_unset(&self) -> bool {
        self.objects.is_none()
    }

    /// The given objects.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &PolicyObject> {
        self.objects.iter().flat_map(BTreeMap::values)
    }

    /// Loads the policies if they have changed.
    /// Returns the problems of the objects.
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
        let problems = verdicts.iter().flat_map(|verdict| {
            let (kind, name) = (verdict.key.kind(), verdict.key.to_string());
            let describe =
                move |problem| format!("{kind} {name:?} does not take effect: {problem}");
            verdict.problems.iter().map(describe)
        });
        problems.collect()
    }

    /// The policies, if they are loaded.
    pub(crate) fn loaded(&self) -> Option<&Policies> {
        self.loaded.as_ref()
    }
}
