//! Takes the lease, then watches, reconciles and schedules.
//! It runs until a signal arrives or the lease is lost.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};
use trellis_cache::policy::keep_policies_fresh;
use trellis_compiler::{DnsPeer, Settings};
use trellis_controller::policies::{maintain_policies, maintain_policy_status};
use trellis_controller::quotas::maintain_quota_status;
use trellis_controller::{Controller, maintain_profile_status, maintain_queue_status};
use trellis_dispatch::clients::Clients;
use trellis_dispatch::commands::Commands;
use trellis_dispatch::context::Context;
use trellis_dispatch::leader::{Candidate, LeaderLabel, TermWriter};
use trellis_dispatch::tasks::Tasks;
use trellis_dispatch::{Committer, Driver, WATCHED_KINDS, start_watches};
use trellis_machine::{clock, threads};
use trellis_policies::cedar::PolicyLoader;
use trellis_server::telemetry::ActiveLeader;
use trellis_server::webhook::Webhook;
use trellis_server::{endpoint, snapshot, telemetry, webhook};

use crate::unhealthy_options::UnhealthyOptions;

/// The Trellis operator: places gangs of GPU pods all together or not at all.
#[derive(clap::Parser, Clone, Debug)]
#[command(name = "trellis-operator", version)]
pub struct OperatorOptions {
    /// Namespace of the lease.
    #[arg(long, env = "TRELLIS_NAMESPACE", default_value = "trellis-system")]
    pub namespace: String,
    /// Name of the pod that runs this operator, in the namespace of the lease.
    /// With --visibility, the operator labels this pod trellis.dev/role=leader while it leads.
    /// Without this option, the operator labels no pod.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod: Option<String>,
    /// Duration of the lease in seconds.
    /// If this operator stops answering, another takes over after this time and at most 15 s more.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(2..=120))]
    pub lease_seconds: u64,
    /// The cluster's DNS domain.
    #[arg(long, default_value = "cluster.local")]
    pub cluster_domain: String,
    /// The cluster's DNS servers, which every pod may query.
    /// Either NAMESPACE/LABEL=VALUE,... to select their pods, or a network such as 169.254.20.10/32
    /// (NodeLocal DNSCache). Append @PORT if the port is not 53. May be given several times.
    /// Default: kube-system/k8s-app=kube-dns.
    #[arg(long, value_name = "SERVERS")]
    pub dns: Vec<DnsPeer>,
    /// Format of the log lines.
    #[arg(long, value_enum, default_value = "human")]
    pub log: telemetry::LogFormat,
    /// Options of the read-only endpoint.
    #[command(flatten)]
    pub endpoint: endpoint::EndpointOptions,
    /// Address and port of `/livez` and `/readyz` (HTTP, without authentication).
    /// Without this option, the operator does not serve them.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub health: Option<SocketAddr>,
    /// Options of the admission webhook.
    #[command(flatten)]
    pub webhook: webhook::WebhookOptions,
    /// Folder for snapshots.
    /// On SIGUSR1 the operator writes the whole state of the scheduler into this folder, for
    /// `trellis replay`.
    #[arg(long, value_name = "FOLDER")]
    pub snapshots: Option<PathBuf>,
    /// Trust the annotation `trellis.dev/requested-by` of a job as its submitter.
    /// The operator then does not check which admission policy writes the annotation. Use it in
    /// clusters in which something other than the chart's admission policies stamps the annotation
    /// and refuses a forged one.
    #[arg(long)]
    pub trust_requested_by: bool,
    /// Namespaces in which the operator checks that the Secrets of a job's pods exist.
    /// The check happens before the job is placed. It needs a Role in each namespace that grants
    /// the right to get Secrets.
    #[arg(long, value_name = "NAMESPACES", value_delimiter = ',')]
    pub look_for_secrets_in: Vec<String>,
    /// Rules for nodes that get no new pods.
    #[command(flatten)]
    pub unhealthy: UnhealthyOptions,
}

/// Why a replica ends that no longer leads.
const LEASE_LOST: &str = "the lease is lost";

