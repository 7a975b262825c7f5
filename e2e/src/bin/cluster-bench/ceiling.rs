//! The ceiling: the rate at which a bare client makes the same writes as the operator.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::Semaphore;
use trellis_api::{PodGroup, QueueResources, ResolvedJob, TrainingJob, ValidatedJob};
use trellis_compiler::{CompileContext, CompileFacts, CompiledJob, PodPlacement, compile};
use trellis_e2e::namespace::TestNamespace;

use crate::bench::Bench;
use crate::jobs::{self, BenchCase};
use crate::refusal;
use crate::row::{BenchRow, median};

/// Pods of one measurement.
const PODS: usize = 600;
/// Gangs of one pod of the measurement of each kind of write.
const GANGS_PER_KIND: usize = 200;
/// Writes in flight beyond which two cores gain little.
const MAX_IN_FLIGHT: usize = 16;

/// Pods a second at best.
pub(crate) async fn measure_pod_rate(bench: &Bench) -> Result<f64> {
    let mut best = 0.0_f64;
    for in_flight in [1, 4, 8, 16, 32, 64] {
        let rate = create_pods(bench, in_flight).await?;
        best = best.max(rate);
        let name = format!("bare client, {in_flight} in flight");
        bench.print_row(&BenchRow::new(name, rate, "pods/s"));
    }
    Ok(best)
}

/// The same once more at the end of the run: how much the machine has drifted.
pub(crate) async fn remeasure_pod_rate(bench: &Bench) -> Result<()> {
    let rate = create_pods(bench, MAX_IN_FLIGHT).await?;
    let name = format!("bare client, {MAX_IN_FLIGHT} in flight, at the end");
    bench.print_row(&BenchRow::new(name, rate, "pods/s"));
    Ok(())
}

async fn create_pods(bench: &Bench, in_flight: usize) -> Result<f64> {
    let namespace = bench.create_namespace().await?;
    let compiled = create_compiled_job(&namespace, "ceiling", PODS).await?;
    let api: Api<Pod> = Api::namespaced(bench.operator_rights_client().await?, namespace.name());
    // A first request opens the connection.
    api.get_opt("none").await?;
    let pods = planned_pods(&compiled, bench.nodes);
    let start = Instant::now();
    stream::iter(pods)
        .map(|pod| {
            let api = api.clone();
            async move { api.create(&PostParams::default(), &pod).await }
        })
        .buffer_unordered(in_flight)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let rate = PODS as f64 / start.elapsed().as_secs_f64();
    bench.delete_jobs_and_pods(&namespace).await?;
    Ok(rate)
}

/// Pods a second of a bare client that makes every write of a gang: its three
/// children, its journal twice, its status, an event, and its pods, as many at
/// once as gain something.
pub(crate) async fn measure_gang_write_rate(bench: &Bench, case: BenchCase) -> Result<f64> {
    let namespace = bench.create_namespace().await?;
    let mut all = Vec::with_capacity(case.jobs);
    for i in 0..case.jobs {
        all.push(create_compiled_job(&namespace, &format!("j-{i}"), case.pods).await?);
    }
    let bare = BareClient::new(bench, &namespace).await?;
    let start = Instant::now();
    let gangs: Vec<_> = all.iter().map(|job| bare.write_gang(job)).collect();
    stream::iter(gangs)
        .buffer_unordered(MAX_IN_FLIGHT)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    let rate = case.total_pods() as f64 / start.elapsed().as_secs_f64();
    bench.delete_jobs_and_pods(&namespace).await?;
    Ok(rate)
}

