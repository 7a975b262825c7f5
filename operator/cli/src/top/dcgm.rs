//! Parses the metrics of NVIDIA's DCGM exporter. Pure.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::Serialize;

use super::prometheus_text::{Sample, parse_samples};

/// Percentage of time in which at least one kernel ran.
const UTILIZATION: &str = "DCGM_FI_DEV_GPU_UTIL";
/// The same as a fraction from 0 to 1.
/// A part of a GPU (MIG) has this metric, but no [`UTILIZATION`].
const ENGINE: &str = "DCGM_FI_PROF_GR_ENGINE_ACTIVE";
/// Used memory in MiB.
const USED: &str = "DCGM_FI_DEV_FB_USED";
const FREE: &str = "DCGM_FI_DEV_FB_FREE";

/// A GPU or a part of one, and the pod that holds it.
#[derive(Serialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Gpu {
    /// Namespace of the pod that holds the GPU.
    #[serde(skip)]
    pub namespace: String,
    /// The pod that holds the GPU.
    pub pod: String,
    /// The UUID of the GPU, and the id of the part.
    pub id: String,
    /// The number of the GPU on its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
    /// Utilization in percent of the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization: Option<f64>,
    /// Used memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_used: Option<f64>,
    /// Free memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_free: Option<f64>,
}

impl Gpu {
    /// Used memory in percent.
    #[must_use]
    pub fn memory_percent(&self) -> Option<f64> {
        let (used, free) = (self.memory_used?, self.memory_free?);
        let total = used + free;
        (total > 0.0).then(|| used / total * 100.0)
    }
}

/// The parsed output of one exporter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScrapeResult {
    /// The GPUs that pods hold.
    pub gpus: Vec<Gpu>,
    /// True if the output has GPUs but no pod labels, so that the holders are unknown.
    pub names_no_pods: bool,
}

/// Parses the output of an exporter.
#[must_use]
pub fn parse_scrape(text: &str) -> ScrapeResult {
    let mut gpus: BTreeMap<(String, String, String), Gpu> = BTreeMap::new();
    let mut busy: BTreeMap<(String, String, String), f64> = BTreeMap::new();
    let samples = parse_samples(text, &[UTILIZATION, ENGINE, USED, FREE]);
    for sample in &samples {
        let Some((namespace, pod)) = pod_of_sample(sample) else {
            continue;
        };
        let id = gpu_id(sample);
        let key = (namespace.to_owned(), pod.to_owned(), id.clone());
        let gpu = gpus.entry(key.clone()).or_insert_with(|| Gpu {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            id,
            number: sample.label("gpu").map(str::to_owned),
            ..Gpu::default()
        });
        // DCGM reports very large numbers for unknown values.
        match sample.name {
            UTILIZATION => gpu.utilization = filter_range(sample.value, 100.0),
            USED => gpu.memory_used = filter_range(sample.value, 1e9),
            FREE => gpu.memory_free = filter_range(sample.value, 1e9),
            _ => {
                if let Some(part) = filter_range(sample.value, 1.0) {
                    busy.insert(key, part * 100.0);
                }
            }
        }
    }
    for (key, percent) in busy {
        if let Some(gpu) = gpus.get_mut(&key) {
            gpu.utilization = gpu.utilization.or(Some(percent));
        }
    }
    ScrapeResult {
        names_no_pods: !samples.is_empty() && gpus.is_empty() && !has_pod_labels(&samples),
        gpus: gpus.into_values().collect(),
    }
}

/// Keeps one entry for each GPU of a pod.
/// On a node with two exporters, both report the same GPU. A pod runs on one node only.
#[must_use]
pub fn deduplicate(gpus: Vec<Gpu>) -> Vec<Gpu> {
    let mut once: BTreeMap<(String, String, String), Gpu> = BTreeMap::new();
    for gpu in gpus {
        let key = (gpu.namespace.clone(), gpu.pod.clone(), gpu.id.clone());
        match once.entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(gpu);
            }
            // The second exporter may have metrics that the first one lacks.
            Entry::Occupied(mut first) => {
                let first = first.get_mut();
                first.number = first.number.take().or(gpu.number);
                first.utilization = first.utilization.or(gpu.utilization);
                first.memory_used = first.memory_used.or(gpu.memory_used);
                first.memory_free = first.memory_free.or(gpu.memory_free);
            }
        }
    }
    once.into_values().collect()
}

/// Returns true if any sample has a label for a pod.
/// The label may be empty if no pod holds the GPU.
fn has_pod_labels(samples: &[Sample<'_>]) -> bool {
    let mut all = samples.iter().flat_map(|sample| sample.labels.keys());
    all.any(|label| POD.contains(label))
}

/// Labels of the pod.
/// Prometheus renames them to the first name, the exporter writes the second, and old exporters
/// write the third.
const POD: [&str; 3] = ["exported_pod", "pod", "pod_name"];
const NAMESPACE: [&str; 3] = ["exported_namespace", "namespace", "pod_namespace"];

fn pod_of_sample<'a>(sample: &'a Sample<'_>) -> Option<(&'a str, &'a str)> {
    POD.iter()
        .zip(NAMESPACE)
        .find_map(|(pod, namespace)| Some((sample.label(namespace)?, sample.label(pod)?)))
}

fn gpu_id(sample: &Sample<'_>) -> String {
    let uuid = sample.label("UUID").or(sample.label("gpu"));
    let device = uuid.unwrap_or_default();
    match sample.label("GPU_I_ID") {
        Some(part) => format!("{device}/{part}"),
        None => device.to_owned(),
    }
}

fn filter_range(value: f64, maximum: f64) -> Option<f64> {
    (0.0..=maximum).contains(&value).then_some(value)
}
