//! The ConfigMaps, ServiceAccounts and Secrets that a job's pods need: whether they are there
//! is asked when it matters, and nothing of them is kept. To watch them all would be to hold
//! every ConfigMap of the cluster.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::debug;
use trellis_api::Reason;
use trellis_compiler::Need;

use crate::dispatch::commands::{Commands, WriteError};
use crate::gang::Held;

/// How long that one is there is not asked again.
const FRESH: Duration = Duration::from_secs(30);
/// How long that one is not there is not asked again.
const MISSING: Duration = Duration::from_secs(3);
/// Answers that are kept.
const MOST: usize = 4096;

/// An object of a namespace.
type Named = (Arc<str>, Need);

/// What was answered, by namespace and object.
#[derive(Debug, Default)]
pub(super) struct References {
    answers: Mutex<HashMap<Named, (Instant, bool)>>,
    /// Namespaces in which Secrets are looked for.
    secrets_in: BTreeSet<String>,
}

impl References {
    /// Secrets are looked for in these namespaces alone.
    pub(super) fn with_secrets_of(namespaces: impl IntoIterator<Item = String>) -> Self {
        Self {
            secrets_in: namespaces.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Why the job waits for the first that is not there. None: all are, as far as anybody
    /// can tell.
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
        // Who may not look cannot tell: the kubelet will.
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
