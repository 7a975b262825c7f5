//! One replica of the operator: it takes the lease, then watches, reconciles and schedules. It knows
//! nothing of its process: no signals, sockets or files.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use tracing::info;
use trellis_cache::policy::keep_policies_fresh;
use trellis_compiler::Settings;
use trellis_controller::policies::{maintain_policies, maintain_policy_status};
use trellis_controller::quotas::maintain_quota_status;
use trellis_controller::{
    Controller, maintain_flavor_status, maintain_profile_status, maintain_queue_status,
};
use trellis_dispatch::clients::Clients;
use trellis_dispatch::commands::Commands;
use trellis_dispatch::context::Context;
use trellis_dispatch::leader::{Candidate, LeaderLabel, Leadership, TermWriter};
use trellis_dispatch::tasks::Tasks;
use trellis_dispatch::{Committer, Driver, WATCHED_KINDS, maintain_node_orders, start_watches};
use trellis_gang::observed::UnhealthyRules;
use trellis_policies::cedar::PolicyLoader;
use trellis_server::telemetry::{ActiveLeader, LeaderSlot};
use trellis_server::webhook::Webhook;

/// Why a replica ends that no longer leads.
const LEASE_LOST: &str = "the lease is lost";

/// A replica that has not started.
pub struct Replica {
    /// Clients for the cluster.
    pub clients: Clients,
    /// Identity in the Lease, which no other process has ever had.
    pub identity: String,
    /// Namespace of the Lease.
    pub namespace: String,
    /// Duration of the Lease.
    pub lease: Duration,
    /// The pod that gets the label of the leader, in the namespace of the Lease.
    pub pod: Option<String>,
    /// Settings of the compiler.
    pub settings: Settings,
    /// The loader of policies.
    pub policies: PolicyLoader,
    /// Rules for nodes that get no new pods.
    pub unhealthy_rules: UnhealthyRules,
    /// Namespace of placeholder pods. None: nodes are not provisioned.
    pub placeholder_namespace: Option<String>,
    /// True if the annotation of the requester is trusted without its admission policy.
    pub trusts_requested_by: bool,
    /// Namespaces in which the replica checks that the Secrets of pods exist.
    pub secret_namespaces: Vec<String>,
    /// Is set while this replica leads.
    pub leader: LeaderSlot,
}

impl Replica {
    /// Runs until `stop` ends or the lease is lost. The webhook uses the caches of a leader.
    ///
    /// # Errors
    /// If the lease cannot be taken or is lost, or with the error of `stop`.
    pub async fn run(
        self,
        webhook: Option<&Webhook>,
        stop: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        tokio::pin!(stop);
        let command = self.clients.command.clone();
        let pod = self.pod.clone();
        let label = pod.map(|pod| LeaderLabel::new(command.clone(), &self.namespace, pod));
        if let Some(label) = &label {
            // Remove the label that a previous container of this pod may have left.
            label.remove().await;
        }
        let identity = self.identity.clone();
        let candidate = Candidate::new(command.clone(), &self.namespace, identity, self.lease);
        info!(version = env!("CARGO_PKG_VERSION"), "waiting for the lease");
        let (leadership, lease) = tokio::select! {
            taken = candidate.acquire() => taken?,
            stopped = &mut stop => return stopped,
        };
        let renewed = candidate.renew_until_lost(&leadership, lease);
        tokio::pin!(renewed);
        // The API server refuses writes of earlier leaders before this leader reads anything.
        let mut term = TermWriter::new(
            command.clone(),
            &self.namespace,
            self.identity.clone(),
            leadership.clone(),
        );
        tokio::select! {
            begun = term.begin() => begun.context(LEASE_LOST)?,
            () = &mut renewed => bail!(LEASE_LOST),
            stopped = &mut stop => {
                candidate.release(&leadership).await;
                return stopped;
            }
        }
        // The watches start only after the lease is taken. So the leader lists everything afresh and
        // decides nothing on an old cache.
        let mut tasks = self.start_leading(&leadership, term, webhook);
        // The label has its own task set, so that this task ends before the label is removed.
        let mut labels = Tasks::default();
        if let Some(label) = label.clone() {
            labels.start("the label of the pod", label.maintain(leadership.clone()));
        }
        let ended = tokio::select! {
            () = &mut renewed => Err(anyhow!(LEASE_LOST)),
            ended = tasks.wait_for_first_end() => Err(anyhow!("{ended}")),
            ended = labels.wait_for_first_end() => Err(anyhow!("{ended}")),
            stopped = &mut stop => stopped,
        };
        drop(labels);
        let unlabelled = async {
            if let Some(label) = label {
                label.remove().await;
            }
        };
        // Releasing the lease lets the next leader start before the lease expires. Removing the
        // label keeps the Service from sending requests to this pod.
        tokio::join!(candidate.release(&leadership), unlabelled);
        ended
    }

    /// Starts the tasks of a leader.
    fn start_leading(
        self,
        leadership: &Leadership,
        term: TermWriter,
        webhook: Option<&Webhook>,
    ) -> Tasks {
        let Clients { watch, command } = self.clients;
        let (context, events) =
            Context::with_settings(self.unhealthy_rules, self.placeholder_namespace);
        let commands = Commands::new(command.clone(), leadership.clone());
        let commands = commands.with_metrics(context.metrics.clone());
        let mut tasks = Tasks::default();
        tasks.start("the term of the leader", term.maintain());
        start_watches(WATCHED_KINDS, &watch, &context, &mut tasks);
        if let Some(webhook) = webhook {
            webhook.use_leader(context.clone());
        }
        *self.leader.write() = Some(ActiveLeader {
            context: context.clone(),
            commands: commands.clone(),
        });
        let controller = Controller::new(context.clone(), commands.clone(), self.settings)
            .trust_requested_by(self.trusts_requested_by)
            .check_secrets_in(self.secret_namespaces);
        let committer = Committer::new(context.clone(), commands.clone());
        tasks.start("the controller", Arc::new(controller).run());
        tasks.start("the scheduler", Driver::new(committer, events).run());
        tasks.start(
            "orders of new nodes",
            maintain_node_orders(context.clone(), commands.clone()),
        );
        tasks.start(
            "the look at lost nodes",
            context.clone().follow_node_health(),
        );
        tasks.start(
            "the policies",
            maintain_policies(context.clone(), self.policies),
        );
        let fresh = keep_policies_fresh(context.cache.clone(), command);
        tasks.start("the reading of policies", fresh);
        let written = maintain_policy_status(context.cache.clone(), commands.clone());
        tasks.start("the status of policies", written);
        let written = maintain_quota_status(context.clone(), commands.clone());
        tasks.start("the status of quota policies", written);
        let written = maintain_profile_status(context.cache.clone(), commands.clone());
        tasks.start("the status of profiles", written);
        let written = maintain_flavor_status(context.clone(), commands.clone());
        tasks.start("the status of flavors", written);
        tasks.start(
            "the status of queues",
            maintain_queue_status(context, commands),
        );
        tasks
    }
}
