//! Checks that the ConfigMaps, ServiceAccounts and Secrets that a job's pods need exist. The API
//! server is asked on demand and no object is kept, because a watch would hold every ConfigMap of
//! the cluster.

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
/// Answers kept at most.
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
    /// Secrets are checked in these namespaces only.
    pub(super) fn with_secrets_of(namespaces: impl IntoIterator<Item = String>) -> Self {
        Self {
            secrets_in: namespaces.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Why the job waits for the first missing object. None: no object is known to be missing.
    pub(super) async fn find_missing(
        &self,
        commands: &Commands,
        namespace: &Arc<str>,
        needs: &BTreeMap<RequiredObject, String>,
    ) -> Option<JobHold> {
        for (need, field) in needs {
            if !self.exists(commands, namespace, need).await {
                let (kind, name) = (need.kind(), need.name());
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
        need: &RequiredObject,
    ) -> bool {
        if matches!(need, RequiredObject::Secret(_)) && !self.secrets_in.contains(&**namespace) {
            return true;
        }
        let key = (namespace.clone(), need.clone());
        if let Some(known) = self.cached_answer(&key) {
            return known;
        }
        let asked = match need {
            RequiredObject::ConfigMap(name) => commands.exists::<ConfigMap>(namespace, name).await,
            RequiredObject::Secret(name) => commands.exists::<Secret>(namespace, name).await,
            RequiredObject::ServiceAccount(name) => {
                commands.exists::<ServiceAccount>(namespace, name).await
            }
        };
        // Without the right to look, the object counts as present: the kubelet will report it.
        let there = asked.unwrap_or_else(|error: WriteError| {
            debug!(%namespace, ?need, %error, "whether it is there is not known");
            true
        });
        let mut answers = self.answers.lock();
        if answers.len() >= MAX_ANSWERS {
            answers.retain(|_, (at, _)| at.elapsed() < POSITIVE_TTL);
        }
        answers.insert(key, (Instant::now(), there));
        there
    }

    fn cached_answer(&self, key: &ReferenceKey) -> Option<bool> {
        let answers = self.answers.lock();
        let (at, there) = answers.get(key)?;
        let holds = if *there { POSITIVE_TTL } else { NEGATIVE_TTL };
        (at.elapsed() < holds).then_some(*there)
    }
}
