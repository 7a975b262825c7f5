//! The measured jobs.

use std::str::FromStr;

use anyhow::{Context, Error, Result};
use serde_json::json;
use trellis_api::TrainingJob;

/// A number of jobs, each with the same number of pods of one GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BenchCase {
    pub(crate) jobs: usize,
    pub(crate) pods: usize,
}

impl BenchCase {
    /// Returns the number of pods of all jobs.
    pub(crate) fn total_pods(self) -> usize {
        self.jobs * self.pods
    }

    pub(crate) fn name(self) -> String {
        format!("{} x {} pods of 1 GPU", self.jobs, self.pods)
    }
}

impl FromStr for BenchCase {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (jobs, pods) = text.split_once('x').context("write it as 50x20")?;
        Ok(Self {
            jobs: jobs.parse()?,
            pods: pods.parse()?,
        })
    }
}

/// Returns a job with one task group.
pub(crate) fn bench_job(name: &str, pods: usize, gpus: usize) -> Result<TrainingJob> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {"framework": "PyTorch", "taskGroups": [{
            "name": "worker", "replicas": pods, "gpus": gpus, "image": "train:1",
            "command": ["torchrun", "train.py"], "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
        }]},
    }))?)
}
