//! Reads the metrics of the DCGM exporters with the rights of the user.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{AsyncReadExt as _, StreamExt as _};
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use tokio::time::timeout;

use super::dcgm::{Gpu, deduplicate, parse_scrape};
use super::exporters::SIMULATED;
use crate::cluster::is_simulated;
use crate::output::sanitize;

/// The exporter's port if the pod has none.
const PORT: i32 = 9400;
/// Greatest number of exporters that are read at the same time.
const MAX_PARALLEL: usize = 16;
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);
/// Greatest size of an answer in bytes.
/// 16 GPUs with all metrics need a tenth of it.
const MAX_ANSWER: u64 = 8 * 1024 * 1024;

/// The results of all exporters.
#[derive(Debug, Default)]
pub struct ScrapeResults {
    /// Number of exporters that were read.
    pub exporters: usize,
    /// The GPUs that pods hold.
    pub gpus: Vec<Gpu>,
    /// The exporters that could not be read, with the reasons.
    failed: Vec<String>,
    /// Number of exporters that failed because the user lacks a right.
    forbidden: usize,
    /// Number of exporters without pod labels.
    without_pod_labels: usize,
    /// True if the jobs have nodes, but no exporter runs on any of them.
    is_on_other_nodes: bool,
}

impl ScrapeResults {
    /// Returns the reason if no exporter could be read.
    pub fn failure_reason(&self) -> Option<String> {
        let first = self
            .failed
            .first()
            .filter(|_| self.failed.len() == self.exporters)?;
        let right = match self.forbidden {
            0 => "",
            _ => {
                ": the right to get pods/proxy in its namespace is missing, ask a cluster administrator for it"
            }
        };
        Some(format!(
            "none of {} DCGM exporters could be read{right}; the first: {first}",
            self.exporters
        ))
    }

    /// True if no exporter runs on any node of the jobs.
    pub fn is_on_other_nodes(&self) -> bool {
        self.is_on_other_nodes
    }

    /// Returns notes on incomplete answers.
    /// `are_simulated`: the nodes of the jobs are simulated.
    pub fn notes(&self, are_simulated: bool) -> Vec<String> {
        let failed = self.failed.first().map(|first| {
            format!(
                "{} of {} DCGM exporters could not be read; the first: {first}",
                self.failed.len(),
                self.exporters
            )
        });
        let unlabelled = (self.without_pod_labels > 0).then(|| {
            format!(
                "{} DCGM exporters do not report which pod holds a GPU: start them with DCGM_EXPORTER_KUBERNETES=true",
                self.without_pod_labels
            )
        });
        let other_nodes = self.is_on_other_nodes.then(|| {
            let reason = match are_simulated {
                true => SIMULATED,
                false => "look at the nodeSelector and tolerations of its DaemonSet",
            };
            format!("no DCGM exporter runs on a node of these jobs: {reason}")
        });
        failed
            .into_iter()
            .chain(unlabelled)
            .chain(other_nodes)
            .collect()
    }
}

/// Returns true if all these nodes are simulated.
/// Returns false for an empty set.
pub async fn are_simulated(client: &Client, nodes: &BTreeSet<String>) -> bool {
    let checks = nodes.iter().map(|node| is_simulated(client, node));
    let mut checks = futures::stream::iter(checks).buffered(MAX_PARALLEL);
    while let Some(is_simulated) = checks.next().await {
        if !is_simulated {
            return false;
        }
    }
    !nodes.is_empty()
}

/// Reads the exporters on these nodes.
pub async fn scrape(client: &Client, exporters: &[Pod], nodes: &BTreeSet<String>) -> ScrapeResults {
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let selected: Vec<_> = exporters
        .iter()
        .filter(|pod| can_scrape(pod) && node(pod).is_some_and(|node| nodes.contains(&node)))
        .cloned()
        .collect();
    let mut answers = ScrapeResults {
        exporters: selected.len(),
        is_on_other_nodes: selected.is_empty() && !nodes.is_empty(),
        ..ScrapeResults::default()
    };
    let scrapes = futures::stream::iter(selected.into_iter().map(|pod| {
        let client = client.clone();
        async move {
            let name = pod.metadata.name.clone().unwrap_or_default();
            (
                name,
                timeout(SCRAPE_TIMEOUT, scrape_one(&client, &pod)).await,
            )
        }
    }));
    // The answers keep the order of the exporters.
    let mut scrapes = scrapes.buffered(MAX_PARALLEL);
    let mut gpus = Vec::new();
    while let Some((pod, answer)) = scrapes.next().await {
        match answer {
            Ok(Ok(text)) => {
                let parsed = parse_scrape(&text);
                answers.without_pod_labels = answers
                    .without_pod_labels
                    .saturating_add(usize::from(parsed.names_no_pods));
                gpus.extend(parsed.gpus);
            }
            Ok(Err(ScrapeError { reason, is_denied })) => {
                answers.forbidden = answers.forbidden.saturating_add(usize::from(is_denied));
                answers.failed.push(format!("{pod}: {reason}"));
            }
            Err(_) => answers.failed.push(format!("{pod}: it does not answer")),
        }
    }
    answers.gpus = deduplicate(gpus);
    answers
}

/// Returns true for a running exporter.
fn can_scrape(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    phase == Some("Running")
}

struct ScrapeError {
    reason: String,
    is_denied: bool,
}

impl From<kube::Error> for ScrapeError {
    fn from(error: kube::Error) -> Self {
        match error {
            // A proxy between the API server and the exporter may also reject the request, with its
            // own message.
            kube::Error::Api(status) => Self {
                is_denied: matches!(status.reason.as_str(), "Forbidden" | "Unauthorized"),
                reason: shorten(&status.message),
            },
            error => Self {
                is_denied: false,
                reason: shorten(&error.to_string()),
            },
        }
    }
}

/// Shortens an answer, which may be a whole web page.
fn shorten(text: &str) -> String {
    const MOST: usize = 200;
    let text = sanitize(text);
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

/// Reads the metrics of one exporter through the API server's proxy.
async fn scrape_one(client: &Client, pod: &Pod) -> Result<String, ScrapeError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let path = format!(
        "/api/v1/namespaces/{namespace}/pods/{name}:{}/proxy/metrics",
        metrics_port(pod)
    );
    let request = Request::get(path).body(Vec::new());
    let request = request.map_err(kube::Error::HttpError)?;
    let stream = client.request_stream(request).await?;
    futures::pin_mut!(stream);
    let mut text = Vec::new();
    let read = stream.take(MAX_ANSWER).read_to_end(&mut text).await;
    read.map_err(|error| ScrapeError {
        reason: error.to_string(),
        is_denied: false,
    })?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the port with the name `metrics`, else the first port.
fn metrics_port(pod: &Pod) -> i32 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports: Vec<_> = containers
        .filter_map(|c| c.ports.as_ref())
        .flatten()
        .collect();
    let named = ports
        .iter()
        .find(|port| port.name.as_deref() == Some("metrics"));
    let port = named.or(ports.first()).map(|port| port.container_port);
    port.unwrap_or(PORT)
}
