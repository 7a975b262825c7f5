//! Checks that the ConfigMaps, ServiceAccounts and Secrets that a job's pods need exist. Each check
//! is a request to the API server, because a watch would store all ConfigMaps of the cluster.

pub(super) mod external_secrets;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::debug;
use trellis_api::Reason;
use trellis_compiler::RequiredObject;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_gang::JobHold;

/// How long a positive answer is reused.
const POSITIVE_TTL: Duration = Duration::from_secs(30);
/// How long a negative answer is reused.
const NEGATIVE_TTL: Duration = Duration::from_secs(3);
/// Most cached answers.
const MAX_ANSWERS: usize = 4096;

/// An object of a namespace.
type ReferenceKey = (Arc<str>, RequiredObject);

/// Answers of the API server, by namespace and object.
#[derive(Debug, Default)]
pub(super) struct ReferenceChecker {
    answers: Mutex<HashMap<ReferenceKey, (Instant, bool)>>,
    /// Namespaces in which Secrets are checked.
    secrets_in: BTreeSet<String>,
}

impl ReferenceChecker {
    /// Returns a checker that checks Secrets only in these namespaces.
    pub(super) fn with_secrets_of(namespaces: impl IntoIterator<Item = String>) -> Self {
        Self {
            secrets_in: namespaces.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Returns why the job waits for its first missing object. None if no object is known to be
    /// missing.
    pub(super) async fn find_missing(
        &self,
        commands: &Commands,
        namespace: &Arc<str>,
        objects: &BTreeMap<RequiredObject, String>,
    ) -> Option<JobHold> {
        for (object, field) in objects {
            if !self.exists(commands, namespace, object).await {
                let (kind, name) = (object.kind(), object.name());
                let message =
                    format!("{field}: {kind} {name:?} does not exist: create it or name another");
                return Some(JobHold::waiting(Reason::ReferenceNotFound, message));
            }
        }
        None
    }

    async fn exists(
        &self,
        commands: &Commands,
        namespace: &Arc<str>,
        object: &RequiredObject,
    ) -> bool {
        if matches!(object, RequiredObject::Secret(_)) && !self.secrets_in.contains(&**namespace) {
            return true;
        }
        let key = (namespace.clone(), object.clone());
        if let Some(known) = self.cached_answer(&key) {
            return known;
        }
        let answer = match object {
            RequiredObject::ConfigMap(name) => commands.exists::<ConfigMap>(namespace, name).await,
            RequiredObject::Secret(name) => commands.exists::<Secret>(namespace, name).await,
            RequiredObject::ServiceAccount(name) => {
                commands.exists::<ServiceAccount>(namespace, name).await
            }
        };
        // If the operator may not read the object, it counts as present. The kubelet reports it if
        // it is missing.
        let exists = answer.unwrap_or_else(|error: WriteError| {
            debug!(%namespace, ?object, %error, "could not check whether the object exists");
            true
        });
        let mut answers = self.answers.lock();
        if answers.len() >= MAX_ANSWERS {
            answers.retain(|_, (at, _)| at.elapsed() < POSITIVE_TTL);
        }
        answers.insert(key, (Instant::now(), exists));
        exists
    }

    fn cached_answer(&self, key: &ReferenceKey) -> Option<bool> {
        let answers = self.answers.lock();
        let (at, exists) = answers.get(key)?;
        let ttl = if *exists { POSITIVE_TTL } else { NEGATIVE_TTL };
        (at.elapsed() < ttl).then_some(*exists)
    }
}
