//! Helm, and the chart of Trellis.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tempfile::{NamedTempFile, TempDir};

use crate::binaries::{Binaries, Executable, KubernetesVersion};
use crate::control_plane::ControlPlane;

/// Name of the release.
pub const RELEASE_NAME: &str = "trellis";

/// The folder of the chart.
#[must_use]
pub fn chart_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/trellis")
}

/// Helm with its own settings folder.
#[derive(Debug)]
pub struct Helm {
    program: PathBuf,
    home: TempDir,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    /// Returns Helm 4 without a cluster. The first call on a machine builds it in three minutes.
    ///
    /// # Errors
    ///
    /// When Helm cannot be built.
    pub fn find_or_build() -> Result<Self> {
        Self::from_program(Executable::Helm)
    }

    /// Returns why Helm 3 is not available on this machine, in one line.
    #[must_use]
    pub fn helm_3_unavailable_reason() -> Option<String> {
        Binaries::unavailable_reason(Executable::Helm3, "Helm 3", "2 minutes")
    }

    /// Returns Helm 3 without a cluster.
    ///
    /// # Errors
    ///
    /// When it cannot be built.
    pub fn find_or_build_helm_3() -> Result<Self> {
        Self::from_program(Executable::Helm3)
    }

    fn from_program(program: Executable) -> Result<Self> {
        let binaries = Binaries::find_or_build(&[program])?;
        Ok(Self {
            program: binaries.path(program).to_owned(),
            home: tempfile::tempdir()?,
            kubeconfig: None,
        })
    }

    /// Returns Helm for a control plane, as a user with all rights.
    #[must_use]
    pub fn with_control_plane(self, control_plane: &ControlPlane) -> Self {
        Self {
            kubeconfig: Some(control_plane.kubeconfig()),
            ..self
        }
    }

    /// Returns the folder of the program, for a `PATH`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.program.parent().unwrap_or(Path::new("."))
    }

    /// Runs Helm.
    ///
    /// # Errors
    ///
    /// When Helm cannot be started. A failure of Helm itself is in the output.
    pub fn run(&self, arguments: &[&str]) -> Result<Output> {
        let mut helm = Command::new(&self.program);
        helm.args(arguments).env_remove("KUBECONFIG");
        for kind in ["CACHE", "CONFIG", "DATA"] {
            helm.env(format!("HELM_{kind}_HOME"), self.home.path().join(kind));
        }
        // Otherwise Helm knows the kinds of an earlier control plane that had the same port.
        helm.env("KUBECACHEDIR", self.home.path().join("discovery"));
        if let Some(kubeconfig) = &self.kubeconfig {
            helm.env("KUBECONFIG", kubeconfig);
        }
        helm.output().context("start helm")
    }

    /// Runs Helm and returns its output.
    ///
    /// # Errors
    ///
    /// When Helm fails; the error has its output.
    pub fn run_ok(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments)?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("helm {}: {}", arguments.join(" "), stderr.trim_end());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Runs `helm COMMAND trellis CHART` in a namespace, with these values and arguments.
    ///
    /// # Errors
    ///
    /// When Helm fails; the error has Helm's output.
    pub fn run_chart_command(
        &self,
        command: &str,
        namespace: &str,
        values: &Value,
        flags: &[&str],
    ) -> Result<String> {
        let file = NamedTempFile::new_in(self.home.path())?;
        fs::write(&file, values.to_string())?;
        let (chart, path) = (
            chart_folder().display().to_string(),
            file.path().display().to_string(),
        );
        let mut arguments = vec![command, RELEASE_NAME, &chart];
        arguments.extend(["--namespace", namespace, "--values", &path]);
        arguments.extend(flags);
        self.run_ok(&arguments)
    }

    /// Renders the chart with these values, and returns its objects in their order.
    ///
    /// # Errors
    ///
    /// When Helm refuses the values, or the output is no YAML.
    pub fn render_objects(&self, namespace: &str, values: &Value) -> Result<Vec<Value>> {
        self.render_with(namespace, values, &[])
    }

    /// Like [`Self::render_objects`], for the version of Kubernetes that the tests run on.
    ///
    /// # Errors
    ///
    /// Those of [`Self::render_objects`].
    pub fn render_for_cluster(&self, namespace: &str, values: &Value) -> Result<Vec<Value>> {
        let version = KubernetesVersion::chosen()?.release();
        self.render_with(namespace, values, &[&format!("--kube-version={version}")])
    }

    fn render_with(&self, namespace: &str, values: &Value, flags: &[&str]) -> Result<Vec<Value>> {
        let text = self.run_chart_command("template", namespace, values, flags)?;
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text)?;
        Ok(objects.into_iter().filter(|o| !o.is_null()).collect())
    }
}
