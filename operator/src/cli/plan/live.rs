//! The cluster of the kubeconfig, read and never written.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use http::{HeaderName, HeaderValue};
use k8s_openapi::api::core::v1::{ResourceQuota, Service};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use trellis_api::{
    AuthorizationPolicy, ClusterAuthorizationPolicy, PodGroup, Queue, ResourceFlavor, Topology,
    TrainingJob,
};
use trellis_policies::cedar::PolicyObject;

use super::snapshot::{self, Snapshot};
use crate::controller::claims;
use crate::watch::{
    SlimClaim, SlimDaemonSet, SlimDeviceClass, SlimNamespace, SlimNode, SlimPod, SlimStorageClass,
    SlimVolume,
};

/// Objects of one answer of the API server.
const PAGE: u32 = 500;
/// Lists that are begun anew because the pages of an earlier one have expired.
const RESTARTS: usize = 3;
/// Longest wait for a connection, and for an answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// What to do where the cluster is of no use.
const OFFLINE: &str = "to plan without a cluster, give its nodes by --nodes FILE, where FILE is what `kubectl get nodes -o yaml` wrote";

/// Which cluster, as kubectl has it.
#[derive(clap::Args, Debug)]
pub(super) struct Access {
    /// The kubeconfig file. Without it, $KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Without it, its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// What is seen of a cluster.
pub(super) struct Seen {
    pub(super) snapshot: Snapshot,
    /// What the user might not expect.
    pub(super) notes: Vec<String>,
}

/// A cluster that can be read.
pub(super) struct Cluster {
    runtime: tokio::runtime::Runtime,
    client: Client,
    namespace: String,
}

impl Cluster {
    /// Finds the cluster. Whether it answers, the first read shows.
    pub(super) fn connect(access: &Access) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut config = runtime
            .block_on(config(access))
            .map_err(|error| anyhow!("no cluster is configured: {} ({OFFLINE})", said(&error)))?;
        config.headers.push((
            HeaderName::from_static("user-agent"),
            HeaderValue::from_static(concat!("trellis-plan/", env!("CARGO_PKG_VERSION"))),
        ));
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        // A user who waits wants to hear soon.
        config.default_retry = false;
        let namespace = config.default_namespace.clone();
        let client = runtime
            .block_on(async { Client::try_from(config) })
            .map_err(|error| {
                anyhow!("the cluster's configuration is of no use: {error} ({OFFLINE})")
            })?;
        Ok(Self {
            runtime,
            client,
            namespace,
        })
    }

    /// The namespace of the context.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Reads all that a plan of these jobs depends on.
    pub(super) fn read(&self, jobs: &[TrainingJob]) -> anyhow::Result<Seen> {
        self.runtime.block_on(read(&self.client, jobs))
    }
}

/// What is wrong with a kubeconfig. kube quotes the file twice.
fn said(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, file) => format!("cannot read {file:?}: {error}"),
        other => other.to_string(),
    }
}

/// The kubeconfig's cluster; where there is no kubeconfig, that of the pod that we run in.
async fn config(access: &Access) -> Result<Config, KubeconfigError> {
    let options = KubeConfigOptions {
        context: access.context.clone(),
        ..KubeConfigOptions::default()
    };
    if let Some(file) = &access.kubeconfig {
        let kubeconfig = Kubeconfig::read_from(file)?;
        return Config::from_custom_kubeconfig(kubeconfig, &options).await;
    }
    match Config::from_kubeconfig(&options).await {
        Err(error) if access.context.is_none() => Config::incluster().map_err(|_| error),
        config => config,
    }
}

async fn read(client: &Client, jobs: &[TrainingJob]) -> anyhow::Result<Seen> {
    let mut snapshot = Snapshot::default();
    let mut notes = Vec::new();
    let everything = ListParams::default();
    for node in list(&Api::<SlimNode>::all(client.clone()), &everything)
        .await?
        .unwrap_or_default()
    {
        snapshot.node(node);
    }
    // Only these hold something of a node.
    let holding = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
    let holding = ListParams::default().fields(holding);
    for pod in list(&Api::<SlimPod>::all(client.clone()), &holding)
        .await?
        .unwrap_or_default()
    {
        snapshot.pod(pod);
    }
    match list(&Api::<Queue>::all(client.clone()), &everything).await? {
        None => notes.push(
            "this cluster has no Queues, so Trellis is not installed: planned with the queue of a fresh install; `trellis crds | kubectl apply --server-side -f -` installs its kinds"
                .to_owned(),
        ),
        Some(queues) => {
            snapshot.queues = Some(Default::default());
            queues.into_iter().for_each(|q| snapshot.queue(q));
        }
    }
    read_policies(client, &mut snapshot).await?;
    // Those that are planned may be there, and others may wait before them.
    for job in list(&Api::<TrainingJob>::all(client.clone()), &everything)
        .await?
        .unwrap_or_default()
    {
        snapshot.job(job);
    }
    for flavor in list(&Api::<ResourceFlavor>::all(client.clone()), &everything)
        .await?
        .unwrap_or_default()
    {
        snapshot.flavor(flavor);
    }
    for topology in list(&Api::<Topology>::all(client.clone()), &everything)
        .await?
        .unwrap_or_default()
    {
        snapshot.topology(topology);
    }
    for group in list(&Api::<PodGroup>::all(client.clone()), &everything)
        .await?
        .unwrap_or_default()
    {
        snapshot.pod_group(group);
    }
    for class in list(&Api::<PriorityClass>::all(client.clone()), &everything)
        .await?
        .unwrap_or_default()
    {
        snapshot.priority_class(class);
    }
    for namespace in jobs
        .iter()
        .filter_map(|j| j.metadata.namespace.clone())
        .collect::<BTreeSet<_>>()
    {
        match named(&Api::<SlimNamespace>::all(client.clone()), &namespace).await? {
            Some(found) => snapshot.namespace(found),
            None => notes.push(format!(
                "namespace {namespace:?} does not exist: planned as if it did, without labels"
            )),
        }
        let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), &namespace);
        for quota in list(&quotas, &everything).await?.unwrap_or_default() {
            snapshot.resource_quota(quota);
        }
    }
    read_devices(client, &mut snapshot).await?;
    for job in jobs {
        let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
        for service in services(job) {
            let api: Api<Service> = Api::namespaced(client.clone(), namespace);
            if let Some(service) = named(&api, service).await? {
                snapshot.service(service);
            }
        }
        read_claims(client, namespace, job, &mut snapshot).await?;
    }
    Ok(Seen { snapshot, notes })
}

