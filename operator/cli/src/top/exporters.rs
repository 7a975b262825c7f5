//! Reads jobs, pods and the metrics of the exporters on their nodes.
//! All reads use the rights of the user.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{AsyncReadExt as _, StreamExt as _};
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::timeout;
use trellis_api::{TrainingJob, names};

use super::dcgm::{Gpu, deduplicate, parse_scrape};
use crate::cluster::{ApiFailure, ErrorHints, is_simulated, list};
use crate::output::sanitize;
use crate::pods::label;
use crate::status::object_read_error;
use crate::target::TargetNamespace;

/// Labels of the exporter's own chart, and of the GPU operator.
const SELECTORS: [&str; 2] = [
    "app.kubernetes.io/name=dcgm-exporter",
    "app=nvidia-dcgm-exporter",
];
/// The exporter's port if the pod has none.
const PORT: i32 = 9400;
/// Greatest number of exporters that are read at the same time.
const MAX_PARALLEL: usize = 16;
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);
/// Message that explains why GPUs of simulated nodes are not measured.
const SIMULATED: &str =
    "the nodes of these jobs are simulated, and simulated GPUs have no utilization";
/// Greatest size of an answer in bytes.
/// 16 GPUs with all metrics need a tenth of it.
const MAX_ANSWER: u64 = 8 * 1024 * 1024;

/// The jobs, and their pods.
#[derive(Debug, Default)]
pub struct GpuJobs {
    pub jobs: Vec<TrainingJob>,
    pub pods: Vec<Pod>,
    pub notes: Vec<String>,
}

impl GpuJobs {
    /// Keeps one job.
    pub fn retain_job(&mut self, name: &str) {
        self.jobs
            .retain(|job| job.metadata.name.as_deref() == Some(name));
        self.pods
            .retain(|pod| label(&pod.metadata, names::JOB) == Some(name));
    }

    /// The nodes of the pods.
    pub fn node_names(&self) -> BTreeSet<String> {
        let specs = self.pods.iter().filter_map(|pod| pod.spec.as_ref());
        specs.filter_map(|spec| spec.node_name.clone()).collect()
    }
}

/// Reads jobs and pods, from all namespaces if the user may.
///
/// # Errors
/// If even the jobs and pods of the one namespace cannot be read.
pub async fn list_gpu_jobs(site: &TargetNamespace, everywhere: bool) -> anyhow::Result<GpuJobs> {
    let client = || site.cluster.client().clone();
    let ours = ListParams::default().labels(names::JOB);
    if everywhere {
        let (jobs, pods) = (Api::<TrainingJob>::all(client()), Api::<Pod>::all(client()));
        let none = ListParams::default();
        let (jobs, pods) = futures::join!(list(&jobs, &none), list(&pods, &ours));
        let all = from_all_namespaces(jobs, pods);
        let all = all.map_err(|error| object_read_error(site, error, "list pods"))?;
        if let Some(all) = all {
            return Ok(all);
        }
    }
    let pods: Api<Pod> = Api::namespaced(client(), &site.namespace);
    let jobs = list(&site.jobs(), &ListParams::default()).await;
    let jobs = jobs.map_err(|error| site.explain(error, "list trainingjobs.trellis.dev"))?;
    let pods = list(&pods, &ours).await;
    let pods = pods.map_err(|error| object_read_error(site, error, "list pods"))?;
    let notes = everywhere.then(|| {
        format!(
            "only jobs of namespace {:?}: to see all jobs, you need the rights to list trainingjobs.trellis.dev and pods in all namespaces",
            site.namespace
        )
    });
    Ok(GpuJobs {
        jobs: jobs.unwrap_or_default(),
        pods: pods.unwrap_or_default(),
        notes: notes.into_iter().collect(),
    })
}

/// Returns the jobs and pods of all namespaces.
/// Returns None if the user may not read all namespaces.
///
/// # Errors
/// If the read fails for any other reason. A partial result would look complete.
pub(super) fn from_all_namespaces(
    jobs: Result<Option<Vec<TrainingJob>>, ApiFailure>,
    pods: Result<Option<Vec<Pod>>, ApiFailure>,
) -> Result<Option<GpuJobs>, ApiFailure> {
    match (jobs, pods) {
        (Ok(jobs), Ok(pods)) => Ok(Some(GpuJobs {
            jobs: jobs.unwrap_or_default(),
            pods: pods.unwrap_or_default(),
            notes: Vec::new(),
        })),
        (Err(error), _) | (_, Err(error)) if !error.is_denied() => Err(error),
        _ => Ok(None),
    }
}

/// Result of the search for exporters.
#[derive(Debug)]
pub enum ExporterSearch {
    /// The pods of the exporters.
    Exporters(Vec<Pod>),
    /// The search has found none.
    Missing(MissingExporter),
}

