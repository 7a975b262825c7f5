//! A replica of the operator, in a tokio runtime of its own with a paused clock.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use trellis_compiler::Settings;
use trellis_dispatch::clients::{Clients, WATCH_TIMEOUT};
use trellis_dispatch::leader::REQUEST_TIMEOUT;
use trellis_gang::observed::UnhealthyRules;
use trellis_machine::SimulatedMachine;
use trellis_operator::Replica;
use trellis_policies::cedar::PolicyLoader;
use trellis_server::telemetry::LeaderSlot;

use crate::time::VirtualTime;
use crate::transport::{Outbox, SentRequest, Transport};

/// Where a replica starts.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaStart {
    pub(crate) identity: String,
    pub(crate) time: VirtualTime,
    /// The wall clock of its machine at that time.
    pub(crate) wall_clock: Timestamp,
    pub(crate) seed: u64,
    pub(crate) lease: Duration,
    pub(crate) policies: PolicyLoader,
    /// Namespace of the pods that ask an autoscaler for nodes. None: no nodes are ordered.
    pub(crate) placeholder_namespace: Option<String>,
}

/// Why a replica stops running for a while.
#[derive(Debug)]
pub(crate) enum Progress {
    /// It has nothing to send until the horizon.
    ReachedHorizon,
    /// It sent requests.
    Sent(Vec<SentRequest>),
    /// Its process ended, with this error.
    Ended(String),
}

/// A process of the operator. Dropping it is a crash.
pub(crate) struct RunningReplica {
    runtime: Runtime,
    machine: SimulatedMachine,
    /// The runtime's clock at `started`.
    start: Instant,
    started: VirtualTime,
    outbox: Outbox,
    process: JoinHandle<anyhow::Result<()>>,
}

impl RunningReplica {
    pub(crate) fn start(start: ReplicaStart) -> Self {
        let runtime = build_runtime(start.seed);
        let outbox = Outbox::default();
        let entered = runtime.enter();
        let machine = SimulatedMachine::new(start.wall_clock, start.seed);
        let client = |timeout| {
            let outbox = outbox.clone();
            Client::new(Transport { outbox, timeout }, "default")
        };
        let replica = Replica {
            clients: Clients {
                watch: client(WATCH_TIMEOUT),
                command: client(REQUEST_TIMEOUT),
            },
            identity: start.identity,
            namespace: crate::cluster::OPERATOR_NAMESPACE.to_owned(),
            lease: start.lease,
            pod: None,
            settings: Settings::default(),
            policies: start.policies,
            unhealthy_rules: UnhealthyRules::default(),
            placeholder_namespace: start.placeholder_namespace,
            trusts_requested_by: true,
            secret_namespaces: Vec::new(),
            leader: LeaderSlot::default(),
        };
        let clock = Instant::now();
        let process = {
            let _machine = machine.enter();
            runtime.spawn(replica.run(None, std::future::pending()))
        };
        drop(entered);
        Self {
            runtime,
            machine,
            start: clock,
            started: start.time,
            outbox,
            process,
        }
    }

    /// Returns the time up to which the replica has run.
    pub(crate) fn clock(&self) -> VirtualTime {
        let _entered = self.runtime.enter();
        self.started + self.start.elapsed()
    }

    /// Runs until the horizon, or until the replica sends requests or ends.
    pub(crate) fn run_until(&mut self, horizon: VirtualTime) -> Progress {
        let Self {
            runtime,
            machine,
            start,
            started,
            outbox,
            process,
        } = self;
        let _machine = machine.enter();
        let deadline = *start + horizon.since(*started);
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = outbox.wait() => Progress::Sent(outbox.take()),
                ended = process => Progress::Ended(describe_end(ended)),
                () = tokio::time::sleep_until(deadline) => Progress::ReachedHorizon,
            }
        })
    }

    /// Lets a frozen replica go on. A stopped process finds that its clocks have gone on. On a
    /// paused machine, the monotonic clock has stood still, and the wall clock is set right.
    pub(crate) fn thaw(&mut self, now: VirtualTime, stops_clocks: bool) {
        let _machine = self.machine.enter();
        let step = now.since(self.clock());
        if stops_clocks {
            self.started = self.started + step;
            let step = SignedDuration::try_from(step).expect("a short run");
            self.machine.set_clock_forward(step);
        } else {
            self.runtime.block_on(tokio::time::advance(step));
        }
    }

    /// Sets the wall clock of the replica's machine.
    pub(crate) fn set_clock_forward(&self, step: SignedDuration) {
        self.machine.set_clock_forward(step);
    }
}

/// Describes why a process ended.
fn describe_end(result: Result<anyhow::Result<()>, tokio::task::JoinError>) -> String {
    match result {
        Ok(Ok(())) => "it was told to stop".to_owned(),
        Ok(Err(error)) => format!("{error:#}"),
        Err(error) => error.to_string(),
    }
}

fn build_runtime(seed: u64) -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    // Without this, no run can be repeated.
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_le_bytes()));
    #[cfg(not(tokio_unstable))]
    let _ = seed;
    builder.build().expect("a runtime of one thread")
}