/// How long a bare client takes to delete the pods of a gang and to make them again, as many at
/// once as gain something.
pub(crate) async fn measure_pod_replacement(bench: &Bench, case: BenchCase) -> Result<Duration> {
    let namespace = bench.create_namespace().await?;
    let job = create_compiled_job(&namespace, "j", case.pods).await?;
    let pods = planned_pods(&job, bench.nodes);
    let api: Api<Pod> = Api::namespaced(bench.operator_rights_client().await?, namespace.name());
    let create = async || {
        let creates = pods.iter().map(|pod| {
            let api = api.clone();
            async move { api.create(&PostParams::default(), pod).await.map(drop) }
        });
        let creates: Vec<_> = creates.collect();
        stream::iter(creates)
            .buffer_unordered(MAX_IN_FLIGHT)
            .try_for_each(|()| async { Ok(()) })
            .await
    };
    create().await?;
    let start = Instant::now();
    let at_once = DeleteParams::default().grace_period(0);
    let deletes = pods.iter().map(|pod| {
        let (api, at_once) = (api.clone(), at_once.clone());
        let name = pod.metadata.name.clone().unwrap_or_default();
        async move { api.delete(&name, &at_once).await.map(drop) }
    });
    let deletes: Vec<_> = deletes.collect();
    stream::iter(deletes)
        .buffer_unordered(MAX_IN_FLIGHT)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    create().await?;
    let took = start.elapsed();
    bench.delete_jobs_and_pods(&namespace).await?;
    Ok(took)
}

/// Milliseconds that a bare client takes for the writes of a gang up to the reason why it waits,
/// including the apply of the job: the median of several sequential runs. A running operator
/// ignores these jobs.
pub(crate) async fn measure_pending_gang_writes(bench: &Bench) -> Result<f64> {
    let namespace = bench.create_namespace().await?;
    let bare = BareClient::new(bench, &namespace).await?;
    let api: Api<TrainingJob> = namespace.api();
    let mut runs = Vec::new();
    for i in 0..refusal::RUNS {
        let mut job = jobs::bench_job(&format!("j-{i}"), 10, 8)?;
        job.spec.managed_by = Some("example.com/nobody".to_owned());
        let start = Instant::now();
        let job = api.create(&PostParams::default(), &job).await?;
        let job = compile_job(job)?;
        bare.write_children(&job).await?;
        bare.write_kind(&job, GangWrite::Status).await?;
        runs.push(start.elapsed());
    }
    bench.delete_jobs_and_pods(&namespace).await?;
    Ok(median(&runs).as_secs_f64() * 1e3)
}

/// Gangs a second of a bare client that makes every write of a queue of gangs, from
/// their applies to their ends: those above; a status and an event more for each but
/// the first `at_once`, which tell why it waits; and of the end the kubelets' of each
/// pod, and the journal, a status and an event.
pub(crate) async fn measure_queue_write_rate(
    bench: &Bench,
    case: BenchCase,
    at_once: usize,
) -> Result<f64> {
    let namespace = bench.create_namespace().await?;
    let bare = BareClient::new(bench, &namespace).await?;
    let start = Instant::now();
    let gangs =
        (0..case.jobs).map(|i| bare.write_queued_gang(&namespace, i, case.pods, i >= at_once));
    let gangs: Vec<_> = gangs.collect();
    stream::iter(gangs)
        .buffer_unordered(MAX_IN_FLIGHT)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    let rate = case.jobs as f64 / start.elapsed().as_secs_f64();
    bench.delete_jobs_and_pods(&namespace).await?;
    Ok(rate)
}

/// Measures the cost of each kind of write for a bare client, in milliseconds per gang: one kind
/// after the other, 16 writes in flight.
pub(crate) async fn measure_write_kinds(bench: &Bench) -> Result<()> {
    let namespace = bench.create_namespace().await?;
    let mut all = Vec::with_capacity(GANGS_PER_KIND);
    let start = Instant::now();
    for i in 0..GANGS_PER_KIND {
        all.push(create_compiled_job(&namespace, &format!("j-{i}"), 1).await?);
    }
    let each = |start: Instant| start.elapsed().as_secs_f64() * 1e3 / GANGS_PER_KIND as f64;
    bench.print_row(&BenchRow::new(
        "TrainingJob, one at a time",
        each(start),
        "ms",
    ));
    let bare = BareClient::new(bench, &namespace).await?;
    for kind in GangWrite::ALL {
        let start = Instant::now();
        try_join_all(all.iter().map(|job| bare.write_kind(job, kind))).await?;
        let name = format!("bare client, 16 in flight: {kind:?}");
        bench.print_row(&BenchRow::new(name, each(start), "ms a write"));
    }
    bench.delete_jobs_and_pods(&namespace).await
}

