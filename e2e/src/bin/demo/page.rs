//! The web page of the demo.

use std::process::Stdio;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use trellis_e2e::control_plane::ControlPlane;

/// A running `trellis dashboard`. It ends when this value is dropped.
pub(crate) struct WebPage {
    /// The link that opens the page once.
    pub(crate) link: String,
    _server: Child,
}

/// Serves the web page with the rights of the administrator.
pub(crate) async fn start(control_plane: &ControlPlane) -> Result<WebPage> {
    let mut server = Command::new(super::program()?)
        .args(["dashboard", "--no-browser"])
        .env("KUBECONFIG", control_plane.kubeconfig())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("start trellis dashboard")?;
    let output = server.stdout.take().context("the page has no output")?;
    let line = BufReader::new(output).lines().next_line().await?;
    let link = line.as_deref().and_then(|line| line.strip_prefix("Open "));
    let link = link.with_context(|| format!("trellis dashboard: {line:?}"))?;
    Ok(WebPage {
        link: link.to_owned(),
        _server: server,
    })
}
