//! An Application of Argo CD and its state.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};

use crate::wait::{eventually, wait_until_deleted};

/// An Application of one Argo CD.
#[derive(Debug, Clone)]
pub struct Application {
    api: Api<DynamicObject>,
    name: String,
}

/// The state that Argo CD reports for an Application at one moment. Fields without a value are
/// empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplicationState {
    /// Synced, OutOfSync or Unknown.
    pub sync: String,
    /// The commit of the last comparison.
    pub revision: String,
    /// Time of the last comparison.
    pub reconciled: String,
    /// Number of syncs.
    pub syncs: usize,
    /// Healthy, Progressing, Degraded, Suspended, Missing or Unknown.
    pub health: String,
    /// The last sync: phase (Running, Succeeded, Failed or Error), commit and message.
    pub operation: (String, String, String),
    /// Sync, health and message of each resource, by `Kind/name`.
    pub resources: BTreeMap<String, (String, String, String)>,
    /// Phase and message of each resource and hook in the last sync, by `Kind/name`.
    pub results: BTreeMap<String, (String, String)>,
    /// Warnings and errors, by type.
    pub conditions: BTreeMap<String, String>,
}

fn text_at(value: &Value, pointer: &str) -> String {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default().to_owned()
}

fn list_at<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn resource_key(value: &Value) -> String {
    format!("{}/{}", text_at(value, "/kind"), text_at(value, "/name"))
}

impl ApplicationState {
    fn from_object(object: &DynamicObject) -> Self {
        let status = &object.data["status"];
        Self {
            sync: text_at(status, "/sync/status"),
            revision: text_at(status, "/sync/revision"),
            reconciled: text_at(status, "/reconciledAt"),
            syncs: list_at(status, "/history").count(),
            health: text_at(status, "/health/status"),
            operation: (
                text_at(status, "/operationState/phase"),
                text_at(status, "/operationState/syncResult/revision"),
                text_at(status, "/operationState/message"),
            ),
            resources: list_at(status, "/resources")
                .map(|r| {
                    let health = text_at(r, "/health/status");
                    let message = text_at(r, "/health/message");
                    (resource_key(r), (text_at(r, "/status"), health, message))
                })
                .collect(),
            results: list_at(status, "/operationState/syncResult/resources")
                .map(|r| {
                    let phase = match text_at(r, "/hookPhase") {
                        phase if phase.is_empty() => text_at(r, "/status"),
                        phase => phase,
                    };
                    (resource_key(r), (phase, text_at(r, "/message")))
                })
                .collect(),
            conditions: list_at(status, "/conditions")
                .map(|c| (text_at(c, "/type"), text_at(c, "/message")))
                .collect(),
        }
    }

    /// Returns true if this commit has been synced and the cluster matches it.
    #[must_use]
    pub fn is_synced(&self, revision: &str) -> bool {
        let (phase, synced, _) = &self.operation;
        self.sync == "Synced"
            && self.revision == revision
            && phase == "Succeeded"
            && synced == revision
    }

    /// Returns the health of one resource. Empty: it has none.
    #[must_use]
    pub fn resource_health(&self, resource: &str) -> &str {
        self.resources
            .get(resource)
            .map_or("", |(_, health, _)| health)
    }
}

impl Application {
    pub(super) fn new(api: Api<DynamicObject>, name: String) -> Self {
        Self { api, name }
    }

    /// Reads the current state.
    ///
    /// # Errors
    ///
    /// When the Application does not exist.
    pub async fn read_state(&self) -> Result<ApplicationState> {
        Ok(ApplicationState::from_object(
            &self.api.get(&self.name).await?,
        ))
    }

    /// Makes Argo CD compare the Application with the newest commit now. By itself, Argo CD does so
    /// every two minutes.
    ///
    /// # Errors
    ///
    /// When the Application does not exist.
    pub async fn refresh(&self) -> Result<()> {
        self.request_refresh("normal").await
    }

    async fn request_refresh(&self, refresh: &str) -> Result<()> {
        let patch = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": refresh}}});
        self.patch(&patch).await
    }

    /// Changes the Application by a merge patch.
    ///
    /// # Errors
    ///
    /// The API server's refusal.
    pub async fn patch(&self, patch: &Value) -> Result<()> {
        let params = PatchParams::default();
        self.api
            .patch(&self.name, &params, &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Waits until the state satisfies `condition`.
    ///
    /// # Errors
    ///
    /// When `timeout` has passed; the error has the last state.
    pub async fn wait_for_state(
        &self,
        expectation: &str,
        timeout: Duration,
        condition: impl Fn(&ApplicationState) -> bool,
    ) -> Result<ApplicationState> {
        let look = async || -> Result<ApplicationState> {
            let state = self.read_state().await?;
            ensure!(condition(&state), "{state:#?}");
            Ok(state)
        };
        let reached = eventually(timeout, look).await;
        reached.with_context(|| format!("{} is not {expectation}", self.name))
    }

    /// Returns all states from now on, each change once, until one satisfies `until`.
    ///
    /// # Errors
    ///
    /// When the Application is deleted, or the watch ends.
    pub async fn record_states(
        &self,
        mut until: impl FnMut(&ApplicationState) -> bool,
    ) -> Result<Vec<ApplicationState>> {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut events = watcher(self.api.clone(), config)
            .default_backoff()
            .applied_objects()
            .boxed();
        let mut history: Vec<ApplicationState> = Vec::new();
        while let Some(object) = events.try_next().await? {
            let state = ApplicationState::from_object(&object);
            let is_last = until(&state);
            if history.last() != Some(&state) {
                history.push(state);
            }
            if is_last {
                return Ok(history);
            }
        }
        bail!("the watch of {} has ended", self.name)
    }

    /// Deletes the Application with all objects that it delivered, and waits until they are gone.
    ///
    /// # Errors
    ///
    /// When `timeout` has passed.
    pub async fn delete(&self, timeout: Duration) -> Result<()> {
        self.api
            .delete(&self.name, &DeleteParams::default())
            .await?;
        wait_until_deleted(&self.api, &self.name, timeout).await
    }
}