/// A search that has found no exporter.
#[derive(Debug)]
pub struct MissingExporter {
    /// The searched namespaces: for example, `any namespace`.
    search_scope: String,
    /// The searched labels.
    selectors: Vec<String>,
}

impl MissingExporter {
    /// A search of these namespaces by these labels.
    pub fn new(place: &str, selectors: &[&str]) -> Self {
        Self {
            search_scope: place.to_owned(),
            selectors: selectors.iter().map(|&one| one.to_owned()).collect(),
        }
    }

    /// Returns the fact and the fix.
    /// `are_simulated`: the nodes of the jobs are simulated.
    pub fn explain(&self, are_simulated: bool) -> String {
        let Self {
            search_scope: place,
            selectors,
        } = self;
        if are_simulated {
            return format!("no DCGM exporter in {place}: {SIMULATED}");
        }
        format!(
            "no DCGM exporter in {place} ({}): install NVIDIA's GPU operator, or its chart dcgm-exporter; select the pods of another exporter with --exporter-selector",
            selectors.join(" or ")
        )
    }
}

/// Finds the exporters.
///
/// # Errors
/// If pods cannot be listed in the searched namespaces.
pub async fn find_exporters(
    site: &TargetNamespace,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> anyhow::Result<ExporterSearch> {
    let client = site.cluster.client().clone();
    let pods: Api<Pod> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let selectors = match &selector {
        Some(one) => std::slice::from_ref(one),
        None => &SELECTORS[..],
    };
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for selector in selectors {
        let labels = ListParams::default().labels(selector);
        let some = list(&pods, &labels)
            .await
            .map_err(|error| search_error(error, namespace))?;
        let new = some.into_iter().flatten();
        found.extend(new.filter(|pod| seen.insert(pod.metadata.uid.clone())));
    }
    if !found.is_empty() {
        return Ok(ExporterSearch::Exporters(found));
    }
    let place = match namespace {
        Some(namespace) => format!("namespace {namespace:?}"),
        None => "any namespace".to_owned(),
    };
    Ok(ExporterSearch::Missing(MissingExporter::new(
        &place, selectors,
    )))
}

fn search_error(error: ApiFailure, namespace: Option<&str>) -> anyhow::Error {
    let rights = match namespace {
        None => "to find the DCGM exporter, you need the right to list pods in all namespaces: or name its namespace with --exporter-namespace".to_owned(),
        Some(namespace) => format!("to read the DCGM exporter, you need the rights to list pods and to get pods/proxy in namespace {namespace:?}"),
    };
    error.explain(&ErrorHints {
        rights,
        without_cluster: None,
    })
}

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
        let blind = (self.without_pod_labels > 0).then(|| {
            format!(
                "{} DCGM exporters do not report which pod holds a GPU: start them with DCGM_EXPORTER_KUBERNETES=true",
                self.without_pod_labels
            )
        });
        let elsewhere = self.is_on_other_nodes.then(|| {
            let why = match are_simulated {
                true => SIMULATED,
                false => "look at the nodeSelector and tolerations of its DaemonSet",
            };
            format!("no DCGM exporter runs on a node of these jobs: {why}")
        });
        failed.into_iter().chain(blind).chain(elsewhere).collect()
    }
}

/// Returns true if all these nodes are simulated.
/// Returns false for an empty set.
pub async fn are_simulated(client: &Client, nodes: &BTreeSet<String>) -> bool {
    let asked = nodes.iter().map(|node| is_simulated(client, node));
    let mut asked = futures::stream::iter(asked).buffered(MAX_PARALLEL);
    while let Some(is_simulated) = asked.next().await {
        if !is_simulated {
            return false;
        }
    }
    !nodes.is_empty()
}

/// Reads the exporters on these nodes.
pub async fn scrape(client: &Client, exporters: &[Pod], nodes: &BTreeSet<String>) -> ScrapeResults {
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let meant: Vec<_> = exporters
        .iter()
        .filter(|pod| can_scrape(pod) && node(pod).is_some_and(|node| nodes.contains(&node)))
        .cloned()
        .collect();
    let mut answers = ScrapeResults {
        exporters: meant.len(),
        is_on_other_nodes: meant.is_empty() && !nodes.is_empty(),
        ..ScrapeResults::default()
    };
    let asked = futures::stream::iter(meant.into_iter().map(|pod| {
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
    let mut asked = asked.buffered(MAX_PARALLEL);
    let mut gpus = Vec::new();
    while let Some((pod, answer)) = asked.next().await {
        match answer {
            Ok(Ok(text)) => {
                let said = parse_scrape(&text);
                answers.without_pod_labels = answers
                    .without_pod_labels
                    .saturating_add(usize::from(said.names_no_pods));
                gpus.extend(said.gpus);
            }
            Ok(Err(ScrapeError {
                reason: why,
                is_denied,
            })) => {
                answers.forbidden = answers.forbidden.saturating_add(usize::from(is_denied));
                answers.failed.push(format!("{pod}: {why}"));
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
