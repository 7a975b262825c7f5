//! A replica of the operator behind its own proxy. A process that ends is started again, as a
//! Deployment does.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use trellis_e2e::control_plane::{ControlPlane, ProcessSignal};
use trellis_e2e::operator::{LaunchOptions, Operator};
use trellis_e2e::proxy::Proxy;
use trellis_server::telemetry::DEFAULT_FILTER;

/// Duration of the Lease, as in the chart.
const LEASE_SECONDS: u64 = 15;
const SUPERVISION_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) proxy: Proxy,
    state: Mutex<ReplicaState>,
}

#[derive(Default)]
struct ReplicaState {
    process: Option<Operator>,
    /// Number of faults that keep the replica from starting.
    holds: usize,
    starts: usize,
}

impl Replica {
    pub(crate) async fn create(control_plane: &ControlPlane, index: usize) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            name: format!("operator-{index}"),
            proxy: Proxy::start(control_plane).await?,
            state: Mutex::default(),
        }))
    }

    /// Starts the process, and starts it again whenever it has ended.
    pub(crate) async fn supervise(&self, control_plane: &ControlPlane) -> Result<()> {
        let program = std::env::current_exe()?;
        let launch = LaunchOptions::with_name(&self.name)
            .pod(&self.name)
            .lease_seconds(LEASE_SECONDS)
            .variable("RUST_LOG", DEFAULT_FILTER);
        loop {
            if self.should_start()? {
                let process =
                    Operator::start_behind_proxy(control_plane, &program, &self.proxy, &launch);
                let process = process.await?;
                let mut state = self.state.lock();
                state.starts += 1;
                state.process = (state.holds == 0).then_some(process);
            }
            tokio::time::sleep(SUPERVISION_INTERVAL).await;
        }
    }

    fn should_start(&self) -> Result<bool> {
        let mut state = self.state.lock();
        if let Some(process) = &mut state.process
            && process.try_wait()?.is_some()
        {
            state.process = None;
        }
        Ok(state.holds == 0 && state.process.is_none())
    }

    /// Number of processes that were started.
    pub(crate) fn starts(&self) -> usize {
        self.state.lock().starts
    }

    /// Kills the process. It starts again after [`Self::release`].
    pub(crate) fn kill(&self) {
        let mut state = self.state.lock();
        state.holds += 1;
        // Dropping the value kills the process.
        drop(state.process.take());
    }

    pub(crate) fn release(&self) {
        self.state.lock().holds -= 1;
    }

    /// Freezes or thaws the process, if it runs.
    pub(crate) fn signal(&self, signal: ProcessSignal) {
        if let Some(process) = &mut self.state.lock().process {
            // A process that has ended has no state to freeze.
            let _ = process.signal(signal);
        }
    }

    /// Ends the process by SIGTERM, as a rolling update does. The next one starts at once.
    pub(crate) fn restart(&self) {
        let process = {
            let mut state = self.state.lock();
            state.holds += 1;
            state.process.take()
        };
        if let Some(mut process) = process {
            let ends = process.signal(ProcessSignal::Continue);
            // A process that has ended needs no signal.
            let _ = ends.and_then(|()| process.signal(ProcessSignal::Terminate));
        }
        self.release();
    }

    pub(crate) fn process_id(&self) -> Option<u32> {
        self.state.lock().process.as_ref().map(Operator::process_id)
    }

    pub(crate) fn resident_bytes(&self) -> Option<f64> {
        let state = self.state.lock();
        state.process.as_ref()?.resident_bytes().ok()
    }
}
