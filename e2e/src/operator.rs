//! The operator on a control plane: installed from the chart's own files and
//! run under its own ServiceAccount's rights, so that a missing permission
//! fails a test.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::sync::OnceCell;
use trellis_api::{TrainingJob, names};

use crate::control_plane::{ControlPlane, Options};
use crate::process::{Process, Signal};
use crate::proxy::Proxy;
use crate::wait::eventually;

/// Namespace of the operator.
pub const NAMESPACE: &str = "trellis-system";
/// Its ServiceAccount.
pub const ACCOUNT: &str = "trellis-operator";
/// The Lease of who leads.
pub const LEASE: &str = "trellis-operator";

/// How long an API server may take until it takes jobs.
const TAKES_JOBS: Duration = Duration::from_secs(30);

fn chart(file: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../charts/trellis")
        .join(file);
    std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

/// Options of a control plane that knows Trellis' kinds from its start: the
/// garbage collector looks for new kinds only now and then.
///
/// # Errors
/// If the chart's files cannot be read.
pub fn options() -> Result<Options> {
    let manifests = trellis_api::crds::all()
        .iter()
        .map(|crd| chart(&format!("crds/{}.yaml", crd.spec.names.plural)))
        .collect::<Result<_>>()?;
    Ok(Options {
        manifests,
        ..Options::default()
    })
}

/// Installs what the chart has beside the CRDs: roles, admission policies, the default
/// queue and the starter set of policies.
///
/// # Errors
/// If the API server refuses something.
pub async fn install(control_plane: &ControlPlane) -> Result<()> {
    let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n");
    control_plane.apply_yaml(&namespace).await?;
    for file in [
        "templates/rbac.yaml",
        "templates/admission.yaml",
        "templates/queue.yaml",
        "templates/policies.yaml",
    ] {
        control_plane.apply_yaml(&chart(file)?).await?;
    }
    takes_jobs(control_plane).await
}

/// Waits until a job can be created, and is stamped. The API server reads the schemas of kinds
/// that its admission policies change only every 5 seconds: before it has, it takes no job.
///
/// # Errors
/// If that takes too long.
pub async fn takes_jobs(control_plane: &ControlPlane) -> Result<()> {
    let jobs: Api<TrainingJob> = Api::namespaced(control_plane.client(), "default");
    let group = json!({"name": "worker", "image": "registry.example/train:1.0",
        "command": ["train"], "resources": {"cpu": 1, "memory": "1Gi"}});
    let job = json!({"metadata": {"generateName": "try-"}, "spec": {"taskGroups": [group]}});
    let job = serde_json::from_value(job)?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually(TAKES_JOBS, || async {
        let tried: TrainingJob = jobs.create(&dry_run, &job).await?;
        let is_stamped = tried.annotations().contains_key(names::REQUESTED_BY);
        anyhow::ensure!(is_stamped, "a new job is not stamped");
        Ok(())
    })
    .await
}

static OPERATOR: OnceCell<Operator> = OnceCell::const_new();

/// The control plane that all tests of this process share, with one operator on it. The first
/// call starts them.
///
/// # Errors
/// If one of them cannot be started.
pub async fn shared(program: &Path) -> Result<&'static ControlPlane> {
    let options = options()?;
    let control_plane = ControlPlane::shared_with(|| options).await?;
    let start = async || {
        install(control_plane).await?;
        let kubeconfig = control_plane
            .service_account_kubeconfig(NAMESPACE, ACCOUNT)
            .await?;
        // Nobody else is to lead, and a busy machine must not cost it the lease.
        let folder = control_plane.folder().join(SNAPSHOTS);
        std::fs::create_dir_all(&folder)?;
        let launch = Launch::named("operator")
            .lease_seconds(60)
            .argument("--listen=127.0.0.1:0")
            .argument(&format!("--snapshots={}", folder.display()));
        Operator::launch(control_plane, program, &kubeconfig, &launch)
    };
    OPERATOR.get_or_try_init(start).await?;
    Ok(control_plane)
}

/// The operator of [`shared`].
///
/// # Errors
/// If there is none yet.
pub fn of_all() -> Result<&'static Operator> {
    OPERATOR.get().context("the shared operator is not started")
}

/// A control plane of a test's own, with what the chart has beside its operator.
///
/// # Errors
/// If it cannot be started.
pub async fn control_plane() -> Result<ControlPlane> {
    let control_plane = ControlPlane::start(options()?).await?;
    install(&control_plane).await?;
    Ok(control_plane)
}

/// Gives the lease back in the name of an operator that is dead, so that the next one need not
/// wait until it has run out. The term of the dead one stays counted.
///
/// # Errors
/// If there is no lease.
pub async fn give_lease_back(control_plane: &ControlPlane) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(control_plane.client(), NAMESPACE);
    let patch = json!({"spec": {"holderIdentity": ""}});
    leases
        .patch(LEASE, &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    Ok(())
}

/// Where in the control plane's folder the shared operator writes snapshots.
pub const SNAPSHOTS: &str = "snapshots";

/// How an operator is started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Names the process and its log.
    pub name: String,
    /// `--lease-seconds`.
    pub lease_seconds: u64,
    /// What else it is told.
    pub arguments: Vec<String>,
}

