//! The traces of one job match docs/traces.md.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::ensure;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use tokio::net::TcpListener;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

/// Spans by name, with the names of all their attributes.
type SpanAttributes = BTreeMap<String, BTreeSet<String>>;

/// Starts a collector. Returns its address and the received spans.
async fn start_collector() -> (String, Arc<Mutex<SpanAttributes>>) {
    let spans: Arc<Mutex<SpanAttributes>> = Arc::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let sent = spans.clone();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let sent = sent.clone();
            let take = service_fn(move |request: Request<Incoming>| {
                let sent = sent.clone();
                async move {
                    assert_eq!(request.uri().path(), "/v1/traces");
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    record_spans(&body, &mut sent.lock().unwrap());
                    Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
                }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(tcp), take));
        }
    });
    (address, spans)
}

fn record_spans(body: &Bytes, spans: &mut SpanAttributes) {
    let request = ExportTraceServiceRequest::decode(body.clone()).unwrap();
    let scopes = request
        .resource_spans
        .into_iter()
        .flat_map(|resource| resource.scope_spans);
    for span in scopes.flat_map(|scope| scope.spans) {
        let bears: BTreeSet<_> = span.attributes.into_iter().map(|a| a.key).collect();
        spans
            .entry(span.name)
            .and_modify(|known| known.retain(|key| bears.contains(key)))
            .or_insert(bears);
    }
}

/// Returns the spans in the table of the page.
fn documented_spans() -> SpanAttributes {
    let text = include_str!("../../../docs/traces.md");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let words = |cell: &str| -> Vec<String> {
        let words = cell.split(',').map(|word| word.trim().trim_matches('`'));
        words
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').collect();
        let name = words(cells[1]).remove(0);
        (name, words(cells[3]).into_iter().collect())
    })
    .collect()
}

#[tokio::test]
async fn collector_receives_exactly_the_documented_spans() {
    let documented = documented_spans();
    assert!(documented.len() > 3, "{documented:?}");
    let (address, spans) = start_collector().await;
    let control_plane = operator::start_control_plane().await.unwrap();
    let kubeconfig = operator::kubeconfig(&control_plane, operator::POD);
    let launch =
        LaunchOptions::with_name("operator").variable("OTEL_EXPORTER_OTLP_ENDPOINT", &address);
    let kubeconfig = kubeconfig.await.unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_trellis-under-test"));
    let _operator =
        Operator::launch_with_options(&control_plane, program, &kubeconfig, &launch).unwrap();
    let site = TestSite::new(&control_plane, "traced", NodeTemplate::new(1).gpus(8)).await;
    site.create(site.job("j", 1, 8)).await.unwrap();
    site.wait_for_phase("j", JobPhase::Running).await;
    eventually(SOON, || async {
        let spans = spans.lock().unwrap().clone();
        for (name, bears) in &documented {
            let sent = spans.get(name);
            ensure!(
                sent.is_some_and(|sent| sent.is_superset(bears)),
                "{name}: {sent:?}"
            );
        }
        Ok(())
    })
    .await
    .unwrap();
    let spans = spans.lock().unwrap();
    let (sent, known): (Vec<_>, Vec<_>) = (spans.keys().collect(), documented.keys().collect());
    assert_eq!(sent, known);
}