/// Who may run what. A cluster that knows the kinds and has no policy permits nothing.
async fn read_policies(client: &Client, snapshot: &mut Snapshot) -> anyhow::Result<()> {
    let everything = ListParams::default();
    let of_cluster = Api::<ClusterAuthorizationPolicy>::all(client.clone());
    if let Some(objects) = list(&of_cluster, &everything).await? {
        snapshot.policies.are_all();
        let objects = objects.iter().map(PolicyObject::from);
        objects.for_each(|object| snapshot.policies.take(object));
    }
    let of_namespaces = Api::<AuthorizationPolicy>::all(client.clone());
    if let Some(objects) = list(&of_namespaces, &everything).await? {
        snapshot.policies.are_all();
        let objects = objects.iter().map(PolicyObject::from);
        objects.for_each(|object| snapshot.policies.take(object));
    }
    Ok(())
}

/// What DaemonSets will need, and what DeviceClasses offer.
async fn read_devices(client: &Client, snapshot: &mut Snapshot) -> anyhow::Result<()> {
    let everything = ListParams::default();
    let sets = list(&Api::<SlimDaemonSet>::all(client.clone()), &everything).await?;
    for set in sets.unwrap_or_default() {
        snapshot.daemon_set(set);
    }
    let classes = list(&Api::<SlimDeviceClass>::all(client.clone()), &everything).await?;
    for class in classes.unwrap_or_default() {
        snapshot.device_class(class);
    }
    Ok(())
}

/// The claims that a job mounts, with their volumes and classes.
async fn read_claims(
    client: &Client,
    namespace: &str,
    job: &TrainingJob,
    snapshot: &mut Snapshot,
) -> anyhow::Result<()> {
    snapshot.claims.get_or_insert_default();
    let names: BTreeSet<&str> = claims::mounted(&job.spec).map(|(_, name)| name).collect();
    for name in names {
        let api: Api<SlimClaim> = Api::namespaced(client.clone(), namespace);
        let Some(claim) = named(&api, name).await? else {
            continue;
        };
        let (volume, class) = (&claim.spec.volume_name, &claim.spec.storage_class_name);
        if !volume.is_empty() {
            let found = named(&Api::<SlimVolume>::all(client.clone()), volume).await?;
            found.into_iter().for_each(|v| snapshot.volume(v));
        } else if let Some(class) = class {
            let api = Api::<SlimStorageClass>::all(client.clone());
            let found = named(&api, class).await?;
            found.into_iter().for_each(|c| snapshot.storage_class(c));
        }
        snapshot.claim(claim);
    }
    Ok(())
}

/// The Services that a job names.
fn services(job: &TrainingJob) -> BTreeSet<&str> {
    let network = job.spec.network.iter();
    network
        .flat_map(|n| n.egress.iter().chain(&n.ingress))
        .filter_map(|rule| rule.service.as_deref())
        .collect()
}

/// All objects of a kind, page by page. None if the cluster does not know the kind.
async fn list<K>(api: &Api<K>, params: &ListParams) -> anyhow::Result<Option<Vec<K>>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let mut objects = Vec::new();
    let mut params = params.clone().limit(PAGE);
    let mut restarts = 0_usize;
    loop {
        match api.list(&params).await {
            Ok(page) => {
                objects.extend(page.items);
                match page.metadata.continue_.filter(|c| !c.is_empty()) {
                    Some(token) => params.continue_token = Some(token),
                    None => return Ok(Some(objects)),
                }
            }
            Err(kube::Error::Api(status)) if status.code == 410 && restarts < RESTARTS => {
                restarts = restarts.saturating_add(1);
                objects.clear();
                params.continue_token = None;
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(explain::<K>("list", error)),
        }
    }
}

/// The object of that name, if it is there.
async fn named<K>(api: &Api<K>, name: &str) -> anyhow::Result<Option<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    match api.get(name).await {
        Ok(object) => Ok(Some(object)),
        // As in a list: a kind that the cluster does not know is no "NotFound".
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(explain::<K>("get", error)),
    }
}

/// What keeps us from reading, and what to do about it.
fn explain<K: Resource<DynamicType = ()>>(verb: &str, error: kube::Error) -> anyhow::Error {
    let kinds = K::plural(&());
    match error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => anyhow!(
            "cannot {verb} {kinds}: the right to do so is missing: {} (a plan gets and lists {} of all namespaces: docs/plan.md has the ClusterRole; {OFFLINE})",
            status.message,
            snapshot::resources(),
        ),
        kube::Error::Api(status) => anyhow!("cannot {verb} {kinds}: {}", status.message),
        kube::Error::SerdeError(error) => {
            anyhow!("cannot {verb} {kinds}: an answer does not decode: {error}")
        }
        error => anyhow!(
            "cannot {verb} {kinds}: the cluster cannot be reached: {} ({OFFLINE})",
            root_of(&error)
        ),
    }
}

/// The innermost cause: what is around it only says that there is one.
fn root_of(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
