//! Events of jobs. A separate task writes each event once, so the caller never waits. If the queue
//! is full, events are dropped and their number is logged, because the status has the same content.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, warn};
use trellis_api::Reason;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_dispatch::commands::Commands;

/// Most events that wait to be written.
const MAX_QUEUED_EVENTS: usize = 1024;
/// Most concurrent writes.
const MAX_CONCURRENT_WRITES: usize = 4;
/// Longest note of an event (events.k8s.io/v1).
const MAX_NOTE_LENGTH: usize = 1000;

/// An event that waits to be written.
struct QueuedEvent {
    subject: ObjectReference,
    event: Event,
    /// When the event happened.
    happened_at: Instant,
}

#[derive(Debug)]
pub(super) struct EventQueue {
    sender: mpsc::Sender<QueuedEvent>,
    dropped: Arc<AtomicU64>,
}

impl EventQueue {
    /// Returns a queue whose events are written with a lower priority than gangs.
    pub(super) fn new(commands: &Commands) -> Self {
        let (sender, queued) = mpsc::channel::<QueuedEvent>(MAX_QUEUED_EVENTS);
        let dropped = Arc::<AtomicU64>::default();
        tokio::spawn(write_events(queued, commands.clone(), dropped.clone()));
        Self { sender, dropped }
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
        let queued_event = QueuedEvent {
            subject: about,
            event,
            happened_at: since,
        };
        if self.sender.try_send(queued_event).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes events until the sender is dropped. The time in this queue counts as waiting time in the
/// write limiter. Otherwise the limiter would admit only one event in ten seconds.
async fn write_events(
    queued: mpsc::Receiver<QueuedEvent>,
    commands: Commands,
    dropped: Arc<AtomicU64>,
) {
    let queued = stream::unfold(queued, async |mut queued| {
        Some((queued.recv().await?, queued))
    });
    let written = queued.for_each_concurrent(MAX_CONCURRENT_WRITES, async |event_to_write| {
        let QueuedEvent {
            subject: about,
            event,
            happened_at: since,
        } = event_to_write;
        let commands = commands.with_low_priority_since(since);
        if let Err(error) = commands.publish_event(&event, &about).await {
            debug!(%error, "an event was not written");
        }
        let events = dropped.swap(0, Ordering::Relaxed);
        if events > 0 {
            warn!(events, "too many at once: events were not written");
        }
    });
    written.await;
}
