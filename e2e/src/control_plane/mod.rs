//! A real control plane as plain processes: etcd, kube-apiserver, kube-controller-manager, and kwok
//! instead of kubelets.

mod access;
mod apply;
pub mod audit;
mod component;
mod credentials;
pub(crate) mod egress;
mod folder;
mod front_proxy;
mod kubeconfig;
mod kwok_configuration;
mod options;
mod ports;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use kube::{Client, Config};
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep, timeout},
};

pub use apply::{FIELD_MANAGER, apply};
pub use component::Component;
pub(crate) use component::{KWOK_ANNOTATION, KWOK_LABEL};
use credentials::{Credentials, TokenUser};
pub use front_proxy::{FRONT_PROXY, NOT_THE_FRONT_PROXY};
pub(crate) use kubeconfig::KubeconfigWriter;
pub use options::{ControlPlaneOptions, Kubelets};
use ports::ComponentPorts;
pub use ports::free_port;

use crate::{
    binaries::{Binaries, Executable},
    oracle::{FaultLog, Oracle},
    process::{Process, ProcessGroup},
};

pub use crate::oracle::ActiveFault;
pub use crate::process::ProcessSignal;

/// Longest time until a component is ready. An idle machine needs far less.
const READY_TIMEOUT: Duration = Duration::from_secs(90);

/// The address of the Service `kubernetes`, the first address of the Service range
/// (`component.rs`).
pub(crate) const SERVICE_ADDRESS: &str = "10.96.0.1";

static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();

/// A running control plane. It ends when this value is dropped or the process that started it dies,
/// even by SIGKILL. Its folder is deleted then.
#[derive(Debug)]
pub struct ControlPlane {
    options: ControlPlaneOptions,
    binaries: Binaries,
    ports: ComponentPorts,
    credentials: Credentials,
    processes: Mutex<BTreeMap<Component, Process>>,
    group: ProcessGroup,
    faults: FaultLog,
    /// Components that a test has frozen or killed.
    disturbed: Mutex<BTreeMap<Component, ActiveFault>>,
    oracle: OnceLock<Arc<Oracle>>,
}

