//! `trellis operator`: takes the lease, then watches, reconciles and schedules
//! until it is told to stop or no longer leads.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Client;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{Id, JoinSet};
use tracing::{info, warn};
use trellis_api::{
    AuthorizationPolicy, ClusterAuthorizationPolicy, PodGroup, Queue, ResourceFlavor, Topology,
    TrainingJob, names,
};
use trellis_compiler::Settings;
use trellis_policies::cedar::Loader;

use crate::clients::Clients;
use crate::commands::Commands;
use crate::controller::{Controller, keep_queue_status};
use crate::endpoint;
use crate::leader::Candidate;
use crate::policy::{keep_policies, keep_policy_status};
use crate::scheduling::{Committer, Driver};
use crate::snapshot;
use crate::watch::{
    SlimAdmission, SlimClaim, SlimDaemonSet, SlimDeviceClass, SlimNamespace, SlimNetworkPolicy,
    SlimNode, SlimPod, SlimService, SlimStorageClass, SlimVolume, Unhealthy, follow,
};
use crate::world::{Watched, World};

/// The operator's Service.
const SERVICE: &str = "trellis-operator";

/// How the operator runs.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Namespace of the lease.
    #[arg(long, env = "TRELLIS_NAMESPACE", default_value = "trellis-system")]
    pub namespace: String,
    /// Seconds that a lease is good for. Another operator takes over after twice this.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(2..=120))]
    pub lease_seconds: u64,
    /// The cluster's DNS domain.
    #[arg(long, default_value = "cluster.local")]
    pub cluster_domain: String,
    /// How log lines are written.
    #[arg(long, value_enum, default_value = "human")]
    pub log: crate::telemetry::LogFormat,
    /// The read-only endpoint.
    #[command(flatten)]
    pub endpoint: endpoint::Listen,
    /// Folder into which all that the scheduler knows is written on SIGUSR1, for
    /// `trellis replay`.
    #[arg(long, value_name = "FOLDER")]
    pub snapshots: Option<PathBuf>,
    /// Take the annotation `trellis.dev/requested-by` of a job for who submitted it without
    /// a look at what writes it. For clusters in which something else than the chart's
    /// admission policies stamps it and refuses a forged one.
    #[arg(long)]
    pub trust_requested_by: bool,
    /// Which nodes get no new pods.
    #[command(flatten)]
    pub unhealthy: Unhealthy,
}

