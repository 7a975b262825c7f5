//! Events of jobs, each once. A task of its own writes them, so that the caller never waits. Events
//! that do not fit into its queue are dropped, because the status has the same content, and their
//! number is logged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, warn};
use trellis_api::Reason;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_dispatch::commands::Commands;

/// Events that may wait to be written.
const MAX_QUEUED_EVENTS: usize = 1024;
/// Events written at once.
const MAX_CONCURRENT_WRITES: usize = 4;
/// Longest note of an event (events.k8s.io/v1).
const MAX_NOTE_LENGTH: usize = 1000;

/// One event.
struct QueuedEvent {
    subject: ObjectReference,
    event: Event,
    /// When it happened.
    happened_at: Instant,
}

#[derive(Debug)]
pub(super) struct EventQueue {
    sender: mpsc::Sender<QueuedEvent>,
    dropped: Arc<AtomicU64>,
}

impl EventQueue {
    /// Writes events through `commands`, after the writes of gangs.
    pub(super) fn new(client: Client, commands: &Commands) -> Self {
        let (chapters, told) = mpsc::channel::<QueuedEvent>(MAX_QUEUED_EVENTS);
        let dropped = Arc::<AtomicU64>::default();
        let reporter = Reporter {
            controller: "trellis.dev/operator".to_owned(),
            instance: None,
        };
        // A recorder counts two events with one reason as a repetition, and keeps the note of the
        // first. Two failures differ in their notes, so each event gets a recorder of its own.
        let recorder = move || Recorder::new(client.clone(), reporter.clone());
        tokio::spawn(write_events(
            told,
            recorder,
            commands.clone(),
            dropped.clone(),
        ));
        Self {
            sender: chapters,
            dropped,
        }
    }

    pub(super) fn publish(
        &self,
        about: ObjectReference,
        phase: JobPhase,
        reason: Reason,
        status: &TrainingJobStatus,
    ) {
        let note = status.full_message();
        let event = Event {
            type_: if reason.is_warning() {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: reason.as_str().to_owned(),
            note: Some(note.chars().take(MAX_NOTE_LENGTH).collect()),
            action: format!("{phase:?}"),
            secondary: None,
        };
        let since = Instant::now();
        let chapter = QueuedEvent {
            subject: about,
            event,
            happened_at: since,
        };
        if self.sender.try_send(chapter).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes events until the sender is gone. The time in this queue counts as waiting for other
/// writes: otherwise only one event in ten seconds would be written.
async fn write_events(
    told: mpsc::Receiver<QueuedEvent>,
    recorder: impl Fn() -> Recorder,
    commands: Commands,
    dropped: Arc<AtomicU64>,
) {
    let told = stream::unfold(told, async |mut told| Some((told.recv().await?, told)));
    let written = told.for_each_concurrent(MAX_CONCURRENT_WRITES, async |chapter| {
        let QueuedEvent {
            subject: about,
            event,
            happened_at: since,
        } = chapter;
        let commands = commands.with_low_priority_since(since);
        if let Err(error) = commands.publish_event(&recorder(), &event, &about).await {
            debug!(%error, "an event was not written");
        }
        let events = dropped.swap(0, Ordering::Relaxed);
        if events > 0 {
            warn!(events, "too many at once: events were not written");
        }
    });
    written.await;
}
