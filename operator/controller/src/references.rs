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
use trellis_compiler::Need;
use trellis_dispatch::commands::{Commands, WriteError};
use trellis_gang::Held;

/// How long a positive answer is reused.
const FRESH: Duration = Duration::from_secs(30);
/// How long a negative answer is reused.
const MISSING: Duration = Duration::from_secs(3);
/// Answers kept at most.
const MOST: usize = 4096;

/// An object of a namespace.
type Named = (Arc<str>, Need);

/// Answers of the API server, by namespace and object.
#[derive(Debug, Default)]
pub(super) struct References {
    answers: Mutex<HashMap<Named, (Instant, bool)>>,
    /// Namespaces in which Secrets are checked.
    secrets_in: BTreeSet<String>,
}

impl References {
    /// Secrets are checked in these namespaces only.
    pub(super) fn with_secrets_of(namespaces: impl IntoIterator<Item = String>) -> Self {
        Self {
            secrets_in: namespaces.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Why the job waits for the first missing object. None: no object is known to be missing.
    pub(super) async fn missing(
        &self,
        commands: &Commands,
        namespace: &Arc<str>,
        needs: &BTreeMap<Need, String>,
    ) -> Option<Held> {
        for (need, field) in needs {
            if !self.is_there(commands, namespace, need).await {
                let (kind, name) = (need.kind(), need.name());
                let message =
                    format!("{field}: {kind} {name:?} does not exist: create it or name another");
                return Some(Held::waits(Reason::ReferenceNotFound, message));
            }
        }
        None
    }

    async fn is_there(&self, commands: &Commands, namespace: &Arc<str>, need: &Need) -> bool {
        if matches!(need, Need::Secret(_)) && !self.secrets_in.contains(&**namespace) {
            return true;
        }
        let key = (namespace.clone(), need.clone());
        if let Some(known) = self.known(&key) {
            return known;
        }
        let asked = match need {
            Need::ConfigMap(name) => commands.exists::<ConfigMap>(namespace, name).await,
            Need::Secret(name) => commands.exists::<Secret>(namespace, name).await,
            Need::ServiceAccount(name) => commands.exists::<ServiceAccount>(namespace, name).await,
        };
        // Without the right to look, the object counts as present: the kubelet will report it.
        let there = asked.unwrap_or_else(|error: WriteError| {
            debug!(%namespace, ?need, %error, "whether it is there is not known");
            true
        });
        let mut answers = self.answers.lock();
        if answers.len() >= MOST {
            answers.retain(|_, (at, _)| at.elapsed() < FRESH);
        }
        answers.insert(key, (Instant::now(), there));
        there
    }

    fn known(&self, key: &Named) -> Option<bool> {
        let answers = self.answers.lock();
        let (at, there) = answers.get(key)?;
        let holds = if *there { FRESH } else { MISSING };
        (at.elapsed() < holds).then_some(*there)
    }
}
