//! Reports on external pods why they have no node, as kube-scheduler does: in the condition
//! PodScheduled, and as an event.

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType};
use parking_lot::Mutex;
use tracing::debug;
use trellis_api::Reason;
use trellis_gang::key::Key;
use trellis_gang::observed::SlimPod;

use super::Committer;
use crate::commands::WriteError;

/// Most pods written at once.
const MAX_CONCURRENT_WRITES: usize = 8;
/// Longest note of an event (events.k8s.io/v1), in bytes.
const MAX_NOTE_LENGTH: usize = 1024;

/// Returns the condition's message: Trellis's own reason, then the explanation.
fn condition_message(reason: Reason, message: &str) -> String {
    format!("{reason}: {message}")
}

impl Committer {
    /// Writes the reason to these pods, given by name and uid. Returns the uids of pods to which
    /// the write failed.
    pub(crate) async fn write_pod_conditions(
        &self,
        namespace: String,
        pods: Vec<(String, String)>,
        reason: Reason,
        message: String,
    ) -> Vec<String> {
        let commands = self.commands.with_low_priority();
        let condition_message = condition_message(reason, &message);
        let event = Event {
            type_: match reason.is_warning() {
                true => EventType::Warning,
                false => EventType::Normal,
            },
            reason: reason.as_str().to_owned(),
            note: message
                .get(..message.floor_char_boundary(MAX_NOTE_LENGTH))
                .map(str::to_owned),
            action: "Scheduling".to_owned(),
            secondary: None,
        };
        let missed = Mutex::new(Vec::new());
        let writes = stream::iter(pods).for_each_concurrent(MAX_CONCURRENT_WRITES, async |(name, uid)| {
            // A pod that has a node by now must not get the condition.
            let read: Result<Option<SlimPod>, _> = commands.get(&namespace, &name).await;
            let waits = read.map(|read| {
                let pod = read.filter(|pod| pod.metadata.uid.as_ref() == Some(&uid))?;
                let waits = pod.spec.node_name.is_none();
                pod.metadata.resource_version.filter(|_| waits)
            });
            let written = match waits {
                Ok(Some(version)) => {
                    commands
                        .set_unschedulable(&namespace, &name, &version, &condition_message)
                        .await
                }
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if matches!(written, Err(WriteError::NotFound(_))) {
                return;
            }
            if let Err(error) = written {
                debug!(pod = %Key::new(&namespace, &name), %error, "its condition was not written");
                missed.lock().push(uid);
                return;
            }
            let about = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                namespace: Some(namespace.clone()),
                name: Some(name),
                uid: Some(uid),
                ..ObjectReference::default()
            };
            if let Err(error) = commands.publish_event(&event, &about).await {
                debug!(%error, "an event was not written");
            }
        });
        writes.await;
        missed.into_inner()
    }
}