/// The writes that the operator makes for one gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GangWrite {
    Service,
    NetworkPolicy,
    PodGroup,
    JournalOpened,
    Pods,
    JournalClosed,
    Status,
    Event,
    /// The status of pods that have ended, as kubelets write it.
    PodsEnd,
    JournalFinished,
}

impl GangWrite {
    /// The kinds of writes of a placed gang, each once.
    const ALL: [Self; 8] = [
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

struct BareClient {
    client: Client,
    /// A client that may write the status of pods.
    kubelets: Client,
    in_flight: Semaphore,
    nodes: usize,
}

impl BareClient {
    async fn new(bench: &Bench, namespace: &TestNamespace) -> Result<Self> {
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

    /// All writes of a gang that has a place, in the order in which they can be made.
    async fn write_gang(&self, job: &CompiledJob) -> Result<()> {
        self.write_children(job).await?;
        self.write_pods(job).await
    }

    /// All writes of the gang of that number in a queue, its apply among them.
    async fn write_queued_gang(
        &self,
        namespace: &TestNamespace,
        number: usize,
        pods: usize,
        waits: bool,
    ) -> Result<()> {
        let turn = self.in_flight.acquire().await?;
        let job = create_compiled_job(namespace, &format!("j-{number}"), pods).await?;
        drop(turn);
        self.write_children(&job).await?;
        if waits {
            self.write_kind(&job, GangWrite::Status).await?;
            self.write_kind(&job, GangWrite::Event).await?;
        }
        self.write_pods(&job).await?;
        self.write_kind(&job, GangWrite::PodsEnd).await?;
        self.write_kind(&job, GangWrite::Status).await?;
        self.write_kind(&job, GangWrite::Event).await?;
        self.write_kind(&job, GangWrite::JournalFinished).await
    }

    async fn write_children(&self, job: &CompiledJob) -> Result<()> {
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

    /// The writes of one kind of a gang.
    async fn write_kind(&self, job: &CompiledJob, kind: GangWrite) -> Result<()> {
        let (namespace, name) = (job.job().namespace(), job.job().name());
        let (post, patch) = (PostParams::default(), PatchParams::default());
        let client = || self.client.clone();
        let services: Api<Service> = Api::namespaced(client(), namespace);
        let policies: Api<NetworkPolicy> = Api::namespaced(client(), namespace);
        let groups: Api<PodGroup> = Api::namespaced(client(), namespace);
        let jobs: Api<TrainingJob> = Api::namespaced(client(), namespace);
        let events: Api<Event> = Api::namespaced(client(), namespace);
        let pods: Api<Pod> = Api::namespaced(client(), namespace);
        let said = "a message of the usual length, more or less, with some numbers in it";
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
                let status = Patch::Merge(json!({"status": {"attempt": 1, "message": said}}));
                self.throttled_write(jobs.patch_status(name, &patch, &status))
                    .await
            }
            GangWrite::PodsEnd => {
                let names = planned_pods(job, self.nodes).into_iter();
                let pods: Api<Pod> = Api::namespaced(self.kubelets.clone(), namespace);
                let ends = names.filter_map(|pod| pod.metadata.name).map(|name| {
                    let pods = &pods;
                    self.throttled_write(async move { end_pod(pods, &name).await })
                });
                try_join_all(ends).await?;
                Ok(())
            }
            GangWrite::Event => {
                let event: Event = serde_json::from_value(json!({
                    "metadata": {"generateName": format!("{name}-")},
                    "regarding": {"kind": "TrainingJob", "name": name, "namespace": namespace},
                    "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "action": "Starting",
                    "reason": "Placed", "note": said,
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

/// A compiled job on the API server that no operator runs.
async fn create_compiled_job(
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

fn compile_job(job: TrainingJob) -> Result<CompiledJob> {
    let job = ValidatedJob::try_from(job)?;
    let job = ResolvedJob::new(job, None, "default", QueueResources::default())?;
    let found = CompileFacts {
        queue: "default",
        priority: 0,
        namespace_enforces_restricted: false,
        services: &std::collections::BTreeMap::new(),
    };
    let around = CompileContext::resolve(job.job(), found)?;
    Ok(compile(job, around, &Arc::default()))
}

/// Its pods, dealt over the nodes.
fn planned_pods(job: &CompiledJob, nodes: usize) -> Vec<Pod> {
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