/// Runs until a signal, or until the lease is lost.
///
/// # Errors
/// If the cluster cannot be reached, the lease not taken, or leadership was lost.
pub async fn run(options: Options) -> anyhow::Result<()> {
    // What is wrong with it is said before anybody waits for us.
    check(&options)?;
    let endpoint = tls(&options.endpoint, &options.namespace).context("the read-only endpoint")?;
    let policies = Loader::new().context("the schema of policies")?;
    let clients = Clients::infer().await?;
    let identity = format!(
        "{}_{}_{}",
        std::env::var("HOSTNAME").unwrap_or_else(|_| "trellis".to_owned()),
        std::process::id(),
        k8s_openapi::jiff::Timestamp::now().as_nanosecond()
    );
    let candidate = Candidate::new(
        clients.command.clone(),
        &options.namespace,
        identity,
        Duration::from_secs(options.lease_seconds),
    );
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // From now on it ends nobody, one who does not lead either.
    let asked = signal(SignalKind::user_defined1())?;
    info!(version = env!("CARGO_PKG_VERSION"), "waiting for the lease");
    let (leadership, lease) = tokio::select! {
        taken = candidate.acquire() => taken?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let commands = Commands::new(clients.command.clone(), leadership.clone());
    // Everything is listed afresh once we lead: nothing is decided on a cache from before.
    let (world, heard) = World::with(options.unhealthy);
    let mut tasks = Tasks::default();
    watch(&clients.watch, &world, &mut tasks);
    let settings = Settings {
        cluster_domain: options.cluster_domain,
        ..Settings::default()
    };
    let controller = Controller::new(
        world.clone(),
        commands.clone(),
        clients.command.clone(),
        settings,
    )
    .trust_requested_by(options.trust_requested_by);
    let committer = Committer::new(world.clone(), commands.clone());
    tasks.start("the controller", Arc::new(controller).run());
    tasks.start("the scheduler", Driver::new(committer, heard).run());
    tasks.start("the look at lost nodes", world.clone().tell_of_lost_nodes());
    if let Some(folder) = options.snapshots {
        let written = write_snapshots(folder, asked, world.clone());
        tasks.start("the writing of snapshots", written);
    }
    if let Some((address, tls)) = endpoint {
        let (world, client) = (world.clone(), clients.command.clone());
        let served = endpoint::serve(address, tls, world, client);
        tasks.start("the read-only endpoint", served);
    }
    tasks.start("the policies", keep_policies(world.clone(), policies));
    let written = keep_policy_status(world.clone(), commands.clone());
    tasks.start("the status of policies", written);
    tasks.start("the status of queues", keep_queue_status(world, commands));
    tokio::select! {
        () = candidate.hold(&leadership, lease) => bail!("the lease is lost"),
        ended = tasks.first_end() => {
            // Who comes next need not wait until the lease has run out.
            candidate.release(&leadership).await;
            bail!("{ended}")
        }
        _ = terminate.recv() => info!("told to stop"),
        _ = interrupt.recv() => info!("told to stop"),
    }
    candidate.release(&leadership).await;
    Ok(())
}

/// Whether what is named can be used.
fn check(options: &Options) -> anyhow::Result<()> {
    if let Some(folder) = &options.snapshots {
        snapshot::writable(folder).with_context(|| {
            format!(
                "--snapshots: nothing can be written into {folder:?}: name a folder that is there and may be written to"
            )
        })?;
    }
    if let Some(address) = options.endpoint.listen {
        std::net::TcpListener::bind(address).with_context(|| {
            format!("--listen: nothing can listen on {address}: name an address of this machine and a port that is free")
        })?;
    }
    Ok(())
}

/// Where the read-only endpoint listens and what it says who it is with, if
/// there is to be one.
fn tls(
    options: &endpoint::Listen,
    namespace: &str,
) -> anyhow::Result<Option<(SocketAddr, endpoint::Tls)>> {
    let Some(address) = options.listen else {
        return Ok(None);
    };
    let certificate = match &options.tls {
        Some(folder) => endpoint::Certificate::Folder(folder.clone()),
        None => {
            let service = format!("{SERVICE}.{namespace}.svc");
            endpoint::Certificate::Own(vec![service, "localhost".to_owned()])
        }
    };
    Ok(Some((address, endpoint::Tls::new(certificate)?)))
}

/// Writes all that the scheduler knows into a folder, whenever it is asked to.
async fn write_snapshots(folder: PathBuf, mut asked: Signal, world: Arc<World>) {
    while asked.recv().await.is_some() {
        let snapshot = match endpoint::ask(&world).await {
            Ok(snapshot) => snapshot,
            Err(error) => {
                warn!(%error, "no snapshot is written");
                continue;
            }
        };
        let to = folder.clone();
        let written = tokio::task::spawn_blocking(move || snapshot::write(&to, &snapshot)).await;
        match written {
            Ok(Ok(path)) => info!(path = %path.display(), "a snapshot is written"),
            Ok(Err(error)) => warn!(%error, folder = %folder.display(), "no snapshot is written"),
            Err(error) => warn!(%error, "no snapshot is written"),
        }
    }
}

/// Starts a task for each watch. `rbac` lists the same kinds.
fn watch(client: &Client, world: &Arc<World>, tasks: &mut Tasks) {
    let ours = format!("{}={}", names::MANAGED_BY, names::MANAGER);
    start::<TrainingJob>(client, None, world, tasks);
    start::<PodGroup>(client, None, world, tasks);
    start::<Queue>(client, None, world, tasks);
    start::<ResourceFlavor>(client, None, world, tasks);
    start::<Topology>(client, None, world, tasks);
    start::<ClusterAuthorizationPolicy>(client, None, world, tasks);
    start::<AuthorizationPolicy>(client, None, world, tasks);
    start::<SlimAdmission<MutatingAdmissionPolicy>>(client, None, world, tasks);
    start::<SlimAdmission<MutatingAdmissionPolicyBinding>>(client, None, world, tasks);
    start::<SlimAdmission<ValidatingAdmissionPolicy>>(client, None, world, tasks);
    start::<SlimAdmission<ValidatingAdmissionPolicyBinding>>(client, None, world, tasks);
    start::<SlimNamespace>(client, None, world, tasks);
    start::<PriorityClass>(client, None, world, tasks);
    start::<SlimService>(client, None, world, tasks);
    start::<SlimNetworkPolicy>(client, Some(ours), world, tasks);
    start::<ResourceQuota>(client, None, world, tasks);
    start::<SlimNode>(client, None, world, tasks);
    start::<SlimPod>(client, None, world, tasks);
    start::<SlimDaemonSet>(client, None, world, tasks);
    start::<SlimClaim>(client, None, world, tasks);
    start::<SlimVolume>(client, None, world, tasks);
    start::<SlimStorageClass>(client, None, world, tasks);
    start::<SlimDeviceClass>(client, None, world, tasks);
}

fn start<K>(client: &Client, labels: Option<String>, world: &Arc<World>, tasks: &mut Tasks)
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
    Watched: crate::watch::Sink<K>,
{
    let sink = Watched::new(world);
    let name = format!("the watch of {}", K::plural(&()));
    let pulse = world.pulse(&K::plural(&()));
    tasks.start(name, follow(client.clone(), labels, sink, pulse));
}

/// What must run for as long as we lead. When one of them ends, we do: a watch
/// that is dead leaves a cache that is wrong, and nobody would see.
#[derive(Default)]
struct Tasks {
    set: JoinSet<()>,
    names: BTreeMap<Id, String>,
}

impl Tasks {
    fn start(&mut self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        let id = self.set.spawn(task).id();
        self.names.insert(id, name.into());
    }

    /// Waits for the first that ends, and says which and how.
    async fn first_end(&mut self) -> String {
        let (id, how) = match self.set.join_next_with_id().await {
            Some(Ok((id, ()))) => (id, "nothing is left to do".to_owned()),
            Some(Err(error)) => (error.id(), error.to_string()),
            None => return "nothing runs".to_owned(),
        };
        let name = self.names.get(&id).map_or("a task", String::as_str);
        format!("{name} has ended: {how}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_one_task_is_told_by_its_name() {
        let mut tasks = Tasks::default();
        tasks.start("a", std::future::pending());
        tasks.start("b", async { panic!("out of range") });
        let ended = tasks.first_end().await;
        assert!(ended.starts_with("b has ended"), "{ended}");
        assert!(ended.contains("panic"), "{ended}");
        tasks.start("c", async {});
        let ended = tasks.first_end().await;
        assert!(ended.starts_with("c has ended"), "{ended}");
    }

    #[tokio::test]
    async fn what_cannot_be_used_is_said_before_the_lease_is_waited_for() {
        use clap::Parser as _;

        #[derive(clap::Parser)]
        struct Program {
            #[command(flatten)]
            options: Options,
        }
        let start = async |argument: &str| {
            let program = Program::parse_from(["program", argument]);
            format!("{:#}", run(program.options).await.unwrap_err())
        };
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = start(&format!("--listen={address}")).await;
        let expected = format!("--listen: nothing can listen on {address}: ");
        assert!(error.starts_with(&expected), "{error}");
        let error = start("--snapshots=/no/such/folder").await;
        assert!(
            error.starts_with("--snapshots: nothing can be written into"),
            "{error}"
        );
    }
}
