//! Logs, and traces.

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};
use trellis_dispatch::traces;
use trellis_dispatch::traces::Traces;

/// The filter of the log without `RUST_LOG`. The client logs each request that fails as an error,
/// without its path, and then often repeats it with success. The operator logs what failed for good.
pub const DEFAULT_FILTER: &str = "info,kube_client::client::builder=off";

/// How log lines are written.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Starts logging to standard error, and tracing if an endpoint is set. `RUST_LOG` is the filter;
/// the default is [`DEFAULT_FILTER`]. The caller must keep the result until the process ends.
pub fn start_logging(format: LogFormat) -> Traces {
    let filter = EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
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

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn failed_request_of_the_client_is_no_error_of_the_operator() {
        let subscriber = tracing_subscriber::registry().with(EnvFilter::new(DEFAULT_FILTER));
        tracing::subscriber::with_default(subscriber, || {
            assert!(tracing::enabled!(target: "trellis_server", Level::INFO));
            assert!(tracing::enabled!(target: "kube_client::client", Level::ERROR));
            assert!(!tracing::enabled!(target: "kube_client::client::builder", Level::ERROR));
        });
    }
}
