//! The cluster that all browser tests share.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error, Result};
use tokio::sync::Mutex;
use trellis_e2e::cluster::{NodeSet, NodeTemplate};
use trellis_e2e::control_plane::{ControlPlane, free_port};
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::visibility;

use super::acts::{self, Act};
use super::users;

/// Number of GPU nodes, with eight GPUs each.
const GPU_NODES: usize = 12;

/// Number of nodes without GPUs.
const CPU_NODES: usize = 2;

/// The program that is `trellis` and the operator.
pub(crate) fn trellis_program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_trellis-under-test"))
}

/// A control plane with nodes, users and the operator.
pub(crate) struct World {
    pub(crate) control_plane: ControlPlane,
    folder: tempfile::TempDir,
    port: u16,
    /// None: a test has stopped it.
    operator: Mutex<Option<Operator>>,
    _nodes: [NodeSet; 2],
}

impl World {
    /// Starts all of it.
    pub(crate) async fn start() -> Result<Self> {
        let control_plane = operator::start_control_plane().await?;
        let nodes = [
            NodeTemplate::new(GPU_NODES)
                .gpus(8)
                .blocks()
                .create(&control_plane)
                .await?,
            NodeTemplate::new(CPU_NODES)
                .name("cpu-{i}")
                .gpus(0)
                .create(&control_plane)
                .await?,
        ];
        operator::install_chart_objects(&control_plane).await?;
        let port = free_port()?;
        visibility::install(&control_plane, port).await?;
        let folder = tempfile::tempdir()?;
        for part in ["users", "acts"] {
            std::fs::create_dir(folder.path().join(part))?;
        }
        users::create(&control_plane, &folder.path().join("users")).await?;
        let world = Self {
            control_plane,
            folder,
            port,
            operator: Mutex::new(None),
            _nodes: nodes,
        };
        world.start_operator().await?;
        Ok(world)
    }

    /// A token of this user.
    pub(crate) async fn token(&self, user: &str) -> Result<String> {
        let accounts = users::ACCOUNTS;
        self.control_plane
            .service_account_token(accounts, user)
            .await
    }

    /// The folder with the kubeconfigs of the users.
    pub(crate) fn users_folder(&self) -> PathBuf {
        self.folder.path().join("users")
    }

    /// The folder in which tests ask for acts.
    pub(crate) fn acts_folder(&self) -> PathBuf {
        self.folder.path().join("acts")
    }

    /// The last lines of the operator's log.
    pub(crate) async fn operator_log(&self) -> String {
        let operator = self.operator.lock().await;
        let operator = operator.as_ref();
        operator.map_or_else(|| "stopped".to_owned(), Operator::log_tail)
    }

    /// Does what tests ask for. Returns only when an act has failed.
    pub(crate) async fn serve_acts(&self) -> Error {
        let folder = self.acts_folder();
        loop {
            let act = acts::next_act(&folder).await;
            let acted = match act {
                Act::StopOperator => self.stop_operator().await,
                Act::StartOperator => self.start_operator().await,
            };
            if let Err(error) = acted.and_then(|()| acts::report_done(&folder, act)) {
                return error.context(format!("{act:?}"));
            }
        }
    }

    async fn stop_operator(&self) -> Result<()> {
        let mut operator = self.operator.lock().await;
        let mut stopped = operator.take().context("the operator does not run")?;
        stopped.kill()?;
        drop(stopped);
        operator::release_lease(&self.control_plane).await?;
        visibility::wait_for_availability(&self.control_plane, false).await?;
        Ok(())
    }

    async fn start_operator(&self) -> Result<()> {
        let mut operator = self.operator.lock().await;
        let started = visibility::start(&self.control_plane, trellis_program(), self.port).await?;
        let availability = visibility::wait_for_availability(&self.control_plane, true).await;
        availability.with_context(|| started.log_tail())?;
        *operator = Some(started);
        Ok(())
    }
}
