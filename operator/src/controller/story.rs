//! Events: the story of a job, each chapter once. Told by a task of its own,
//! so that nothing waits for it; what does not fit into its queue is dropped,
//! since status says the same.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tracing::debug;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, TrainingJobStatus};

use crate::commands::Commands;

/// Events that may wait to be written.
const WAITING: usize = 1024;
/// Longest note of an event (events.k8s.io/v1).
const NOTE: usize = 1000;

#[derive(Debug)]
pub(super) struct Story {
    chapters: mpsc::Sender<(ObjectReference, Event)>,
}

impl Story {
    /// Tells it through `commands`, after what others wait for.
    pub(super) fn new(client: Client, commands: &Commands) -> Self {
        let (chapters, mut told) = mpsc::channel::<(ObjectReference, Event)>(WAITING);
        let reporter = Reporter {
            controller: "trellis.dev/operator".to_owned(),
            instance: None,
        };
        let commands = commands.after_others();
        tokio::spawn(async move {
            let recorder = Recorder::new(client, reporter);
            while let Some((about, event)) = told.recv().await {
                if let Err(error) = commands.tell(&recorder, &event, &about).await {
                    debug!(%error, "an event was not written");
                }
            }
        });
        Self { chapters }
    }

    pub(super) fn tell(
        &self,
        about: ObjectReference,
        phase: JobPhase,
        reason: Reason,
        status: &TrainingJobStatus,
    ) {
        let note = status.message.clone().unwrap_or_default();
        let event = Event {
            type_: if reason.is_warning() {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: reason.as_str().to_owned(),
            note: Some(note.chars().take(NOTE).collect()),
            action: format!("{phase:?}"),
            secondary: None,
        };
        let _ = self.chapters.try_send((about, event));
    }
}
