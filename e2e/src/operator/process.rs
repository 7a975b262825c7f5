//! The process of an operator: its start, its end and its state.

use std::path::Path;
use std::process::ExitStatus;

use anyhow::{Context, Result};
use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::{Client, Config};

use crate::control_plane::ControlPlane;
use crate::process::{Process, ProcessSignal};
use crate::programs::OPERATOR_COMMAND;
use crate::proxy::Proxy;

/// The launch configuration of an operator.
#[derive(Debug, Clone)]
pub struct LaunchOptions {
    /// The name of the process and of its log.
    pub name: String,
    /// `--lease-seconds`.
    pub lease_seconds: u64,
    /// Further arguments.
    pub arguments: Vec<String>,
    /// Environment variables.
    pub variables: Vec<String>,
    /// The pod that the operator's token is bound to.
    pub pod: String,
}

impl LaunchOptions {
    /// Creates a launch configuration with this name. The lease is long: an operator that loses its
    /// lease on a busy machine ends, and is not restarted.
    #[must_use]
    pub fn with_name(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            lease_seconds: 60,
            arguments: Vec::new(),
            variables: Vec::new(),
            pod: super::POD.to_owned(),
        }
    }

    /// Adds a command-line argument.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push(format!("{name}={value}"));
        self
    }

    /// Sets the pod that the operator's token is bound to. By it, the API server tells replicas
    /// apart.
    #[must_use]
    pub fn pod(mut self, pod: &str) -> Self {
        pod.clone_into(&mut self.pod);
        self
    }

    /// Sets the duration of the lease in seconds.
    #[must_use]
    pub fn lease_seconds(mut self, seconds: u64) -> Self {
        self.lease_seconds = seconds;
        self
    }
}

/// A running operator. It ends with the control plane, or when this value is dropped.
#[derive(Debug)]
pub struct Operator {
    process: Process,
}

impl Operator {
    /// Starts `program operator` with the chart's ServiceAccount.
    ///
    /// # Errors
    /// If the operator cannot be started.
    pub async fn start(control_plane: &ControlPlane, program: &Path) -> Result<Self> {
        let kubeconfig = super::kubeconfig(control_plane, super::POD).await?;
        Self::start_with_kubeconfig(control_plane, program, &kubeconfig)
    }

