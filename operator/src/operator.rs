//! `trellis operator`: takes the lease, then watches, reconciles and schedules
//! until it is told to stop or no longer leads.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Config as Watch;
use kube::{Api, Client};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info};
use trellis_api::{PodGroup, Queue, ResourceFlavor, TrainingJob, names};
use trellis_compiler::Settings;

use crate::clients::Clients;
use crate::commands::Commands;
use crate::controller::{Controller, keep_queue_status};
use crate::leader::Candidate;
use crate::scheduling::{Committer, Driver, Preflight};
use crate::watch::{SlimNamespace, SlimNode, SlimPod, SlimService, follow};
use crate::world::{Watched, World};

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
}

/// Runs until a signal, or until the lease is lost.
///
/// # Errors
/// If the cluster cannot be reached, the lease not taken, or leadership was lost.
pub async fn run(options: Options) -> anyhow::Result<()> {
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
    info!(version = env!("CARGO_PKG_VERSION"), "waiting for the lease");
    let (leadership, lease) = tokio::select! {
        taken = candidate.acquire() => taken?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let commands = Commands::new(clients.command.clone(), leadership.clone());
    // Everything is listed afresh once we lead: nothing is decided on a cache from before.
    let (world, heard) = World::new();
    watch(&clients.watch, &world);
    let settings = Settings {
        cluster_domain: options.cluster_domain,
        ..Settings::default()
    };
    let controller = Controller::new(
        world.clone(),
        commands.clone(),
        clients.command.clone(),
        settings,
    );
    let committer = Committer {
        world: world.clone(),
        commands: commands.clone(),
        preflight: Arc::new(Preflight::default()),
    };
    tokio::spawn(keep_queue_status(world.clone(), commands.clone()));
    let controller = tokio::spawn(Arc::new(controller).run());
    let driver = tokio::spawn(Driver::new(committer, heard).run());
    tokio::select! {
        () = candidate.hold(&leadership, lease) => bail!("the lease is lost"),
        ended = controller => bail!("the controller has ended: {ended:?}"),
        ended = driver => bail!("the scheduler has ended: {ended:?}"),
        _ = terminate.recv() => info!("told to stop"),
        _ = interrupt.recv() => info!("told to stop"),
    }
    candidate.release(&leadership).await;
    Ok(())
}

/// Starts a task for each watch. `rbac` lists the same kinds.
fn watch(client: &Client, world: &Arc<World>) {
    let ours = format!("{}={}", names::MANAGED_BY, names::MANAGER);
    let all = Watch::default;
    start::<DeserializeGuard<TrainingJob>>(client, all(), world);
    start::<DeserializeGuard<PodGroup>>(client, all(), world);
    start::<DeserializeGuard<Queue>>(client, all(), world);
    start::<DeserializeGuard<ResourceFlavor>>(client, all(), world);
    start::<SlimNamespace>(client, all(), world);
    start::<PriorityClass>(client, all(), world);
    start::<SlimService>(client, all(), world);
    start::<NetworkPolicy>(client, all().labels(&ours), world);
    start::<ResourceQuota>(client, all(), world);
    start::<SlimNode>(client, all(), world);
    start::<SlimPod>(client, all(), world);
}

fn start<K>(client: &Client, config: Watch, world: &Arc<World>)
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
    let api = Api::<K>::all(client.clone());
    let sink = Watched::new(world);
    tokio::spawn(async move {
        follow(api, config, sink).await;
        error!(kind = %K::kind(&()), "a watch has ended");
    });
}
