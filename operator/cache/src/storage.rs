//! Claims, volumes and storage classes, as the watches and the answers to our own writes show them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::futures::Notified;
use trellis_api::TrainingJob;
use trellis_compiler::HashedProfile;
use trellis_gang::key::Key;
use trellis_gang::observed::{SlimClaim, SlimStorageClass, SlimVolume, default_class};
use trellis_gang::requirements::binding::Storage;
use trellis_gang::requirements::claims;

use super::Cache;

/// The storage of a namespace, as the watches show it.
#[derive(Clone, Copy)]
pub struct NamespaceStorage<'a> {
    cache: &'a Cache,
    namespace: &'a str,
}

impl Storage for NamespaceStorage<'_> {
    fn claim(&self, name: &str) -> Option<Arc<SlimClaim>> {
        self.cache.claims.get(&Key::new(self.namespace, name))
    }

    fn volume(&self, name: &str) -> Option<Arc<SlimVolume>> {
        self.cache.volumes.get(&Key::new("", name))
    }

    fn volumes(&self) -> Vec<Arc<SlimVolume>> {
        self.cache.volumes.all()
    }

    fn class(&self, name: &str) -> Option<Arc<SlimStorageClass>> {
        self.cache.storage_classes.get(&Key::new("", name))
    }

    fn default_class(&self) -> Option<Arc<SlimStorageClass>> {
        default_class(self.cache.storage_classes.all())
    }

    fn node_labels(&self, name: &str) -> Option<BTreeMap<String, String>> {
        let node = self.cache.nodes.get(&Key::new("", name))?;
        Some(node.metadata.labels.clone().unwrap_or_default())
    }
}

impl Cache {
    /// Returns the storage of a namespace, as the watches show it.
    #[must_use]
    pub fn storage<'a>(&'a self, namespace: &'a str) -> NamespaceStorage<'a> {
        NamespaceStorage {
            cache: self,
            namespace,
        }
    }

    /// Completes when a claim or a volume changes after this call.
    pub fn storage_changes(&self) -> Notified<'_> {
        self.storage_changed.notified()
    }

    /// Returns the claims that a job's pods mount.
    pub fn job_claims(&self, job: &TrainingJob) -> BTreeSet<String> {
        let profile = self.profiles.find_for_job(&job.spec);
        let profile = profile.ok().flatten();
        claims::claim_names(&job.spec, None, profile.as_deref().map(HashedProfile::spec))
    }

    /// Returns true if the pods of one of the job's groups have ephemeral claims.
    pub fn has_ephemeral(&self, job: &TrainingJob) -> bool {
        let profile = self.profiles.find_for_job(&job.spec);
        let profile = profile.ok().flatten();
        !claims::ephemeral_volumes(&job.spec, profile.as_deref()).is_empty()
    }
}
