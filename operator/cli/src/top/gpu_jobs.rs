//! Reads jobs and their pods with the rights of the user.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use trellis_api::{TrainingJob, names};
use trellis_reads::pods::label;
use trellis_reads::{ApiFailure, list};

use crate::target::TargetNamespace;

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
    let job_pods = ListParams::default().labels(names::JOB);
    if everywhere {
        let (jobs, pods) = (Api::<TrainingJob>::all(client()), Api::<Pod>::all(client()));
        let none = ListParams::default();
        let (jobs, pods) = futures::join!(list(&jobs, &none), list(&pods, &job_pods));
        let all = from_all_namespaces(jobs, pods);
        let all = all.map_err(|error| site.reader.explain_core(error, "list pods"))?;
        if let Some(all) = all {
            return Ok(all);
        }
    }
    let pods: Api<Pod> = Api::namespaced(client(), &site.reader.namespace);
    let jobs = list(&site.reader.jobs(), &ListParams::default()).await;
    let jobs = jobs.map_err(|error| site.reader.explain(error, "list trainingjobs.trellis.dev"))?;
    let pods = list(&pods, &job_pods).await;
    let pods = pods.map_err(|error| site.reader.explain_core(error, "list pods"))?;
    let notes = everywhere.then(|| {
        format!(
            "only jobs of namespace {:?}: to see all jobs, you need the rights to list trainingjobs.trellis.dev and pods in all namespaces",
            site.reader.namespace
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
