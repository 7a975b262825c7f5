//! The operator as a process: it reads its options, serves its addresses, and runs a replica until a
//! signal arrives or the replica ends.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::info;
use trellis_compiler::Settings;
use trellis_dispatch::clients::Clients;
use trellis_dispatch::tasks::Tasks;
use trellis_machine::clock;
use trellis_policies::cedar::PolicyLoader;
use trellis_server::webhook::Webhook;
use trellis_server::{endpoint, telemetry};

use crate::options::OperatorOptions;
use crate::replica::Replica;
use crate::snapshots::write_snapshots;

/// Runs until a signal arrives or the lease is lost.
///
/// # Errors
/// If the cluster cannot be reached, the lease cannot be taken, or leadership was lost.
pub async fn run(options: OperatorOptions) -> anyhow::Result<()> {
    // Invalid options are reported before the operator waits for the lease.
    options.check()?;
    let endpoint = options.endpoint.config(&options.namespace);
    let endpoint = endpoint.context("the read-only endpoint")?;
    let webhook = options.webhook.config(&options.namespace);
    let webhook = webhook.context("the admission webhook")?;
    let policies = PolicyLoader::new().context("the schema of policies")?;
    let clients = Clients::infer().await?;
    let settings = Settings {
        cluster_domain: options.cluster_domain,
        dns: match options.dns.is_empty() {
            true => Settings::default().dns,
            false => options.dns,
        },
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Installing the handler here stops SIGUSR1 from killing a replica.
    let snapshot_requests = signal(SignalKind::user_defined1())?;
    // Every replica answers these requests, the standby replicas too.
    let mut servers = Tasks::default();
    let shared_settings = Arc::new(settings.clone());
    let webhook = webhook.map(|given| {
        let settings = shared_settings.clone();
        let (webhook, answers) = Webhook::new(given, &clients, policies.clone(), settings);
        servers.start("the admission webhook", answers);
        webhook
    });
    let leader = telemetry::LeaderSlot::default();
    let readiness = webhook.as_ref().map(Webhook::readiness);
    if let Some(address) = options.health {
        let served = telemetry::probes::serve_probes(address, leader.clone(), readiness.clone());
        servers.start("health", served);
    }
    if let Some(given) = endpoint {
        let served = endpoint::serve(
            given,
            leader.clone(),
            readiness,
            clients.clone(),
            shared_settings,
        );
        servers.start("the read-only endpoint", served);
    }
    if let Some(folder) = options.snapshots {
        let written = write_snapshots(folder, snapshot_requests, leader.clone());
        servers.start("the writing of snapshots", written);
    }
    let replica = Replica {
        clients,
        identity: new_identity(),
        namespace: options.namespace,
        lease: Duration::from_secs(options.lease_seconds),
        pod: options.pod.filter(|_| options.endpoint.visibility),
        settings,
        policies,
        unhealthy_rules: options.unhealthy.into(),
        placeholder_namespace: options.placeholder_namespace,
        trusts_requested_by: options.trust_requested_by,
        secret_namespaces: options.look_for_secrets_in,
        leader,
    };
    let stop = async {
        tokio::select! {
            ended = servers.wait_for_first_end() => Err(anyhow!("{ended}")),
            () = await_stop_signal(&mut terminate, &mut interrupt) => Ok(()),
        }
    };
    replica.run(webhook.as_ref(), stop).await?;
    // The webhook finishes the requests that are in progress.
    if let Some(webhook) = webhook {
        webhook.drain().await;
    }
    Ok(())
}

/// Returns an identity that no other process has ever had.
fn new_identity() -> String {
    format!(
        "{}_{}_{}",
        std::env::var("HOSTNAME").unwrap_or_else(|_| "trellis".to_owned()),
        std::process::id(),
        clock::now().as_nanosecond()
    )
}

async fn await_stop_signal(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    info!("a signal asks the operator to stop");
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
