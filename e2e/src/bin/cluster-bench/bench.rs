//! The cluster that is measured on, and how its pods are counted.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use trellis_api::TrainingJob;
use trellis_e2e::cluster::{NodeSet, Nodes};
use trellis_e2e::control_plane::{ControlPlane, Kubelets, Options};
use trellis_e2e::namespace::TestNamespace;
use trellis_e2e::operator::{self, Launch, Operator};

use crate::jobs::{self, Case};
use crate::row::Row;

/// Nothing that is measured takes longer than this.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);
/// Applies at once: a pipeline that delivers many jobs.
pub(crate) const APPLIES: usize = 8;
/// The lease of each operator. It is short: the next operator waits for its end, and
/// docs/benchmarks.md reports the start after it.
const LEASE_SECONDS: u64 = 2;

/// A control plane without kubelets, with nodes.
pub(crate) struct Bench {
    pub(crate) control_plane: ControlPlane,
    pub(crate) nodes: usize,
    pub(crate) program: PathBuf,
    json: bool,
    _nodes: NodeSet,
}

impl Bench {
    pub(crate) async fn start(nodes: usize, json: bool) -> Result<Self> {
        let control_plane = ControlPlane::start(Options {
            kubelets: Kubelets::None,
            ..operator::options()?
        })
        .await?;
        operator::install(&control_plane).await?;
        let set = Nodes::new(nodes).gpus(8).create(&control_plane).await?;
        Ok(Self {
            control_plane,
            nodes,
            program: std::env::current_exe()?,
            json,
            _nodes: set,
        })
    }

    pub(crate) fn print(&self, row: &Row) {
        row.print(self.json);
    }

    pub(crate) async fn namespace(&self) -> Result<TestNamespace> {
        TestNamespace::create(&self.control_plane, "bench").await
    }

    /// A client with the operator's rights, so that the API server does the
    /// same to authorize it.
    pub(crate) async fn bare_client(&self) -> Result<Client> {
        self.control_plane
            .service_account_client(operator::NAMESPACE, operator::ACCOUNT)
            .await
    }

    /// An operator that has placed a first gang: it leads, and all is listed.
    pub(crate) async fn operator(&self) -> Result<Operator> {
        self.operator_as(&Launch::named("operator")).await
    }

    /// The same, started like that.
    pub(crate) async fn operator_as(&self, launch: &Launch) -> Result<Operator> {
        let operator = self.launch(launch, &self.kubeconfig().await?)?;
        self.warm_up().await.context(operator.last_words())?;
        Ok(operator)
    }

    /// Starts an operator and waits for nothing.
    pub(crate) async fn cold_operator(&self) -> Result<Operator> {
        self.launch(&Launch::named("operator"), &self.kubeconfig().await?)
    }

    /// An operator behind a proxy, by its kubeconfig.
    pub(crate) async fn operator_by(&self, kubeconfig: &Path) -> Result<Operator> {
        let operator = self.launch(&Launch::named("operator"), kubeconfig)?;
        self.warm_up().await.context(operator.last_words())?;
        Ok(operator)
    }

    async fn kubeconfig(&self) -> Result<PathBuf> {
        let (namespace, account) = (operator::NAMESPACE, operator::ACCOUNT);
        self.control_plane
            .service_account_kubeconfig(namespace, account)
            .await
    }

    fn launch(&self, launch: &Launch, kubeconfig: &Path) -> Result<Operator> {
        let launch = launch.clone().lease_seconds(LEASE_SECONDS);
        Operator::launch(&self.control_plane, &self.program, kubeconfig, &launch)
    }

    async fn warm_up(&self) -> Result<()> {
        let namespace = self.namespace().await?;
        let counter = Counter::start(&namespace).await?;
        let jobs: Api<TrainingJob> = namespace.api();
        jobs.create(&PostParams::default(), &jobs::job("warm-up", 1, 1)?)
            .await?;
        counter.count(1).await?;
        self.clear(&namespace).await
    }

    /// Applies a case and waits for its last pod.
    pub(crate) async fn place(&self, namespace: &TestNamespace, case: Case) -> Result<Duration> {
        let api: Api<TrainingJob> = namespace.api();
        let counter = Counter::start(namespace).await?;
        let start = Instant::now();
        let mut applies = Vec::with_capacity(case.jobs);
        for i in 0..case.jobs {
            let job = jobs::job(&format!("j-{i}"), case.pods, 1)?;
            let api = api.clone();
            applies.push(async move { api.create(&PostParams::default(), &job).await });
        }
        let applied = stream::iter(applies)
            .buffer_unordered(APPLIES)
            .try_for_each(|_| async { Ok(()) });
        let (applied, last) = tokio::join!(applied, counter.count(case.total()));
        applied?;
        Ok(last?.duration_since(start))
    }

    /// Removes all jobs and pods, and waits until they are gone.
    pub(crate) async fn clear(&self, namespace: &TestNamespace) -> Result<()> {
        let jobs: Api<TrainingJob> = namespace.api();
        jobs.delete_collection(&DeleteParams::default(), &ListParams::default())
            .await?;
        let pods: Api<Pod> = namespace.api();
        trellis_e2e::wait::eventually(LIMIT, || async {
            // No kubelet confirms a deletion here, so each is forced.
            pods.delete_collection(
                &DeleteParams::default().grace_period(0),
                &ListParams::default(),
            )
            .await?;
            let left = pods
                .list_metadata(&ListParams::default())
                .await?
                .items
                .len();
            if left > 0 {
                bail!("{left} pods are still there");
            }
            Ok(())
        })
        .await
    }
}

/// Counts the pods that appear, by a watch that carries metadata only.
pub(crate) struct Counter {
    pods: Api<Pod>,
    version: String,
}

impl Counter {
    pub(crate) async fn start(namespace: &TestNamespace) -> Result<Self> {
        let pods: Api<Pod> = namespace.api();
        let list = pods.list_metadata(&ListParams::default()).await?;
        Ok(Self {
            pods,
            version: list.metadata.resource_version.unwrap_or_default(),
        })
    }

    /// The time at which the last of `wanted` pods appeared.
    pub(crate) async fn count(&self, wanted: usize) -> Result<Instant> {
        let watch = async {
            let params = WatchParams::default().timeout(280);
            let mut events = self
                .pods
                .watch_metadata(&params, &self.version)
                .await?
                .boxed();
            let mut there = 0_usize;
            while let Some(event) = events.try_next().await? {
                if matches!(event, WatchEvent::Added(_)) {
                    there += 1;
                }
                if there >= wanted {
                    return Ok(Instant::now());
                }
            }
            bail!("the watch has ended after {there} of {wanted} pods")
        };
        tokio::time::timeout(LIMIT, watch)
            .await
            .with_context(|| format!("not {wanted} pods within {LIMIT:?}"))?
    }
}
