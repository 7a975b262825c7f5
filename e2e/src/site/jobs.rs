//! TrainingJobs of a test: submit them, wait for them, inspect them.
//!
//! These functions assert what a test expects. They panic with the observed state.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{NamespaceResourceScope, Resource};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, Reason, TrainingJob, names};

use super::namespace::TestNamespace;
use crate::cluster::SCOPE_LABEL;
use crate::kubelet;
use crate::wait::{eventually, wait_for};

/// Longest time until a change is visible. An idle machine needs far less.
pub const SOON: Duration = Duration::from_secs(60);

/// The TrainingJobs of one namespace, on the nodes of one scope.
#[derive(Clone)]
pub struct TestJobs {
    client: Client,
    namespace: String,
    scope: String,
}

impl std::fmt::Debug for TestJobs {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("Jobs")
            .field(&self.namespace)
            .finish()
    }
}

impl TestJobs {
    /// Creates a handle for the jobs of `namespace`, on nodes of the scope `scope`.
    #[must_use]
    pub fn new(namespace: &TestNamespace, scope: &str) -> Self {
        Self {
            client: namespace.client(),
            namespace: namespace.name().to_owned(),
            scope: scope.to_owned(),
        }
    }

    /// The objects of one kind in the namespace, with all rights.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Returns a job with one task group. It restarts after one second. The caller may change it
    /// before [`Self::create`].
    #[must_use]
    pub fn job(&self, name: &str, replicas: u32, gpus: u32) -> Value {
        json!({
            "apiVersion": "trellis.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": {
                "framework": "PyTorch",
                "restart": {"backoffSeconds": 1, "maxBackoffSeconds": 1},
                "taskGroups": [{
                    "name": "worker",
                    "replicas": replicas,
                    "gpus": gpus,
                    "image": "registry.example/train:1.0",
                    "command": ["torchrun", "train.py"],
                    "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
                    "nodeSelector": {SCOPE_LABEL: self.scope},
                }],
            },
        })
    }

    /// Creates a job.
    ///
    /// # Errors
    ///
    /// The API server's refusal.
    ///
    /// # Panics
    ///
    /// When `job` is no TrainingJob.
    pub async fn create(&self, job: Value) -> kube::Result<TrainingJob> {
        let job: TrainingJob = serde_json::from_value(job).unwrap();
        self.api().create(&PostParams::default(), &job).await
    }

    /// Creates the job of [`Self::job`].
    ///
    /// # Panics
    ///
    /// When the API server refuses the job.
    pub async fn submit(&self, name: &str, replicas: u32, gpus: u32) -> TrainingJob {
        self.create(self.job(name, replicas, gpus)).await.unwrap()
    }

    /// Changes a job by a merge patch.
    ///
    /// # Errors
    ///
    /// The API server's refusal.
    pub async fn patch(&self, name: &str, patch: Value) -> kube::Result<TrainingJob> {
        self.api()
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
    }