/// Runs until a signal arrives or the lease is lost.
///
/// # Errors
/// If the cluster cannot be reached, the lease cannot be taken, or leadership was lost.
pub async fn run(options: OperatorOptions) -> anyhow::Result<()> {
    // Invalid options are reported before the operator waits for the lease.
    check_options(&options)?;
    let endpoint = options.endpoint.config(&options.namespace);
    let endpoint = endpoint.context("the read-only endpoint")?;
    let webhook = options.webhook.config(&options.namespace);
    let webhook = webhook.context("the admission webhook")?;
    let policies = PolicyLoader::new().context("the schema of policies")?;
    let clients = Clients::infer().await?;
    let identity = format!(
        "{}_{}_{}",
        std::env::var("HOSTNAME").unwrap_or_else(|_| "trellis".to_owned()),
        std::process::id(),
        clock::now().as_nanosecond()
    );
    let settings = Settings {
        cluster_domain: options.cluster_domain,
        dns: match options.dns.is_empty() {
            true => Settings::default().dns,
            false => options.dns,
        },
    };
    // Every replica answers these requests, the standby replicas too.
    let mut always = Tasks::default();
    let webhook = webhook.map(|given| {
        let settings = Arc::new(settings.clone());
        let (webhook, answers) = Webhook::new(given, &clients, policies.clone(), settings);
        always.start("the admission webhook", answers);
        webhook
    });
    let lead = telemetry::LeaderSlot::default();
    let asked = webhook.as_ref().map(Webhook::readiness);
    if let Some(address) = options.health {
        let answered = telemetry::probes::serve_probes(address, lead.clone(), asked.clone());
        always.start("health", answered);
    }
    if let Some(given) = endpoint {
        let served = endpoint::serve(given, lead.clone(), asked, clients.clone());
        always.start("the read-only endpoint", served);
    }
    let pod = options.pod.filter(|_| options.endpoint.visibility);
    let label = pod.map(|pod| LeaderLabel::new(clients.command.clone(), &options.namespace, pod));
    if let Some(label) = &label {
        // Remove the label that a previous container of this pod may have left.
        label.remove().await;
    }
    let candidate = Candidate::new(
        clients.command.clone(),
        &options.namespace,
        identity.clone(),
        Duration::from_secs(options.lease_seconds),
    );
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Installing the handler here stops SIGUSR1 from killing a standby replica.
    let asked = signal(SignalKind::user_defined1())?;
    info!(version = env!("CARGO_PKG_VERSION"), "waiting for the lease");
    let (leadership, lease) = tokio::select! {
        taken = candidate.acquire() => taken?,
        ended = always.wait_for_first_end() => bail!("{ended}"),
        () = await_stop_signal(&mut terminate, &mut interrupt) => {
            finish_webhook(webhook).await;
            return Ok(());
        }
    };
    let renewed = candidate.renew_until_lost(&leadership, lease);
    tokio::pin!(renewed);
    // The API server refuses writes of earlier leaders before this leader reads anything.
    let mut term = TermWriter::new(
        clients.command.clone(),
        &options.namespace,
        identity,
        leadership.clone(),
    );
    let is_stopped = tokio::select! {
        begun = term.begin() => { begun.context(LEASE_LOST)?; false }
        () = &mut renewed => bail!(LEASE_LOST),
        ended = always.wait_for_first_end() => bail!("{ended}"),
        () = await_stop_signal(&mut terminate, &mut interrupt) => true,
    };
    if is_stopped {
        candidate.release(&leadership).await;
        finish_webhook(webhook).await;
        return Ok(());
    }
    // The watches start only after the lease is taken. So the leader lists everything afresh and
    // decides nothing on an old cache.
    let (context, heard) = Context::with_unhealthy_rules(options.unhealthy.into());
    let commands = Commands::new(clients.command.clone(), leadership.clone());
    let commands = commands.with_metrics(context.metrics.clone());
    let mut tasks = Tasks::default();
    tasks.start("the term of the leader", term.maintain());
    start_watches(WATCHED_KINDS, &clients.watch, &context, &mut tasks);
    if let Some(webhook) = &webhook {
        webhook.use_leader(context.clone());
    }
    *lead.write() = Some(ActiveLeader {
        context: context.clone(),
        commands: commands.clone(),
    });
    // The label has its own task set, so that this task ends before the label is removed.
    let mut labels = Tasks::default();
    if let Some(label) = label.clone() {
        labels.start("the label of the pod", label.maintain(leadership.clone()));
    }
    let controller = Controller::new(
        context.clone(),
        commands.clone(),
        clients.command.clone(),
        settings,
    )
    .trust_requested_by(options.trust_requested_by)
    .check_secrets_in(options.look_for_secrets_in);
    let committer = Committer::new(context.clone(), commands.clone());
    tasks.start("the controller", Arc::new(controller).run());
    tasks.start("the scheduler", Driver::new(committer, heard).run());
    tasks.start(
        "the look at lost nodes",
        context.clone().follow_node_health(),
    );
    if let Some(folder) = options.snapshots {
        let written = write_snapshots(folder, asked, context.clone());
        tasks.start("the writing of snapshots", written);
    }
    tasks.start("the policies", maintain_policies(context.clone(), policies));
    let fresh = keep_policies_fresh(context.cache.clone(), clients.command.clone());
    tasks.start("the reading of policies", fresh);
    let written = maintain_policy_status(context.cache.clone(), commands.clone());
    tasks.start("the status of policies", written);
    let written = maintain_quota_status(context.clone(), commands.clone());
    tasks.start("the status of quota policies", written);
    let written = maintain_profile_status(context.cache.clone(), commands.clone());
    tasks.start("the status of profiles", written);
    tasks.start(
        "the status of queues",
        maintain_queue_status(context, commands),
    );
    let ended = tokio::select! {
        () = &mut renewed => Some(LEASE_LOST.to_owned()),
        ended = await_first_end(&mut tasks, &mut always) => Some(ended),
        ended = labels.wait_for_first_end() => Some(ended),
        () = await_stop_signal(&mut terminate, &mut interrupt) => None,
    };
    drop(labels);
    let unlabelled = async {
        if let Some(label) = label {
            label.remove().await;
        }
    };
    // Releasing the lease lets the next leader start before the lease expires. Removing the label
    // keeps the Service from sending requests to this pod.
    tokio::join!(candidate.release(&leadership), unlabelled);
    if let Some(ended) = ended {
        bail!("{ended}")
    }
    drop(tasks);
    finish_webhook(webhook).await;
    Ok(())
}