    /// Starts `program operator` with a read-only endpoint on a free port.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn start_with_endpoint(control_plane: &ControlPlane, program: &Path) -> Result<Self> {
        let kubeconfig = super::kubeconfig(control_plane, super::POD).await?;
        let launch = LaunchOptions::with_name("operator").argument("--listen=127.0.0.1:0");
        Self::launch_with_options(control_plane, program, &kubeconfig, &launch)
    }

    /// Starts `program operator` with a kubeconfig, such as that of a proxy.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_with_kubeconfig(
        control_plane: &ControlPlane,
        program: &Path,
        kubeconfig: &Path,
    ) -> Result<Self> {
        Self::launch_with_options(
            control_plane,
            program,
            kubeconfig,
            &LaunchOptions::with_name("operator"),
        )
    }

    /// Starts `program operator` behind its own proxy, with the chart's ServiceAccount.
    ///
    /// # Errors
    /// If the proxy or the operator cannot be started.
    pub async fn start_behind_new_proxy(
        control_plane: &ControlPlane,
        program: &Path,
        launch: &LaunchOptions,
    ) -> Result<(Self, Proxy)> {
        let proxy = Proxy::start(control_plane).await?;
        let operator = Self::start_behind_proxy(control_plane, program, &proxy, launch).await?;
        Ok((operator, proxy))
    }

    /// Starts `program operator` behind `proxy`, with the chart's ServiceAccount.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn start_behind_proxy(
        control_plane: &ControlPlane,
        program: &Path,
        proxy: &Proxy,
        launch: &LaunchOptions,
    ) -> Result<Self> {
        let token = super::token(control_plane, &launch.pod).await?;
        let kubeconfig = proxy.kubeconfig(&launch.name, &token)?;
        Self::launch_with_options(control_plane, program, &kubeconfig, launch)
    }

    /// Starts `program operator` with a kubeconfig and a launch configuration.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn launch_with_options(
        control_plane: &ControlPlane,
        program: &Path,
        kubeconfig: &Path,
        launch: &LaunchOptions,
    ) -> Result<Self> {
        let mut arguments = vec![
            format!("KUBECONFIG={}", kubeconfig.display()),
            "RUST_LOG=info,trellis=debug".to_owned(),
            format!("POD_NAME={}", launch.pod),
        ];
        arguments.extend(launch.variables.iter().cloned());
        arguments.extend([
            program.display().to_string(),
            OPERATOR_COMMAND.to_owned(),
            format!("--lease-seconds={}", launch.lease_seconds),
        ]);
        arguments.extend(launch.arguments.iter().cloned());
        let process = control_plane.spawn(&launch.name, Path::new("env"), &arguments)?;
        Ok(Self { process })
    }

    /// Kills the operator by SIGKILL, like a crash.
    ///
    /// # Errors
    /// If the operator has already ended.
    pub fn kill(&mut self) -> Result<()> {
        self.process.signal(ProcessSignal::Kill)
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// If it has ended before.
    pub fn signal(&mut self, signal: ProcessSignal) -> Result<()> {
        self.process.signal(signal)
    }

    /// The process id, which is a part of the lease holder's identity.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.process.process_id()
    }

    /// Returns the exit status. None: the operator still runs.
    ///
    /// # Errors
    /// If `waitpid` fails.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        self.process.try_wait()
    }

    /// Asserts that the operator still runs.
    ///
    /// # Panics
    ///
    /// When the operator has ended; the message has its last output.
    pub fn assert_runs(&mut self) {
        let ended = self.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?}: {}", self.log_tail());
    }

    /// Returns the address of the read-only endpoint, from the log.
    ///
    /// # Errors
    /// If the log does not have the address in time.
    pub async fn wait_for_endpoint(&self) -> Result<String> {
        self.wait_for_listen_address("read-only endpoint").await
    }

    /// The address of its health endpoint, from its log.
    ///
    /// # Errors
    /// If the log does not have the address in time.
    pub async fn wait_for_health_address(&self) -> Result<String> {
        self.wait_for_listen_address("health").await
    }

    /// Reads `/readyz`: whether the operator is ready, and the body of the response. Requires an
    /// operator that serves health (`--health`).
    ///
    /// # Errors
    /// If the operator does not answer.
    pub async fn read_readiness(&self) -> Result<(bool, String)> {
        let address = format!("http://{}", self.wait_for_health_address().await?);
        let client = Client::try_from(Config::new(address.parse()?))?;
        let request = Request::get("/readyz").body(Body::empty())?;
        let answer = client.send(request).await?;
        let is_ready = answer.status().is_success();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((is_ready, String::from_utf8(body.to_vec())?))
    }

    async fn wait_for_listen_address(&self, what: &str) -> Result<String> {
        let what = format!("{what} listens");
        let find_address = || -> Result<Option<String>> {
            let log = self.read_log()?;
            let line = log.lines().find(|line| line.contains(&what));
            // The fields of a log line have colours.
            let port = line.and_then(|l| l.rsplit_once("127.0.0.1:"));
            let digits = |port: &str| {
                port.split(|c: char| !c.is_ascii_digit())
                    .next()
                    .map(str::to_owned)
            };
            let port = port.and_then(|(_, port)| digits(port));
            Ok(port.map(|port| format!("127.0.0.1:{port}")))
        };
        for _ in 0..300 {
            if let Some(address) = find_address()? {
                return Ok(address);
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        anyhow::bail!("no endpoint: {}", self.log_tail())
    }

    /// The log of the operator and of all earlier operators with its name.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn read_log(&self) -> Result<String> {
        self.process.read_log()
    }

    /// Returns the resident memory in bytes (`VmRSS`).
    ///
    /// # Errors
    /// If the operator has ended.
    pub fn resident_bytes(&self) -> Result<f64> {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.process_id()))?;
        let kilobytes = status
            .lines()
            .find_map(|l| l.strip_prefix("VmRSS:"))
            .and_then(|l| l.split_whitespace().next())
            .context("no VmRSS")?;
        Ok(kilobytes.parse::<f64>()? * 1024.0)
    }

    /// Returns the used CPU time in seconds.
    ///
    /// # Errors
    /// If it has ended.
    pub fn cpu_seconds(&self) -> Result<f64> {
        process_cpu_seconds(self.process.process_id())
    }

    /// Returns the last lines of the log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }
}

/// Returns the used CPU time of a process in seconds.
///
/// # Errors
/// If the process has ended, or this machine does not run Linux.
pub fn process_cpu_seconds(process: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The process name may have spaces, so the fields are counted after it. utime and stime are the
    // 12th and 13th of these, in hundredths of a second (proc_pid_stat(5), and USER_HZ on every
    // Linux).
    let (_, fields) = stat.rsplit_once(')').context("no name")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: Result<Vec<u64>, _> = ticks.map(str::parse).collect();
    Ok(ticks?.iter().sum::<u64>() as f64 / 100.0)
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.process.signal(ProcessSignal::Kill);
    }
}