    /// Deletes an object without waiting until it is gone.
    ///
    /// # Panics
    ///
    /// When the object does not exist.
    pub async fn delete<K>(&self, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
        K::DynamicType: Default,
    {
        let api: Api<K> = self.api();
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Creates a core ResourceQuota `pods` with this number of pods, and waits until the API server
    /// enforces it.
    ///
    /// # Panics
    ///
    /// When it exists already, or the API server does not enforce it [soon](SOON).
    pub async fn create_pod_quota(&self, pods: u32) {
        let quota: ResourceQuota = serde_json::from_value(json!({
            "metadata": {"name": "pods"}, "spec": {"hard": {"pods": pods.to_string()}}}))
        .unwrap();
        let quotas = self.api::<ResourceQuota>();
        quotas.create(&PostParams::default(), &quota).await.unwrap();
        wait_for(&quotas, "pods", SOON, |quota: &ResourceQuota| {
            quota.status.as_ref().is_some_and(|s| s.used.is_some())
        })
        .await
        .unwrap();
    }

    /// Ends a pod with this exit code.
    ///
    /// # Panics
    ///
    /// When the pod does not exist.
    pub async fn end_pod(&self, pod: &str, code: &str) {
        self.annotate_pod(pod, kubelet::EXIT, code).await;
    }

    /// Sets an annotation of a pod.
    ///
    /// # Panics
    ///
    /// When the pod does not exist.
    pub async fn annotate_pod(&self, pod: &str, key: &str, value: &str) {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        self.api::<Pod>()
            .patch(pod, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    /// Waits until the status of a job satisfies `condition`.
    ///
    /// # Panics
    ///
    /// When this does not happen [soon](SOON).
    pub async fn wait_for_status(
        &self,
        name: &str,
        condition: impl Fn(&TrainingJobStatus) -> bool,
    ) -> TrainingJob {
        let api = self.api::<TrainingJob>();
        let reached = wait_for(&api, name, SOON, |job: &TrainingJob| {
            job.status.as_ref().is_some_and(&condition)
        });
        match reached.await {
            Ok(job) => job,
            Err(_) => {
                let now = api.get_opt(name).await.map(|job| job.map(|job| job.status));
                panic!("{name} does not satisfy the condition after {SOON:?}: {now:#?}");
            }
        }
    }

    /// Waits until a job is in a phase.
    ///
    /// # Panics
    ///
    /// When it has not become so [soon](SOON).
    pub async fn wait_for_phase(&self, name: &str, phase: JobPhase) -> TrainingJob {
        self.wait_for_status(name, |status| status.phase == Some(phase))
            .await
    }

    /// Waits until a job is in a phase for this reason. The job may be in this phase for another
    /// reason before, because the operator watches jobs and the objects around them separately.
    ///
    /// # Panics
    ///
    /// When this does not happen [soon](SOON).
    pub async fn wait_for_phase_and_reason(
        &self,
        name: &str,
        phase: JobPhase,
        reason: Reason,
    ) -> TrainingJob {
        self.wait_for_status(name, |status| {
            status.phase == Some(phase) && status.reason == Some(reason)
        })
        .await
    }

    /// Waits until a job is queued for this reason.
    ///
    /// # Panics
    ///
    /// When it has not become so [soon](SOON).
    pub async fn wait_until_queued_for(&self, name: &str, reason: Reason) -> TrainingJob {
        self.wait_for_phase_and_reason(name, JobPhase::Queued, reason)
            .await
    }

    /// Waits until a job runs in this attempt.
    ///
    /// # Panics
    ///
    /// When this does not happen [soon](SOON).
    pub async fn wait_for_running_attempt(&self, name: &str, attempt: i64) -> TrainingJob {
        self.wait_for_status(name, |status| {
            status.phase == Some(JobPhase::Running) && status.attempt == Some(attempt)
        })
        .await
    }

    /// Makes the pods of a job take this time to stop, such as `"5s"`.
    ///
    /// # Panics
    ///
    /// When the API server does not answer.
    pub async fn delay_pod_stop(&self, name: &str, time: &str) {
        let patch = json!({"metadata": {"annotations": {kubelet::STOP_AFTER: time}}});
        for pod in self.list_pods(name).await {
            self.api::<Pod>()
                .patch(
                    &pod.name_any(),
                    &PatchParams::default(),
                    &Patch::Merge(&patch),
                )
                .await
                .unwrap();
        }
    }

    /// Returns the pods of a job.
    ///
    /// # Panics
    ///
    /// When the API server does not answer.
    pub async fn list_pods(&self, name: &str) -> Vec<Pod> {
        self.try_list_pods(name).await.unwrap()
    }

    async fn try_list_pods(&self, name: &str) -> kube::Result<Vec<Pod>> {
        let params = ListParams::default().labels(&format!("{}={name}", names::JOB));
        Ok(self.api::<Pod>().list(&params).await?.items)
    }

    /// Waits until a job has `count` pods.
    ///
    /// # Panics
    ///
    /// When this does not happen [soon](SOON).
    pub async fn wait_for_pod_count(&self, name: &str, count: usize) {
        eventually(SOON, || async {
            let now = self.try_list_pods(name).await?.len();
            ensure!(now == count, "{now} pods of {name}, not {count}");
            Ok(())
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Waits until a gang is complete ([`Self::check_whole_gang`]).
    ///
    /// # Panics
    ///
    /// When this does not happen [soon](SOON); the message has the reason.
    pub async fn wait_for_whole_gang(&self, name: &str, count: usize) -> Vec<Pod> {
        eventually(SOON, || self.check_whole_gang(name, count))
            .await
            .unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Returns the pods of a complete gang: `count` pods of the plan in the journal, each bound to
    /// a node, and none being deleted.
    ///
    /// # Errors
    ///
    /// When the gang is not complete, with the reason.
    pub async fn check_whole_gang(&self, name: &str, count: usize) -> Result<Vec<Pod>> {
        let group = self.api::<PodGroup>().get(name).await?;
        let journal = group.status.unwrap_or_default();
        ensure!(
            journal.phase == Some(PodGroupPhase::Placed),
            "the journal of {name} is {journal:?}"
        );
        let plan = journal.plan.unwrap_or_default().hash;
        let pods = self.try_list_pods(name).await?;
        ensure!(pods.len() == count, "{} pods of {name}", pods.len());
        for pod in &pods {
            let (meta, spec) = (&pod.metadata, pod.spec.clone().unwrap_or_default());
            ensure!(
                pod.annotations().get(names::PLAN) == Some(&plan)
                    && spec.node_name.is_some()
                    && meta.deletion_timestamp.is_none(),
                "{} is not a pod of the plan {plan:?}: {meta:?}",
                pod.name_any()
            );
        }
        Ok(pods)
    }
}

/// Returns the uids of pods.
#[must_use]
pub fn pod_uids(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().filter_map(kube::ResourceExt::uid).collect()
}

/// Returns the phase of a job, if it has one.
#[must_use]
pub fn phase(job: &TrainingJob) -> Option<JobPhase> {
    job.status.as_ref().and_then(|s| s.phase)
}

/// Returns the reason of a job. Empty: it has none.
#[must_use]
pub fn reason(job: &TrainingJob) -> &'static str {
    job.status
        .as_ref()
        .and_then(|s| s.reason)
        .map_or("", Reason::as_str)
}

/// Returns the full message of a job. Empty: it has none.
#[must_use]
pub fn message(job: &TrainingJob) -> String {
    let status = job.status.as_ref();
    status.map_or_else(String::new, |s| s.full_message().to_owned())
}
