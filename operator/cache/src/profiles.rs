//! RuntimeProfiles, as the watch shows them. The cache checks and hashes each profile once. All
//! jobs compiled with it share it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use trellis_api::TrainingJobSpec;
use trellis_compiler::HashedProfile;
use trellis_gang::lookup::CachedProfile;
use trellis_gang::{JobHold, lookup};

/// All profiles, by name.
#[derive(Debug, Default)]
pub struct Profiles(RwLock<BTreeMap<String, CachedProfile>>);

impl Profiles {
    /// Returns the profile of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<CachedProfile> {
        self.0.read().get(name).cloned()
    }

    /// Returns the profile that the job is compiled with. None if the job names none and the
    /// cluster has no default.
    ///
    /// # Errors
    /// As [`lookup::find_profile`].
    pub fn find_for_job(
        &self,
        job: &TrainingJobSpec,
    ) -> Result<Option<Arc<HashedProfile>>, JobHold> {
        lookup::find_profile(job, |name| self.get(name), || self.defaults())
    }

    /// Returns every profile.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, CachedProfile> {
        self.0.read().clone()
    }

    /// Returns the profiles that are marked as the cluster's default. More than one is an error.
    #[must_use]
    pub fn defaults(&self) -> BTreeMap<String, CachedProfile> {
        let all = self.0.read();
        let defaults = all.iter().filter(|(_, known)| known.is_default);
        defaults
            .map(|(name, known)| (name.clone(), known.clone()))
            .collect()
    }

    /// Stores a profile that was created or changed. Returns false if it has not changed.
    pub fn insert(&self, name: &str, profile: CachedProfile) -> bool {
        let read = |known: &CachedProfile| {
            let hash = known.profile.as_ref().map(|p| p.hash().to_owned());
            (known.is_default, hash.map_err(Clone::clone))
        };
        let now = read(&profile);
        let before = self.0.write().insert(name.to_owned(), profile);
        before.is_none_or(|before| read(&before) != now)
    }

    /// Stores the profile that an update returned in place of an older version of the same object. A
    /// profile that is not known has been deleted since.
    pub fn update_returned(&self, name: &str, profile: CachedProfile) {
        let mut all = self.0.write();
        let replaces = all.get(name).is_some_and(|before| {
            before.uid == profile.uid && before.version() < profile.version()
        });
        if replaces {
            all.insert(name.to_owned(), profile);
        }
    }

    /// Adds the profiles of `others`, which replace profiles of the same name.
    pub fn overlay(&mut self, others: Self) {
        self.0.get_mut().extend(others.0.into_inner());
    }

    /// Removes the profile if its uid is this one.
    pub fn remove(&self, name: &str, uid: &str) {
        let mut all = self.0.write();
        if all.get(name).is_some_and(|known| known.uid == uid) {
            all.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use trellis_api::{Reason, RuntimeProfile};

    use super::*;

    fn spec(fields: Value) -> TrainingJobSpec {
        let mut spec = json!({"taskGroups": []});
        spec.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    /// The answer to a status write may arrive after the watch has shown the deletion.
    #[test]
    fn late_answer_restores_neither_a_deleted_profile_nor_an_older_version() {
        let known = |uid: &str, version: &str, is_default: bool| {
            let object: RuntimeProfile = serde_json::from_value(json!({
                "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
                "metadata": {"name": "a", "uid": uid, "resourceVersion": version},
                "spec": {"globalDefault": is_default},
            }))
            .unwrap();
            CachedProfile::from(object)
        };
        let profiles = Profiles::default();
        let is_default = || profiles.get("a").map(|profile| profile.is_default);
        profiles.insert("a", known("first", "9", false));
        profiles.update_returned("a", known("first", "10", true));
        assert_eq!(is_default(), Some(true));
        profiles.update_returned("a", known("first", "8", false));
        assert_eq!(is_default(), Some(true), "version 8 is older");
        profiles.remove("a", "first");
        profiles.update_returned("a", known("first", "11", false));
        assert_eq!(is_default(), None, "the profile is deleted");
        profiles.insert("a", known("second", "12", true));
        profiles.update_returned("a", known("first", "13", false));
        assert_eq!(is_default(), Some(true), "another profile has the name");
    }

    #[test]
    fn profile_falls_back_to_the_single_cluster_default() {
        let known = |name: &str, spec: Value| {
            let object: RuntimeProfile = serde_json::from_value(json!({
                "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
                "metadata": {"name": name}, "spec": spec,
            }))
            .unwrap();
            CachedProfile::from(object)
        };
        let there = Profiles::default();
        let find = |fields: Value| {
            let found = there.find_for_job(&spec(fields));
            found.map(|found| found.map(|p| p.name().to_owned()))
        };
        assert_eq!(find(json!({})), Ok(None));
        let missing = find(json!({"profile": "a"})).unwrap_err();
        assert_eq!(missing.reason, Reason::ProfileNotFound);
        assert!(missing.message.contains("spec.profile") && missing.message.contains("\"a\""));
        assert!(there.insert("a", known("a", json!({}))));
        assert!(!there.insert("a", known("a", json!({}))), "as it was");
        assert!(there.insert("b", known("b", json!({"globalDefault": true}))));
        assert_eq!(find(json!({"profile": "a"})), Ok(Some("a".to_owned())));
        assert_eq!(find(json!({})), Ok(Some("b".to_owned())));
        // Two defaults count as none, and the message names both. A job that names a profile still
        // gets it.
        assert!(there.insert("a", known("a", json!({"globalDefault": true}))));
        let two = find(json!({})).unwrap_err();
        assert_eq!(two.reason, Reason::ProfileMisconfigured);
        assert!(two.message.contains("\"a\", \"b\""), "{}", two.message);
        assert_eq!(find(json!({"profile": "a"})), Ok(Some("a".to_owned())));
        let wrong = json!({"podTemplate": {"spec": {"nodeName": "n"}}});
        assert!(there.insert("a", known("a", wrong)));
        let wrong = find(json!({"profile": "a"})).unwrap_err();
        assert_eq!(wrong.reason, Reason::ProfileMisconfigured);
        assert!(
            wrong.message.contains("spec.podTemplate.spec.nodeName"),
            "{}",
            wrong.message
        );
        assert_eq!(find(json!({})), Ok(Some("b".to_owned())));
    }
}