/// Waits until the first task of either set ends.
async fn await_first_end(tasks: &mut Tasks, always: &mut Tasks) -> String {
    tokio::select! {
        ended = tasks.wait_for_first_end() => ended,
        ended = always.wait_for_first_end() => ended,
    }
}

async fn await_stop_signal(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    info!("a signal asks the operator to stop");
}

/// Lets the webhook finish the requests that are in progress.
async fn finish_webhook(webhook: Option<Webhook>) {
    if let Some(webhook) = webhook {
        webhook.drain().await;
    }
}

/// Checks that the given folder and addresses can be used.
fn check_options(options: &OperatorOptions) -> anyhow::Result<()> {
    if let Some(folder) = &options.snapshots {
        snapshot::check_writable(folder).with_context(|| {
            format!(
                "--snapshots: nothing can be written into {folder:?}: name a folder that is there and may be written to"
            )
        })?;
    }
    let addresses = [
        ("--listen", options.endpoint.listen),
        ("--webhook", options.webhook.listen),
        ("--health", options.health),
    ];
    for (option, address) in addresses {
        let Some(address) = address else { continue };
        std::net::TcpListener::bind(address).with_context(|| {
            format!("{option}: nothing can listen on {address}: name an address of this machine and a port that is free")
        })?;
    }
    Ok(())
}

/// Writes the whole state of the scheduler into a folder on every signal.
async fn write_snapshots(folder: PathBuf, mut asked: Signal, context: Arc<Context>) {
    while asked.recv().await.is_some() {
        let snapshot = match snapshot::request(&context).await {
            Ok(snapshot) => snapshot,
            Err(error) => {
                warn!(%error, "no snapshot is written");
                continue;
            }
        };
        let to = folder.clone();
        let written = threads::spawn_blocking(move || snapshot::write(&to, &snapshot)).await;
        match written {
            Ok(Ok(path)) => info!(path = %path.display(), "a snapshot is written"),
            Ok(Err(error)) => warn!(%error, folder = %folder.display(), "no snapshot is written"),
            Err(error) => warn!(%error, "no snapshot is written"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unusable_options_fail_before_the_lease_is_acquired() {
        use clap::Parser as _;

        #[derive(clap::Parser)]
        struct Program {
            #[command(flatten)]
            options: OperatorOptions,
        }
        let start_with = async |arguments: &[&str]| {
            let program = Program::parse_from([&["program"], arguments].concat());
            format!("{:#}", run(program.options).await.unwrap_err())
        };
        let start = async |argument: &str| start_with(&[argument]).await;
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = start(&format!("--listen={address}")).await;
        let expected = format!("--listen: nothing can listen on {address}: ");
        assert!(error.starts_with(&expected), "{error}");
        let error = start(&format!("--webhook={address}")).await;
        let expected = format!("--webhook: nothing can listen on {address}: ");
        assert!(error.starts_with(&expected), "{error}");
        let missing = ["--webhook=127.0.0.1:0", "--webhook-tls=/no/such/folder"];
        let error = start_with(&missing).await;
        assert!(
            error.starts_with("the admission webhook: cannot read \"/no/such/folder/tls.crt\""),
            "{error}"
        );
        let error = start("--snapshots=/no/such/folder").await;
        assert!(
            error.starts_with("--snapshots: nothing can be written into"),
            "{error}"
        );
    }
}
