//! Sends spans to an OTLP collector.

use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::{Subscriber, info, warn};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{Filtered, LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;

/// Longest wait for an answer of the collector.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Layer that sends the spans of Trellis.
type SpanLayer<S> = Filtered<OpenTelemetryLayer<S, SdkTracer>, Targets, S>;

/// Exporter that sends the remaining spans when it is dropped.
#[derive(Debug)]
pub struct Traces {
    provider: Option<SdkTracerProvider>,
    error: Option<String>,
}

/// Starts the exporter if an endpoint is set.
pub fn begin<S>() -> (Option<SpanLayer<S>>, Traces)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let endpoint = super::trace_endpoint(|name| std::env::var(name).ok());
    // The exporter itself reads the endpoint and its other variables.
    match endpoint.map(|_| exporter(None)) {
        None => (
            None,
            Traces {
                provider: None,
                error: None,
            },
        ),
        Some(Ok(exporter)) => build_layer(exporter),
        Some(Err(error_message)) => (
            None,
            Traces {
                provider: None,
                error: Some(error_message),
            },
        ),
    }
}

fn exporter(endpoint: Option<&str>) -> Result<SpanExporter, String> {
    let builder = SpanExporter::builder().with_http().with_timeout(TIMEOUT);
    let builder = match endpoint {
        Some(endpoint) => builder.with_endpoint(endpoint),
        None => builder,
    };
    builder.build().map_err(|error| error.to_string())
}

fn build_layer<S>(exporter: SpanExporter) -> (Option<SpanLayer<S>>, Traces)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let resource = Resource::builder().with_service_name("trellis").build();
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource)
        .build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("trellis"));
    let own_spans = Targets::new().with_target("trellis::traces", LevelFilter::DEBUG);
    let traces = Traces {
        provider: Some(provider),
        error: None,
    };
    (Some(spans.with_filter(own_spans)), traces)
}

impl Traces {
    /// Logs whether spans are sent.
    pub fn log_state(&self) {
        match (&self.provider, &self.error) {
            (Some(_), _) => info!("spans are sent by OTLP"),
            (None, Some(wrong)) => {
                warn!(why = %wrong, "nothing is traced: OTEL_EXPORTER_OTLP_ENDPOINT is of no use")
            }
            (None, None) => {}
        }
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Some(provider) = &self.provider
            && let Err(error) = provider.shutdown()
        {
            warn!(%error, "the last spans were not sent");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use axum::body::Bytes;
    use axum::routing::post;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use parking_lot::Mutex;
    use prost::Message as _;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::span;

    /// Spans that a collector has received, with name and service.
    type ReceivedSpans = Arc<Mutex<Vec<(String, String)>>>;

    async fn collector() -> (String, ReceivedSpans) {
        let received = ReceivedSpans::default();
        let store = received.clone();
        let receive = async move |body: Bytes| {
            let request = ExportTraceServiceRequest::decode(body).unwrap();
            for spans_of_service in request.resource_spans {
                let attributes = spans_of_service.resource.unwrap().attributes;
                let service = attributes
                    .into_iter()
                    .find(|a| a.key == "service.name")
                    .unwrap();
                let service = format!("{:?}", service.value.unwrap().value.unwrap());
                let spans = spans_of_service
                    .scope_spans
                    .into_iter()
                    .flat_map(|scope| scope.spans);
                store
                    .lock()
                    .extend(spans.map(|span| (span.name, service.clone())));
            }
        };
        let router = Router::new().route("/v1/traces", post(receive));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (endpoint, received)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn collector_receives_only_spans_of_trellis() {
        let (endpoint, received) = collector().await;
        let work = trellis_machine::threads::spawn_blocking(move || {
            let (layer, traces) = build_layer(exporter(Some(&endpoint)).unwrap());
            let subscriber = tracing_subscriber::registry().with(layer);
            tracing::subscriber::with_default(subscriber, || {
                let _look = span!("reconcile", job = "team-a/llm").entered();
                let _write = span!("write", namespace = "team-a").entered();
                let _other = tracing::info_span!("foreign").entered();
            });
            // Dropping the exporter sends the remaining spans.
            drop(traces);
        });
        work.await.unwrap();
        let mut received = received.lock().clone();
        received.sort();
        let names: Vec<_> = received.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["reconcile", "write"]);
        assert!(
            received
                .iter()
                .all(|(_, service)| service.contains("trellis")),
            "{received:?}"
        );
    }

    #[test]
    fn invalid_collector_address_is_an_error() {
        assert!(exporter(Some("no address")).is_err());
    }
}