impl ControlPlane {
    /// Starts another program, which ends with the control plane.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub fn spawn(&self, name: &str, program: &Path, arguments: &[String]) -> Result<Process> {
        self.group.spawn(name, program, arguments)
    }

    /// Starts a control plane and waits until it is ready. This takes about 5 s, and minutes the
    /// first time on a machine, to build the programs.
    ///
    /// # Errors
    ///
    /// When a program is missing and cannot be built, or a component does not become ready
    /// (with the last lines of its log).
    pub async fn start(options: ControlPlaneOptions) -> Result<Self> {
        const START_ATTEMPTS: u32 = 3;
        let binaries =
            tokio::task::spawn_blocking(|| Binaries::find_or_build(&Executable::CONTROL_PLANE))
                .await??;
        let mut attempt = 1;
        loop {
            match Self::start_once(&options, &binaries).await {
                // Another process has taken a port since the search.
                Err(error)
                    if attempt < START_ATTEMPTS
                        && format!("{error:#}").contains("address already in use") =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// Returns the control plane that all tests of this process share. The first call starts it,
    /// and it ends with the process.
    ///
    /// # Errors
    ///
    /// Those of [`ControlPlane::start`].
    pub async fn shared() -> Result<&'static Self> {
        Self::shared_with(ControlPlaneOptions::default).await
    }

    /// Like [`ControlPlane::shared`]. If this call starts the control plane, it has these options.
    ///
    /// # Errors
    ///
    /// Those of [`ControlPlane::start`].
    pub async fn shared_with(
        options: impl FnOnce() -> ControlPlaneOptions,
    ) -> Result<&'static Self> {
        SHARED.get_or_try_init(|| Self::start(options())).await
    }

    async fn start_once(options: &ControlPlaneOptions, binaries: &Binaries) -> Result<Self> {
        let folder = folder::create_folder()?;
        let group = ProcessGroup::new(folder.clone(), !options.keep_folder)?;
        let this = Self {
            options: options.clone(),
            binaries: binaries.clone(),
            ports: ComponentPorts::find()?,
            credentials: Credentials::create(&folder)?,
            processes: Mutex::default(),
            group,
            faults: FaultLog::default(),
            disturbed: Mutex::default(),
            oracle: OnceLock::new(),
        };
        let url = this.url();
        let admin = serde_json::json!({"token": this.credentials.token(TokenUser::Admin)});
        this.kubeconfig_writer().write("admin", &url, &admin)?;
        this.launch_component(Component::Etcd).await?;
        this.launch_component(Component::ApiServer).await?;
        for manifest in &this.options.manifests {
            this.apply_yaml(manifest).await?;
        }
        let kwok = async {
            match this.options.kubelets {
                Kubelets::Kwok => this.launch_component(Component::Kwok).await,
                Kubelets::Real | Kubelets::None => Ok(()),
            }
        };
        tokio::try_join!(this.launch_component(Component::ControllerManager), kwok)?;
        crate::wait::wait_for_default_account(&this.client(), "default").await?;
        Ok(this)
    }

    /// Returns the address of the API server: `https://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.api_server)
    }

    /// The folder of the control plane, which is deleted at the end.
    pub fn folder(&self) -> &Path {
        self.group.folder()
    }

    /// The folder with one log file per component.
    pub fn logs_folder(&self) -> PathBuf {
        self.folder().join("logs")
    }

    /// The programs of the control plane.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// The options of the control plane.
    pub fn options(&self) -> &ControlPlaneOptions {
        &self.options
    }

    /// The port at which kwok serves the logs of simulated pods, if
    /// [`ControlPlaneOptions::pod_log`] defines any.
    pub(crate) fn kubelet_port(&self) -> Option<u16> {
        let has_logs = kwok_configuration::has_pod_logs(&self.options);
        has_logs.then_some(self.ports.kwok)
    }

    /// Ends the control plane, like dropping it.
    pub fn stop(self) {
        drop(self);
    }

    /// Freezes, thaws or kills one component. A killed component stays dead until
    /// [`ControlPlane::restart`].
    ///
    /// # Errors
    ///
    /// When the component does not run.
    pub fn signal(&self, component: Component, signal: ProcessSignal) -> Result<()> {
        let mut disturbed = self.disturbed();
        match signal {
            ProcessSignal::Continue => drop(disturbed.remove(&component)),
            _ => drop(disturbed.insert(component, self.faults.begin())),
        }
        self.processes()
            .get_mut(&component)
            .ok_or_else(|| anyhow!("{} was never started", component.name()))?
            .signal(signal)
    }

    /// Tells the oracle that a fault lasts until the returned value is dropped, such as a signal
    /// to an operator.
    pub fn begin_fault(&self) -> ActiveFault {
        self.faults.begin()
    }

    /// The faults that tests inject.
    pub(crate) fn faults(&self) -> &FaultLog {
        &self.faults
    }

    /// Returns the oracle of this control plane. The first call starts it.
    pub(crate) fn oracle(&self) -> &Arc<Oracle> {
        let start = || Arc::new(Oracle::start(self.client_config(), self.faults.clone()));
        self.oracle.get_or_init(start)
    }

    fn disturbed(&self) -> MutexGuard<'_, BTreeMap<Component, ActiveFault>> {
        self.disturbed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the process id of one component, to measure it.
    ///
    /// # Errors
    ///
    /// When the component was never started.
    pub fn process_id(&self, component: Component) -> Result<u32> {
        self.processes()
            .get(&component)
            .map(Process::process_id)
            .ok_or_else(|| anyhow!("{} was never started", component.name()))
    }

    /// Kills a component if it still runs, starts it again with the same data, port and flags, and
    /// waits until it is ready. A new kwok manages the nodes only after the Leases of the old one
    /// have expired.
    ///
    /// # Errors
    ///
    /// When the component does not become ready.
    pub async fn restart(&self, component: Component) -> Result<()> {
        // Dropping the process kills it.
        let fault = self.faults.begin();
        drop(self.processes().remove(&component));
        self.launch_component(component).await?;
        self.disturbed().remove(&component);
        drop(fault);
        Ok(())
    }

    async fn launch_component(&self, component: Component) -> Result<()> {
        let flags = component.flags(self.folder(), self.ports, &self.credentials, &self.options)?;
        let program = self.binaries.path(component.program());
        let process = self.group.spawn(component.name(), program, &flags)?;
        self.processes().insert(component, process);
        self.wait_until_ready(component).await.with_context(|| {
            let last_words = self.processes().get(&component).map(Process::log_tail);
            format!(
                "{} did not start; {}",
                component.name(),
                last_words.unwrap_or_default()
            )
        })
    }

    async fn wait_until_ready(&self, component: Component) -> Result<()> {
        const LIVENESS_INTERVAL: Duration = Duration::from_secs(2);
        let (server, path) = component.health_url(self.ports);
        let client = Client::try_from(self.client_config_for(&server, TokenUser::Admin)?)?;
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let request = http::Request::get(path).body(Vec::new())?;
            let answer = timeout(LIVENESS_INTERVAL, client.request_text(request)).await;
            if matches!(answer, Ok(Ok(_))) {
                return Ok(());
            }
            self.check_alive(component)?;
            if Instant::now() > deadline {
                bail!("not ready after {READY_TIMEOUT:?} ({answer:?})");
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn check_alive(&self, component: Component) -> Result<()> {
        match self.processes().get_mut(&component).map(Process::try_wait) {
            Some(Ok(None)) => Ok(()),
            Some(Ok(Some(status))) => bail!("the process ended with {status}"),
            Some(Err(error)) => Err(error),
            None => bail!("the process was removed during its start"),
        }
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<Component, Process>> {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the client configuration for `server` as `identity`, without automatic retries.
    fn client_config_for(&self, server: &str, identity: TokenUser) -> Result<Config> {
        let token = serde_json::json!({"token": self.credentials.token(identity)});
        let mut config = Config::new(server.parse()?);
        config.root_cert = Some(vec![self.credentials.ca.clone()]);
        config.auth_info = serde_json::from_value(token)?;
        config.default_retry = false;
        Ok(config)
    }
}
