//! Traces: durations of reconciliations, decisions, commits and writes, sent by OTLP (feature
//! `otlp`) to `OTEL_EXPORTER_OTLP_ENDPOINT`, the standard variable of OpenTelemetry.

#[cfg_attr(feature = "otlp", path = "traces/otlp.rs")]
#[cfg_attr(not(feature = "otlp"), path = "traces/none.rs")]
mod exporter;

pub use exporter::{Traces, begin};

/// Traced spans have this target, so that they do not appear in log lines.
#[macro_export]
macro_rules! span {
    ($name:literal $(, $($fields:tt)*)?) => {
        tracing::debug_span!(target: "trellis::traces", $name $(, $($fields)*)?)
    };
}

/// Returns the endpoint of traces. None: traces are not sent.
fn trace_endpoint(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    // https://opentelemetry.io/docs/specs/otel/protocol/exporter/
    let names = [
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ];
    let mut endpoints = names.into_iter().filter_map(variable);
    endpoints.find(|endpoint| !endpoint.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_endpoint_takes_precedence_over_the_general_endpoint() {
        let endpoint = |traces: &str, general: &str| {
            trace_endpoint(|name| {
                let value = match name.contains("TRACES") {
                    true => traces,
                    false => general,
                };
                Some(value.to_owned())
            })
        };
        assert_eq!(
            endpoint("http://a:4318/v1/traces", "http://b:4318").unwrap(),
            "http://a:4318/v1/traces"
        );
        assert_eq!(endpoint("", "http://b:4318").unwrap(), "http://b:4318");
        assert_eq!(endpoint(" ", ""), None);
    }
}
