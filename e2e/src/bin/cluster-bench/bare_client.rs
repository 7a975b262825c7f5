//! A client that makes the operator's writes without the operator.

use std::sync::Arc;

use anyhow::Result;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::Semaphore;
use trellis_api::{PodGroup, QueueResources, ResolvedJob, TrainingJob, ValidatedJob};
use trellis_compiler::{CompileContext, CompileFacts, CompiledJob, PodPlacement, compile};
use trellis_e2e::site::namespace::TestNamespace;

use crate::bench::Bench;
use crate::jobs;

/// Number of writes in flight above which two cores gain little.
pub(crate) const MAX_IN_FLIGHT: usize = 16;

/// The writes that the operator makes for one gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GangWrite {
    Service,
    NetworkPolicy,
    PodGroup,
    JournalOpened,
    Pods,
    JournalClosed,
    Status,
    Event,
    /// The status of ended pods, as kubelets write it.
    PodsEnd,
    JournalFinished,
}

impl GangWrite {
    /// Each kind of write of a placed gang.
    pub(crate) const ALL: [Self; 8] = [
        Self::Service,
        Self::NetworkPolicy,
        Self::PodGroup,
        Self::JournalOpened,
        Self::Pods,
        Self::JournalClosed,
        Self::Status,
        Self::Event,
    ];
}

pub(crate) struct BareClient {
    client: Client,
    /// A client that may write the status of pods.
    kubelets: Client,
    in_flight: Semaphore,
    nodes: usize,
}

impl BareClient {
    pub(crate) async fn new(bench: &Bench, namespace: &TestNamespace) -> Result<Self> {
        Ok(Self {
            client: bench.operator_rights_client().await?,
            kubelets: namespace.client(),
            in_flight: Semaphore::new(MAX_IN_FLIGHT),
            nodes: bench.nodes,
        })
    }

    async fn throttled_write<T>(&self, write: impl Future<Output = kube::Result<T>>) -> Result<()> {
        let _turn = self.in_flight.acquire().await?;
        write.await?;
        Ok(())
    }

    /// Makes all writes of a placed gang, in their required order.
    pub(crate) async fn write_gang(&self, job: &CompiledJob) -> Result<()> {
        self.write_children(job).await?;
        self.write_pods(job).await
    }

    /// Makes all writes of one gang in a queue, including its creation.
    pub(crate) async fn write_queued_gang(
        &self,
        namespace: &TestNamespace,
        number: usize,
        pods: usize,
        is_blocking: bool,
    ) -> Result<()> {
        let turn = self.in_flight.acquire().await?;
        let job = create_compiled_job(namespace, &format!("j-{number}"), pods).await?;
        drop(turn);
        self.write_children(&job).await?;
        if is_blocking {
            self.write_kind(&job, GangWrite::Status).await?;
            self.write_kind(&job, GangWrite::Event).await?;
        }
        self.write_pods(&job).await?;
        self.write_kind(&job, GangWrite::PodsEnd).await?;
        self.write_kind(&job, GangWrite::Status).await?;
        self.write_kind(&job, GangWrite::Event).await?;
        self.write_kind(&job, GangWrite::JournalFinished).await
    }

    pub(crate) async fn write_children(&self, job: &CompiledJob) -> Result<()> {
        tokio::try_join!(
            self.write_kind(job, GangWrite::Service),
            self.write_kind(job, GangWrite::NetworkPolicy),
            self.write_kind(job, GangWrite::PodGroup),
        )?;
        Ok(())
    }

    async fn write_pods(&self, job: &CompiledJob) -> Result<()> {
        self.write_kind(job, GangWrite::JournalOpened).await?;
        self.write_kind(job, GangWrite::Pods).await?;
        self.write_kind(job, GangWrite::JournalClosed).await?;
        self.write_kind(job, GangWrite::Status).await?;
        self.write_kind(job, GangWrite::Event).await
    }

