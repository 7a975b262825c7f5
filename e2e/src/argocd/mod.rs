//! Argo CD on a test control plane, with its own repo-server and application-controller. Also
//! kstatus, the library that Flux uses to compute the status of objects.

mod application;
mod build;
mod judgement;
mod objects;
mod processes;
mod repository;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use tokio::time::{Instant, sleep};

use crate::control_plane::{ControlPlane, free_port};
use crate::process::{Process, ProcessGroup};

pub use application::{Application, ApplicationState};
pub use build::{GitOpsProgram, unavailable_reason};
pub use judgement::{Judgement, judge_health, judge_kstatus};
pub use repository::Repository;

/// Namespace of Argo CD and its Applications.
pub const NAMESPACE: &str = "argocd";

/// Longest time until the programs listen, on a busy machine.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Greatest number of reported errors.
const MAX_REPORTED_ERRORS: usize = 5;

/// A running Argo CD with all rights on one control plane. It ends when this value is dropped,
/// before the control plane ends.
pub struct ArgoCd {
    client: Client,
    processes: Vec<Process>,
    /// The process group of the programs above, with their folder.
    group: ProcessGroup,
}

impl std::fmt::Debug for ArgoCd {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("ArgoCd")
            .field(&self.processes)
            .finish()
    }
}

impl ArgoCd {
    /// Starts Argo CD with the settings of its own manifests. `settings` are further entries of the
    /// ConfigMap `argocd-cm`; `tools` contains programs that Argo CD runs besides Kustomize. The
    /// first call builds Argo CD, so check [`unavailable_reason`] before.
    ///
    /// # Errors
    ///
    /// When Argo CD cannot be built or does not start; the error has its last output.
    pub async fn start(
        control_plane: &ControlPlane,
        settings: &[(&str, &str)],
        tools: &[&Path],
    ) -> Result<Self> {
        let program =
            tokio::task::spawn_blocking(|| GitOpsProgram::ArgoCd.find_or_build()).await??;
        objects::install(control_plane, &program, settings).await?;
        let folder = tempfile::Builder::new().prefix("trellis-").tempdir()?;
        let folder = folder.keep();
        let group = ProcessGroup::new(folder.clone(), !control_plane.options().keep_folder)?;
        let ports = processes::ArgoCdPorts {
            redis: free_port()?,
            repo_server: free_port()?,
            repo_server_metrics: free_port()?,
            controller_metrics: free_port()?,
        };
        let environment = processes::environment(&folder, &program, tools, control_plane)?;
        let mut argocd = Self {
            client: control_plane.client(),
            processes: Vec::new(),
            group,
        };
        argocd
            .launch(
                "redis",
                &processes::redis_command(&program, ports),
                ports.redis,
            )
            .await?;
        let mut server = environment.clone();
        server.extend(processes::repo_server_command(&program, ports));
        argocd
            .launch("repo-server", &server, ports.repo_server)
            .await?;
        let mut controller = environment;
        controller.extend(processes::controller_command(&program, ports));
        let metrics = ports.controller_metrics;
        argocd
            .launch("application-controller", &controller, metrics)
            .await?;
        Ok(argocd)
    }

    /// Starts `env COMMAND...` and waits until the program listens.
    async fn launch(&mut self, name: &str, command: &[String], port: u16) -> Result<()> {
        let mut process = self.group.spawn(name, Path::new("env"), command)?;
        let deadline = Instant::now() + READY_TIMEOUT;
        while tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .is_err()
        {
            let ended = process.try_wait()?;
            ensure!(
                ended.is_none() && Instant::now() < deadline,
                "{name} of Argo CD does not listen; {}",
                process.log_tail()
            );
            sleep(Duration::from_millis(50)).await;
        }
        self.processes.push(process);
        Ok(())
    }

    /// Creates an Application, for example from [`application_manifest`].
    ///
    /// # Errors
    ///
    /// The API server's refusal.
    pub async fn create_application(&self, application: &serde_json::Value) -> Result<Application> {
        let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "Application");
        let kind = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), NAMESPACE, &kind);
        let object: DynamicObject = serde_json::from_value(application.clone())?;
        let created = api.create(&Default::default(), &object).await?;
        let name = created
            .metadata
            .name
            .context("an Application without a name")?;
        Ok(Application::new(api, name))
    }

    /// Returns the last errors in the logs of Argo CD, for the message of a failed test.
    #[must_use]
    pub fn recent_errors(&self) -> String {
        let logs: Vec<String> = self.processes.iter().flat_map(Process::read_log).collect();
        let lines = logs.iter().flat_map(|log| log.lines());
        let wrong = |line: &&str| ["error", "fatal", "panic"].iter().any(|w| line.contains(w));
        let mut wrong: Vec<&str> = lines
            .rev()
            .filter(wrong)
            .take(MAX_REPORTED_ERRORS)
            .collect();
        wrong.reverse();
        format!("the last errors of Argo CD:\n{}", wrong.join("\n"))
    }
}

/// Returns an Application for a folder of a repository and one namespace, with automatic sync,
/// pruning and self-healing. The caller may change it before [`ArgoCd::create_application`].
#[must_use]
pub fn application_manifest(
    name: &str,
    repository: &Repository,
    path: &str,
    namespace: &str,
) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {
            "name": name,
            "finalizers": ["resources-finalizer.argocd.argoproj.io"],
        },
        "spec": {
            "project": "default",
            "source": {"repoURL": repository.url(), "targetRevision": "HEAD", "path": path},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": namespace},
            "syncPolicy": {"automated": {"prune": true, "selfHeal": true}},
        },
    })
}
