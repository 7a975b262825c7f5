//! Computes how jobs use the GPUs that they hold. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;
use trellis_api::{TrainingJob, names};
use trellis_reads::pods::{label, pod_rank};

use super::dcgm::Gpu;

/// A GPU below this percentage is idle.
pub const IDLE_PERCENT: f64 = 5.0;

/// A job that holds GPUs.
#[derive(Serialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GpuUsage {
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Number of GPUs that its pods hold.
    pub gpus: u32,
    /// Number of GPUs with a measured utilization.
    pub measured: u32,
    /// Number of measured GPUs that are idle: busy for less than 5 % of the time.
    pub idle: u32,
    /// Mean utilization in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Least utilization in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<f64>,
    /// Used memory in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<f64>,
    /// The wasted GPUs: the sum of the unused fraction of each GPU.
    pub waste: f64,
    /// Number of nodes of its pods.
    pub nodes: usize,
    /// Each of its GPUs.
    pub each: Vec<JobGpu>,
}

/// A GPU of a job.
#[derive(Serialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct JobGpu {
    /// Rank of the pod that holds the GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The GPU.
    #[serde(flatten)]
    pub gpu: Gpu,
}

/// Computes the usage of the jobs that hold GPUs, the most wasteful first.
#[must_use]
pub fn measure_usage(jobs: &[TrainingJob], pods: &[Pod], gpus: &[Gpu]) -> Vec<GpuUsage> {
    let mut by_pod: BTreeMap<(&str, &str), Vec<&Gpu>> = BTreeMap::new();
    for gpu in gpus {
        let key = (gpu.namespace.as_str(), gpu.pod.as_str());
        by_pod.entry(key).or_default().push(gpu);
    }
    let by_name: BTreeMap<_, _> = jobs
        .iter()
        .map(|job| {
            (
                (
                    job.metadata.namespace.as_deref(),
                    job.metadata.name.as_deref(),
                ),
                job,
            )
        })
        .collect();
    let mut all: BTreeMap<(String, String), (GpuUsage, BTreeSet<&str>)> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| holds_devices(pod)) {
        let meta = &pod.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let Some(name) = label(meta, names::JOB) else {
            continue;
        };
        let job = by_name.get(&(Some(namespace), Some(name))).copied();
        let gpu_count = gpu_request(pod, job);
        if gpu_count == 0 {
            continue;
        }
        let key = (namespace.to_owned(), name.to_owned());
        let (usage, nodes) = all.entry(key).or_insert_with(|| {
            let usage = GpuUsage {
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                queue: job.and_then(|job| job.status.as_ref()?.queue.clone()),
                ..GpuUsage::default()
            };
            (usage, BTreeSet::new())
        });
        usage.gpus = usage.gpus.saturating_add(gpu_count);
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        nodes.extend(node);
        let own = (namespace, meta.name.as_deref().unwrap_or_default());
        usage
            .each
            .extend(by_pod.remove(&own).into_iter().flatten().map(|gpu| JobGpu {
                rank: pod_rank(pod),
                node: node.map(str::to_owned),
                gpu: gpu.clone(),
            }));
    }
    let mut all: Vec<_> = all
        .into_values()
        .map(|(usage, nodes)| summarize(usage, nodes.len()))
        .collect();
    // The sort is stable: jobs with equal waste keep the order of namespace and name.
    all.sort_by(|a, b| b.waste.total_cmp(&a.waste));
    all
}

/// Returns true for a pod that holds its devices.
/// It holds them from its binding to a node until its end.
fn holds_devices(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let is_bound = pod
        .spec
        .as_ref()
        .is_some_and(|spec| spec.node_name.is_some());
    is_bound && !matches!(phase, Some("Succeeded" | "Failed"))
}

/// Returns the number of GPUs of a pod, by its task group.
/// If the user may not read the job, it is the number of NVIDIA devices in the pod's limits.
fn gpu_request(pod: &Pod, job: Option<&TrainingJob>) -> u32 {
    if let Some(group) = job.and_then(|job| job.spec.group(label(&pod.metadata, names::GROUP)?)) {
        return group.gpus();
    }
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let limits = containers.filter_map(|c| c.resources.as_ref()?.limits.as_ref());
    let devices = limits
        .flatten()
        .filter(|(name, _)| name.starts_with("nvidia.com/"));
    devices
        .filter_map(|(_, amount)| amount.0.parse::<u32>().ok())
        .fold(0, u32::saturating_add)
}

fn summarize(mut usage: GpuUsage, nodes: usize) -> GpuUsage {
    usage.nodes = nodes;
    usage
        .each
        .sort_by_key(|gpu| (gpu.rank, gpu.gpu.number.clone(), gpu.gpu.id.clone()));
    let busy: Vec<f64> = usage
        .each
        .iter()
        .filter_map(|gpu| gpu.gpu.utilization)
        .collect();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    usage.measured = count(busy.len());
    usage.idle = count(
        busy.iter()
            .filter(|percent| **percent < IDLE_PERCENT)
            .count(),
    );
    let sum: f64 = busy.iter().sum();
    usage.waste = busy.iter().map(|percent| (100.0 - percent) / 100.0).sum();
    if !busy.is_empty() {
        usage.mean = Some(sum / f64::from(usage.measured));
        usage.least = busy.iter().copied().min_by(f64::total_cmp);
    }
    let memory: Vec<f64> = usage
        .each
        .iter()
        .filter_map(|gpu| gpu.gpu.memory_percent())
        .collect();
    if !memory.is_empty() {
        usage.memory = Some(memory.iter().sum::<f64>() / f64::from(count(memory.len())));
    }
    usage
}