    /// Makes the writes of one kind for a gang.
    pub(crate) async fn write_kind(&self, job: &CompiledJob, kind: GangWrite) -> Result<()> {
        let (namespace, name) = (job.job().namespace(), job.job().name());
        let (post, patch) = (PostParams::default(), PatchParams::default());
        let client = || self.client.clone();
        let services: Api<Service> = Api::namespaced(client(), namespace);
        let policies: Api<NetworkPolicy> = Api::namespaced(client(), namespace);
        let groups: Api<PodGroup> = Api::namespaced(client(), namespace);
        let jobs: Api<TrainingJob> = Api::namespaced(client(), namespace);
        let events: Api<Event> = Api::namespaced(client(), namespace);
        let pods: Api<Pod> = Api::namespaced(client(), namespace);
        let sample_message = "a message of the usual length, more or less, with some numbers in it";
        match kind {
            GangWrite::Service => {
                self.throttled_write(services.create(&post, &job.services()[0]))
                    .await
            }
            GangWrite::NetworkPolicy => {
                self.throttled_write(policies.create(&post, &job.network_policy()))
                    .await
            }
            GangWrite::PodGroup => {
                self.throttled_write(groups.create(&post, &job.pod_group()))
                    .await
            }
            GangWrite::JournalOpened | GangWrite::JournalClosed | GangWrite::JournalFinished => {
                let phase = match kind {
                    GangWrite::JournalOpened => "Committing",
                    GangWrite::JournalClosed => "Placed",
                    _ => "Finished",
                };
                let journal = Patch::Merge(json!({"status": {"phase": phase, "epoch": 1}}));
                self.throttled_write(groups.patch_status(name, &patch, &journal))
                    .await
            }
            GangWrite::Pods => {
                let all = planned_pods(job, self.nodes);
                try_join_all(
                    all.iter()
                        .map(|pod| self.throttled_write(pods.create(&post, pod))),
                )
                .await?;
                Ok(())
            }
            GangWrite::Status => {
                let status =
                    Patch::Merge(json!({"status": {"attempt": 1, "message": sample_message}}));
                self.throttled_write(jobs.patch_status(name, &patch, &status))
                    .await
            }
            GangWrite::PodsEnd => {
                let names = planned_pods(job, self.nodes).into_iter();
                let pods: Api<Pod> = Api::namespaced(self.kubelets.clone(), namespace);
                let updates = names.filter_map(|pod| pod.metadata.name).map(|name| {
                    let pods = &pods;
                    self.throttled_write(async move { end_pod(pods, &name).await })
                });
                try_join_all(updates).await?;
                Ok(())
            }
            GangWrite::Event => {
                let event: Event = serde_json::from_value(json!({
                    "metadata": {"generateName": format!("{name}-")},
                    "regarding": {"kind": "TrainingJob", "name": name, "namespace": namespace},
                    "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "action": "Starting",
                    "reason": "Placed", "note": sample_message,
                    "reportingController": "bare", "reportingInstance": "bare",
                }))?;
                self.throttled_write(events.create(&post, &event)).await
            }
        }
    }
}

/// Writes the status that a kubelet writes when a pod has succeeded.
pub(crate) async fn end_pod(pods: &Api<Pod>, name: &str) -> kube::Result<()> {
    let status = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status(name, &PatchParams::default(), &status)
        .await?;
    Ok(())
}

/// Creates a job on the API server and compiles it. No operator runs it.
pub(crate) async fn create_compiled_job(
    namespace: &TestNamespace,
    name: &str,
    pods: usize,
) -> Result<CompiledJob> {
    let api: Api<TrainingJob> = namespace.api();
    let job = api
        .create(&PostParams::default(), &jobs::bench_job(name, pods, 1)?)
        .await?;
    compile_job(job)
}

pub(crate) fn compile_job(job: TrainingJob) -> Result<CompiledJob> {
    let job = ValidatedJob::try_from(job)?;
    let job = ResolvedJob::new(job, None, "default", QueueResources::default())?;
    let found = CompileFacts {
        queue: "default",
        priority: 0,
        namespace_enforces_restricted: false,
        services: &std::collections::BTreeMap::new(),
    };
    let context = CompileContext::resolve(job.job(), found)?;
    Ok(compile(job, context, &Arc::default()))
}

/// Returns the pods of the job, distributed over the nodes.
pub(crate) fn planned_pods(job: &CompiledJob, nodes: usize) -> Vec<Pod> {
    let mut pods = Vec::new();
    for group in job.groups() {
        let template = group.pod_builder();
        for index in 0..group.replicas() {
            let node = format!("gpu-{}", index as usize % nodes);
            pods.push(template.pod(
                index,
                &PodPlacement {
                    attempt: 1,
                    plan: "0000000000000000",
                    node: &node,
                    ..PodPlacement::UNPLACED
                },
            ));
        }
    }
    pods
}
