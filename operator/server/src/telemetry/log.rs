//! Logs, and traces.

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};
use trellis_dispatch::traces;
use trellis_dispatch::traces::Traces;

/// How log lines are written.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Starts logging to standard error, and tracing if an endpoint is set. `RUST_LOG` is the filter;
/// the default is info. The caller must keep the result until the process ends.
pub fn start_logging(format: LogFormat) -> Traces {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Human => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let (layer, traces) = traces::begin();
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(layer)
        .init();
    traces.log_state();
    traces
}
