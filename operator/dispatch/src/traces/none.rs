//! Stub for builds without the feature `otlp`.

use tracing_subscriber::layer::Identity;

/// Traces nothing.
#[derive(Debug)]
pub struct Traces {
    is_configured: bool,
}

/// Starts nothing.
pub fn begin() -> (Identity, Traces) {
    let endpoint = super::trace_endpoint(|name| std::env::var(name).ok());
    let traces = Traces {
        is_configured: endpoint.is_some(),
    };
    (Identity::new(), traces)
}

impl Traces {
    /// Warns if an endpoint is set, because this build does not trace.
    pub fn log_state(&self) {
        if self.is_configured {
            tracing::warn!(
                "OTEL_EXPORTER_OTLP_ENDPOINT is set, and this build traces nothing: build it with --features otlp, or take the image, which has it"
            );
        }
    }
}
