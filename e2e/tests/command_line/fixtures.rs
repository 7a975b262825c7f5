//! The shared control plane and operator of these tests.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::sync::OnceCell;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::{ControlPlane, free_port};
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::visibility;

pub(crate) fn trellis_program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_trellis-under-test"))
}

/// A control plane whose API server forwards requests to an operator.
pub(crate) struct CommandLineFixture {
    pub(crate) control_plane: ControlPlane,
    pub(crate) operator: Operator,
}

impl CommandLineFixture {
    /// Creates a scene for one test.
    pub(crate) async fn new() -> Result<Self> {
        let control_plane = operator::start_control_plane().await?;
        let port = free_port()?;
        visibility::install(&control_plane, port).await?;
        let operator = visibility::start(&control_plane, trellis_program(), port).await?;
        let availability = visibility::wait_for_availability(&control_plane, true).await;
        availability.with_context(|| operator.log_tail())?;
        Ok(Self {
            control_plane,
            operator,
        })
    }

    /// Creates a site for one test, with this many nodes of 8 GPUs.
    pub(crate) async fn create_site(&self, prefix: &str, nodes: usize) -> TestSite {
        TestSite::new(
            &self.control_plane,
            prefix,
            NodeTemplate::new(nodes).gpus(8),
        )
        .await
    }

    /// Runs `trellis` as an administrator.
    pub(crate) async fn run_trellis(&self, arguments: &[&str]) -> CommandOutput {
        run_trellis_with(&self.control_plane.kubeconfig(), arguments, "").await
    }

    /// Runs `trellis` with `input` on its standard input.
    pub(crate) async fn run_with_input(&self, arguments: &[&str], input: &str) -> CommandOutput {
        run_trellis_with(&self.control_plane.kubeconfig(), arguments, input).await
    }

    /// Runs `trellis` as a user, with `input` on its standard input.
    pub(crate) async fn run_as_user(
        &self,
        user: &str,
        arguments: &[&str],
        input: &str,
    ) -> CommandOutput {
        let kubeconfig = self.control_plane.kubeconfig_for_user(user, &[]);
        run_trellis_with(&kubeconfig.unwrap(), arguments, input).await
    }

    /// Runs `trellis` as a ServiceAccount of the site that may `view` its namespace.
    pub(crate) async fn run_as_viewer(&self, site: &TestSite, arguments: &[&str]) -> CommandOutput {
        let viewer = visibility::viewer_kubeconfig(&self.control_plane, site.name()).await;
        run_trellis_with(&viewer.unwrap(), arguments, "").await
    }
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    /// Parses the output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the line of the output with this word.
    pub(crate) fn line_with(&self, word: &str) -> &str {
        let mut lines = self.out.lines();
        let line = lines.find(|line| line.split_whitespace().any(|column| column == word));
        line.unwrap_or_else(|| panic!("no {word:?} in {self:?}"))
    }
}

pub(crate) async fn run_trellis_with(
    kubeconfig: &Path,
    arguments: &[&str],
    input: &str,
) -> CommandOutput {
    let mut command = Command::new(trellis_program());
    command.args(arguments);
    run_command(command, kubeconfig, input).await
}

/// Runs a command, and returns its result.
pub(crate) async fn run_command(
    mut command: Command,
    kubeconfig: &Path,
    input: &str,
) -> CommandOutput {
    let mut child = command
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    CommandOutput {
        status: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

static SHARED: OnceCell<CommandLineFixture> = OnceCell::const_new();

pub(crate) async fn shared_fixture() -> &'static CommandLineFixture {
    SHARED
        .get_or_try_init(CommandLineFixture::new)
        .await
        .unwrap()
}
