//! A reverse proxy in front of the API server that counts requests and injects faults on demand.
//!
//! The proxy accepts plain HTTP on 127.0.0.1 and connects to the real API server with TLS. It
//! forwards the `Authorization` header, so that the API server sees the real user. The proxy is for
//! kube-rs clients: client-go clients (kubectl, helm) send no token over plain HTTP.

mod counts;
mod fault;
mod request;
mod server;
mod state;
mod trap;
mod watch;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, PoisonError, mpsc},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::oneshot};

pub use counts::{RequestCounts, RequestKey, TrafficTotals};
pub use fault::ProxyFault;
pub use request::{Request, Verb};
pub use trap::{TrapHandle, TrapTiming};

use crate::control_plane::{ControlPlane, KubeconfigWriter};
use server::Upstream;
use state::{FaultKind, ProxyState, set_value};
use trap::Trap;

/// A running proxy. When this value is dropped, the proxy and all its connections end. It has its
/// own threads, so that a blocked test does not block it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<ProxyState>,
    kubeconfigs: KubeconfigWriter,
    /// Dropping the sender ends the thread.
    _stop: oneshot::Sender<()>,
}

impl Proxy {
    /// Starts a proxy in front of the API server of `control_plane`.
    ///
    /// # Errors
    ///
    /// When no port is free.
    pub async fn start(control_plane: &ControlPlane) -> Result<Self> {
        let upstream = Upstream::new(control_plane)?;
        let state = Arc::new(ProxyState {
            faults: control_plane.faults().clone(),
            ..ProxyState::default()
        });
        let (stop, stopped) = oneshot::channel();
        let (address_sender, address_receiver) = mpsc::channel();
        let shared = Arc::clone(&state);
        thread::Builder::new().name("proxy".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .thread_name("proxy")
                .enable_all()
                .build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(address_sender.send(Err(error))),
            };
            runtime.block_on(async {
                let listener = match TcpListener::bind(("127.0.0.1", 0)).await {
                    Ok(listener) => listener,
                    Err(error) => return drop(address_sender.send(Err(error))),
                };
                drop(address_sender.send(listener.local_addr()));
                tokio::select! {
                    () = server::serve_connections(listener, upstream, shared) => {}
                    _ = stopped => {}
                }
            });
            runtime.shutdown_background();
        })?;
        let address = tokio::task::spawn_blocking(move || address_receiver.recv()).await??;
        let address = address.context("start the proxy")?;
        let kubeconfigs = control_plane.kubeconfig_writer();
        Ok(Self {
            address,
            state,
            kubeconfigs,
            _stop: stop,
        })
    }

    /// Returns the address: `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Creates a client that uses this proxy with `token`, without automatic retries. The client
    /// belongs to the current runtime.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid, which is a bug here.
    pub fn client(&self, token: &str) -> Result<Client> {
        let mut config = Config::new(self.url().parse()?);
        config.auth_info = serde_json::from_value(json!({"token": token}))?;
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }

    /// Writes a kubeconfig for this proxy with `token`.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn kubeconfig(&self, name: &str, token: &str) -> Result<PathBuf> {
        let name = format!("{name}-by-{}", self.address.port());
        self.kubeconfigs
            .write(&name, &self.url(), &json!({"token": token}))
    }

    /// Sets the hook that selects the fault of each request. It replaces the previous hook. The
    /// proxy's threads call it, so it must not block.
    pub fn on_request(&self, hook: impl Fn(&Request) -> ProxyFault + Send + Sync + 'static) {
        set_value(&self.state.hook, Some(Arc::new(hook)));
        self.state.end_fault(FaultKind::Hook);
    }

    /// Removes all faults: the hook, the trap, stalled watches and lost events. Held requests pass.
    pub fn remove_faults(&self) {
        set_value(&self.state.hook, None);
        self.set_trap(None);
        set_value(&self.state.lost_event_filter, None);
        self.resume_watches();
        self.release_held_requests();
        self.state.end_faults();
    }

    /// Lets the requests pass that the proxy holds. Other faults stay.
    pub fn release_held_requests(&self) {
        self.state.release_signal.send_replace(());
    }

    /// Calls `callback` when the API server has accepted the `k`-th matching write, counted from 1
    /// from now on. `moment` determines whether the client has the answer by then. The API server
    /// accepts exactly `k` such writes before the callback returns. Later writes wait, and the proxy
    /// cuts their connections when the callback returns, because the client should be dead by then.
    /// Dry runs do not count as writes.
    pub fn call_after_write(
        &self,
        k: u64,
        moment: TrapTiming,
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
        callback: impl FnOnce() + Send + 'static,
    ) -> TrapHandle {
        let faults = self.state.faults.clone();
        let (trap, fired) = Trap::new(k, moment, Arc::new(matches), Box::new(callback), faults);
        self.set_trap(Some(Arc::new(trap)));
        fired
    }

    fn set_trap(&self, trap: Option<Arc<Trap>>) {
        let mut current = self
            .state
            .trap
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = std::mem::replace(&mut *current, trap) {
            old.disarm();
        }
    }

    /// Holds back the events of the matching watches, both running and later ones, without closing
    /// them.
    pub fn stall_watches(&self, matches: impl Fn(&Request) -> bool + Send + Sync + 'static) {
        self.state.begin_fault(FaultKind::StalledWatches);
        self.state
            .stall_filter
            .send_replace(Some(Arc::new(matches)));
    }

    /// Delivers the held events of stalled watches, and all later events.
    pub fn resume_watches(&self) {
        self.state.stall_filter.send_replace(None);
        self.state.end_fault(FaultKind::StalledWatches);
    }

    /// Ends the matching running watches, as the API server does after their timeout.
    pub fn cut_watches(&self, matches: impl Fn(&Request) -> bool + Send + Sync + 'static) {
        self.state.cut_filter.send_replace(Some(Arc::new(matches)));
    }

    /// Drops every watch event for which `loses` returns true. `loses` gets the watch and the event
    /// (`{"type": "MODIFIED", "object": ...}`).
    pub fn drop_events(&self, loses: impl Fn(&Request, &Value) -> bool + Send + Sync + 'static) {
        self.state.begin_fault(FaultKind::LostEvents);
        set_value(&self.state.lost_event_filter, Some(Arc::new(loses)));
    }

    /// Returns the counts of the requests since the start or the last [`Proxy::reset_counts`].
    pub fn counts(&self) -> RequestCounts {
        self.state
            .counts
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Sets all counts to zero.
    pub fn reset_counts(&self) {
        set_value(&self.state.counts, RequestCounts::default());
    }

    /// Waits until no request has arrived for `quiet`, and returns the counts. Running watches do
    /// not count.
    pub async fn wait_until_quiet(&self, quiet: Duration) -> RequestCounts {
        let mut before = self.counts();
        loop {
            tokio::time::sleep(quiet).await;
            let now = self.counts();
            if now.total_requests() == before.total_requests() {
                return now;
            }
            before = now;
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.end_faults();
    }
}
