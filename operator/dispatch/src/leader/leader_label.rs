//! The label of the leader's pod, by which a Service finds it.
//!
//! The Lease decides which replica leads, and the label only follows it. A wrong label only costs
//! answers, because a replica that does not lead reports that.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tracing::{debug, info, warn};
use trellis_api::names;

use super::Leadership;

/// Pause between two checks of the label, because a user may have removed it or given it to another
/// pod.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Pause after a failed check.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// Longest time that removing the label may delay the shutdown.
const MAX_REMOVAL_TIME: Duration = Duration::from_secs(3);

/// The label of this replica's pod.
#[derive(Clone)]
pub struct LeaderLabel {
    pods: Api<Pod>,
    pod: String,
}

impl LeaderLabel {
    /// Creates the label of the pod with this name.
    #[must_use]
    pub fn new(client: Client, namespace: &str, pod: String) -> Self {
        Self {
            pods: Api::namespaced(client, namespace),
            pod,
        }
    }

    /// Keeps the label on this replica's pod and on no other, while it leads. Never returns.
    pub async fn maintain(self, leadership: Leadership) {
        let mut logged_error = None;
        loop {
            match self.check_labels(&leadership).await {
                Ok(()) => {
                    logged_error = None;
                    tokio::time::sleep(CHECK_INTERVAL).await;
                }
                Err(error) => {
                    let error = error.to_string();
                    if logged_error.as_ref() != Some(&error) {
                        warn!(%error, pod = self.pod, "the pod is not labelled as the one that leads: the Service {} does not find it", trellis_api::visibility::SERVICE);
                        logged_error = Some(error);
                    }
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    async fn check_labels(&self, leadership: &Leadership) -> kube::Result<()> {
        let labelled = format!("{}={}", names::ROLE, names::LEADER);
        let labelled = ListParams::default().labels(&labelled);
        let labelled = self.pods.list(&labelled).await?;
        let labelled: Vec<String> = labelled.iter().map(|pod| pod.name_any()).collect();
        // Former leaders come first: they may be dead, and no other replica removes their label.
        for other in labelled.iter().filter(|name| **name != self.pod) {
            if leadership.check().is_err() {
                return Ok(());
            }
            info!(pod = other, "it leads no more: its label is taken away");
            match self.patch(other, &Value::Null).await {
                Ok(()) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        if !labelled.contains(&self.pod) && leadership.check().is_ok() {
            self.patch(&self.pod, &json!(names::LEADER)).await?;
            info!(pod = self.pod, "it is labelled as the one that leads");
        }
        Ok(())
    }

    /// Removes the label from this replica's pod: neither a restarted nor a stopping container in
    /// it leads. If that fails, the next leader removes the label.
    pub async fn remove(&self) {
        match tokio::time::timeout(MAX_REMOVAL_TIME, self.patch(&self.pod, &Value::Null)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, pod = self.pod, "its label is not taken away"),
            Err(_) => debug!(pod = self.pod, "its label is not taken away in time"),
        }
    }

    async fn patch(&self, pod: &str, value: &Value) -> kube::Result<()> {
        let params = PatchParams {
            field_manager: Some(names::MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({"metadata": {"labels": {names::ROLE: value}}}));
        self.pods.patch_metadata(pod, &params, &patch).await?;
        Ok(())
    }
}
