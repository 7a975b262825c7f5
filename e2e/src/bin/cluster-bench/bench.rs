//! The measured cluster, and the counting of its pods.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use trellis_api::TrainingJob;
use trellis_e2e::cluster::{NodeSet, NodeTemplate};
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions, Kubelets};
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::site::namespace::TestNamespace;

use crate::jobs::{self, BenchCase};
use crate::row::BenchRow;

/// Longest time of one measurement.
pub(crate) const MEASUREMENT_TIMEOUT: Duration = Duration::from_secs(180);
/// Number of concurrent applies, as in a pipeline that delivers many jobs.
pub(crate) const CONCURRENT_APPLIES: usize = 8;
/// Lease duration of each operator. It is short, because the next operator waits for its end;
/// docs/benchmarks.md reports the start without this wait.
const LEASE_SECONDS: u64 = 2;

/// A control plane with nodes and without kubelets.
pub(crate) struct Bench {
    pub(crate) control_plane: ControlPlane,
    pub(crate) nodes: usize,
    pub(crate) program: PathBuf,
    json: bool,
    _nodes: NodeSet,
}

impl Bench {
    pub(crate) async fn start(nodes: usize, json: bool) -> Result<Self> {
        let control_plane = ControlPlane::start(ControlPlaneOptions {
            kubelets: Kubelets::None,
            ..operator::control_plane_options()?
        })
        .await?;
        operator::install_chart_objects(&control_plane).await?;
        let set = NodeTemplate::new(nodes)
            .gpus(8)
            .create(&control_plane)
            .await?;
        Ok(Self {
            control_plane,
            nodes,
            program: std::env::current_exe()?,
            json,
            _nodes: set,
        })
    }

    pub(crate) fn print_row(&self, row: &BenchRow) {
        row.print(self.json);
    }

    pub(crate) async fn create_namespace(&self) -> Result<TestNamespace> {
        TestNamespace::create(&self.control_plane, "bench").await
    }

    /// Returns a client with the operator's rights, so that the API server does the same work to
    /// authorize it.
    pub(crate) async fn operator_rights_client(&self) -> Result<Client> {
        self.control_plane
            .service_account_client(operator::NAMESPACE, operator::SERVICE_ACCOUNT)
            .await
    }

    /// Starts an operator and waits until it has placed a first gang. Then it leads and has listed
    /// all kinds.
    pub(crate) async fn start_operator(&self) -> Result<Operator> {
        self.start_operator_with(&LaunchOptions::with_name("operator"))
            .await
    }

    /// Like `start_operator`, with a launch configuration.
    pub(crate) async fn start_operator_with(&self, launch: &LaunchOptions) -> Result<Operator> {
        let operator = self.launch_operator(launch, &self.operator_kubeconfig().await?)?;
        self.place_first_gang().await.context(operator.log_tail())?;
        Ok(operator)
    }

    /// Starts an operator and does not wait.
    pub(crate) async fn start_cold_operator(&self) -> Result<Operator> {
        self.launch_operator(
            &LaunchOptions::with_name("operator"),
            &self.operator_kubeconfig().await?,
        )
    }

    /// Starts an operator behind a proxy, with the kubeconfig of the proxy.
    pub(crate) async fn start_operator_with_kubeconfig(
        &self,
        kubeconfig: &Path,
    ) -> Result<Operator> {
        let operator = self.launch_operator(&LaunchOptions::with_name("operator"), kubeconfig)?;
        self.place_first_gang().await.context(operator.log_tail())?;
        Ok(operator)
    }

    async fn operator_kubeconfig(&self) -> Result<PathBuf> {
        operator::kubeconfig(&self.control_plane, operator::POD).await
    }

    fn launch_operator(&self, launch: &LaunchOptions, kubeconfig: &Path) -> Result<Operator> {
        let launch = launch.clone().lease_seconds(LEASE_SECONDS);
        Operator::launch_with_options(&self.control_plane, &self.program, kubeconfig, &launch)
    }

    async fn place_first_gang(&self) -> Result<()> {
        let namespace = self.create_namespace().await?;
        let counter = PodCounter::start(&namespace).await?;
        let jobs: Api<TrainingJob> = namespace.api();
        jobs.create(&PostParams::default(), &jobs::bench_job("warm-up", 1, 1)?)
            .await?;
        counter.wait_for_count(1).await?;
        self.delete_jobs_and_pods(&namespace).await
    }

    /// Applies a case and waits for its last pod.
    pub(crate) async fn place_jobs(
        &self,
        namespace: &TestNamespace,
        case: BenchCase,
    ) -> Result<Duration> {
        let api: Api<TrainingJob> = namespace.api();
        let counter = PodCounter::start(namespace).await?;
        let start = Instant::now();
        let mut applies = Vec::with_capacity(case.jobs);
        for i in 0..case.jobs {
            let job = jobs::bench_job(&format!("j-{i}"), case.pods, 1)?;
            let api = api.clone();
            applies.push(async move { api.create(&PostParams::default(), &job).await });
        }
        let applied = stream::iter(applies)
            .buffer_unordered(CONCURRENT_APPLIES)
            .try_for_each(|_| async { Ok(()) });
        let (applied, last) = tokio::join!(applied, counter.wait_for_count(case.total_pods()));
        applied?;
        Ok(last?.duration_since(start))
    }

    /// Removes all jobs and pods, and waits until they are gone.
    pub(crate) async fn delete_jobs_and_pods(&self, namespace: &TestNamespace) -> Result<()> {
        let jobs: Api<TrainingJob> = namespace.api();
        jobs.delete_collection(&DeleteParams::default(), &ListParams::default())
            .await?;
        let pods: Api<Pod> = namespace.api();
        trellis_e2e::wait::eventually(MEASUREMENT_TIMEOUT, || async {
            // No kubelet confirms deletions here, so each deletion is forced.
            pods.delete_collection(
                &DeleteParams::default().grace_period(0),
                &ListParams::default(),
            )
            .await?;
            let remaining = pods
                .list_metadata(&ListParams::default())
                .await?
                .items
                .len();
            if remaining > 0 {
                bail!("{remaining} pods still exist");
            }
            Ok(())
        })
        .await
    }
}

/// Counts the pods that appear, with a watch on their metadata.
pub(crate) struct PodCounter {
    pods: Api<Pod>,
    version: String,
}

impl PodCounter {
    pub(crate) async fn start(namespace: &TestNamespace) -> Result<Self> {
        let pods: Api<Pod> = namespace.api();
        let list = pods.list_metadata(&ListParams::default()).await?;
        Ok(Self {
            pods,
            version: list.metadata.resource_version.unwrap_or_default(),
        })
    }

    /// Returns the time at which the last of `expected` pods appeared.
    pub(crate) async fn wait_for_count(&self, expected: usize) -> Result<Instant> {
        let watch = async {
            let params = WatchParams::default().timeout(280);
            let mut events = self
                .pods
                .watch_metadata(&params, &self.version)
                .await?
                .boxed();
            let mut count = 0_usize;
            while let Some(event) = events.try_next().await? {
                if matches!(event, WatchEvent::Added(_)) {
                    count += 1;
                }
                if count >= expected {
                    return Ok(Instant::now());
                }
            }
            bail!("the watch has ended after {count} of {expected} pods")
        };
        tokio::time::timeout(MEASUREMENT_TIMEOUT, watch)
            .await
            .with_context(|| format!("not {expected} pods within {MEASUREMENT_TIMEOUT:?}"))?
    }
}
