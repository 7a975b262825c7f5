//! The output of the demo: short plain text on standard output.

use std::io::Write as _;

use anyhow::{Result, ensure};
use trellis_e2e::control_plane::ControlPlane;

/// Prints a line. Ignores a closed pipe.
pub(crate) fn print_line(text: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints the headline of a step.
pub(crate) fn print_step(text: &str) {
    print_line(&format!("\n== {text}"));
}

/// Runs `trellis`, and prints the command and its output.
///
/// # Errors
///
/// When the command fails; the error has its output.
pub(crate) async fn run_trellis(control_plane: &ControlPlane, arguments: &[&str]) -> Result<()> {
    print_line(&format!("$ trellis {}", arguments.join(" ")));
    let output = tokio::process::Command::new(crate::program()?)
        .args(arguments)
        .env("KUBECONFIG", control_plane.kubeconfig())
        .output()
        .await?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {error}", output.status);
    print_line(stdout.trim_end());
    Ok(())
}

/// Runs kubectl, and prints the command and its output.
///
/// # Errors
///
/// When kubectl fails; the error has its output.
pub(crate) async fn run_kubectl(control_plane: &ControlPlane, arguments: &[&str]) -> Result<()> {
    print_line(&format!("$ kubectl {}", arguments.join(" ")));
    let answer = control_plane.kubectl_ok(arguments).await?;
    print_line(answer.trim_end());
    Ok(())
}