impl Launch {
    /// An operator of that name whose lease is as short as can be.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            lease_seconds: 2,
            arguments: Vec::new(),
        }
    }

    /// Tells it this too.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Seconds that its lease is good for.
    #[must_use]
    pub fn lease_seconds(mut self, seconds: u64) -> Self {
        self.lease_seconds = seconds;
        self
    }
}

/// A running operator. Ends with the control plane, or when it is dropped.
#[derive(Debug)]
pub struct Operator {
    process: Process,
}

impl Operator {
    /// Starts `program operator` under the chart's ServiceAccount.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn start(control_plane: &ControlPlane, program: &Path) -> Result<Self> {
        let kubeconfig = control_plane
            .service_account_kubeconfig(NAMESPACE, ACCOUNT)
            .await?;
        Self::start_with(control_plane, program, &kubeconfig)
    }

    /// Starts `program operator` with a kubeconfig, such as one of a proxy.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_with(
        control_plane: &ControlPlane,
        program: &Path,
        kubeconfig: &Path,
    ) -> Result<Self> {
        Self::launch(
            control_plane,
            program,
            kubeconfig,
            &Launch::named("operator"),
        )
    }

    /// Starts `program operator` behind a proxy of its own, under the chart's ServiceAccount.
    ///
    /// # Errors
    /// If one of them cannot be started.
    pub async fn behind_proxy(
        control_plane: &ControlPlane,
        program: &Path,
        launch: &Launch,
    ) -> Result<(Self, Proxy)> {
        let proxy = Proxy::start(control_plane).await?;
        let operator = Self::behind(control_plane, program, &proxy, launch).await?;
        Ok((operator, proxy))
    }

    /// Starts `program operator` behind `proxy`, under the chart's ServiceAccount.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn behind(
        control_plane: &ControlPlane,
        program: &Path,
        proxy: &Proxy,
        launch: &Launch,
    ) -> Result<Self> {
        let token = control_plane
            .service_account_token(NAMESPACE, ACCOUNT)
            .await?;
        let kubeconfig = proxy.kubeconfig(&launch.name, &token)?;
        Self::launch(control_plane, program, &kubeconfig, launch)
    }

    /// Starts `program operator` with a kubeconfig, as `launch` says.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn launch(
        control_plane: &ControlPlane,
        program: &Path,
        kubeconfig: &Path,
        launch: &Launch,
    ) -> Result<Self> {
        let mut arguments = vec![
            format!("KUBECONFIG={}", kubeconfig.display()),
            "RUST_LOG=info,trellis=debug".to_owned(),
            program.display().to_string(),
            "operator".to_owned(),
            format!("--lease-seconds={}", launch.lease_seconds),
        ];
        arguments.extend(launch.arguments.iter().cloned());
        let process = control_plane.spawn(&launch.name, Path::new("env"), &arguments)?;
        Ok(Self { process })
    }

    /// Kills it, as a crash would.
    ///
    /// # Errors
    /// If it has ended before.
    pub fn kill(&mut self) -> Result<()> {
        self.process.signal(Signal::Kill)
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// If it has ended before.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Process id: a part of the identity under which it holds the lease.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// How it ended, or `None` while it lives.
    ///
    /// # Errors
    /// Those of `waitpid`.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.process.ended()
    }

    /// Asserts that it still runs.
    ///
    /// # Panics
    ///
    /// When it has ended: with what it said last.
    pub fn assert_runs(&mut self) {
        let ended = self.ended().unwrap();
        assert!(ended.is_none(), "{ended:?}: {}", self.last_words());
    }

    /// Where its read-only endpoint listens, as it says itself.
    ///
    /// # Errors
    /// If it has not said so in a while.
    pub async fn endpoint(&self) -> Result<String> {
        let said = || -> Result<Option<String>> {
            let log = self.log()?;
            let line = log
                .lines()
                .find(|l| l.contains("read-only endpoint listens"));
            // Its fields are coloured.
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
            if let Some(address) = said()? {
                return Ok(address);
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        anyhow::bail!("no endpoint: {}", self.last_words())
    }

    /// What it has logged, with that of others of its name before it.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn log(&self) -> Result<String> {
        self.process.log()
    }

    /// Bytes of memory that it holds (`VmRSS`).
    ///
    /// # Errors
    /// If it has ended.
    pub fn resident_bytes(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let kilobytes = status
            .lines()
            .find_map(|l| l.strip_prefix("VmRSS:"))
            .and_then(|l| l.split_whitespace().next())
            .context("no VmRSS")?;
        Ok(kilobytes.parse::<f64>()? * 1024.0)
    }

    /// Seconds of CPU that it has used (`utime` and `stime`, in ticks of 10 ms).
    ///
    /// # Errors
    /// If it has ended.
    pub fn processor_seconds(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        let fields = stat.rsplit_once(')').context("no command")?.1;
        let mut ticks = fields.split_whitespace().skip(11).take(2);
        let mut next = || -> Result<f64> { Ok(ticks.next().context("no ticks")?.parse()?) };
        Ok((next()? + next()?) / 100.0)
    }

    /// The last lines of its log.
    #[must_use]
    pub fn last_words(&self) -> String {
        self.process.last_words()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.process.signal(Signal::Kill);
    }
}
