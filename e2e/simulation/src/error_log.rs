//! Errors in the operator's log, and panics.

use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// Records the lines of level ERROR during a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorLog(Arc<Mutex<Vec<String>>>);

impl ErrorLog {
    /// Calls a function, and records what is logged meanwhile on this thread. Lines also go to the
    /// subscriber of the process, if it has one.
    pub(crate) fn record_during(&self, call: impl FnOnce()) {
        let subscriber = tracing_subscriber::registry().with(self.clone());
        // A global subscriber prints the log, and then nothing is recorded.
        match tracing::dispatcher::has_been_set() {
            true => call(),
            false => tracing::subscriber::with_default(subscriber, call),
        }
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl<S: Subscriber> Layer<S> for ErrorLog {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line(format!("log of {}:", event.metadata().target()));
        event.record(&mut line);
        self.0.lock().push(line.0);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
