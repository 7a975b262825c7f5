//! The output of the demo: short plain text on standard output.

use std::io::Write as _;
use std::path::Path;

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
    run_trellis_with_status(control_plane, 0, arguments).await?;
    Ok(())
}

/// Runs `trellis` in the root of the repository, and prints the command and its output. Returns the
/// output.
///
/// # Errors
///
/// When the command has another exit status than `expected`; the error has its output.
pub(crate) async fn run_trellis_with_status(
    control_plane: &ControlPlane,
    expected: i32,
    arguments: &[&str],
) -> Result<String> {
    print_line(&format!("$ trellis {}", arguments.join(" ")));
    let output = tokio::process::Command::new(crate::program()?)
        .args(arguments)
        .env("KUBECONFIG", control_plane.kubeconfig())
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()
        .await?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    let status = output.status;
    ensure!(status.code() == Some(expected), "{status}: {error}{stdout}");
    print_line(stdout.trim_end());
    Ok(stdout)
}

/// Runs kubectl, and prints the command and its output.
///
/// # Errors
///
/// When kubectl fails; the error has its output.
pub(crate) async fn run_kubectl(control_plane: &ControlPlane, arguments: &[&str]) -> Result<()> {
    print_line(&format!("$ kubectl {}", arguments.join(" ")));
    let output = control_plane.kubectl(arguments).await?;
    // kubectl reports an empty list on standard error.
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {error}", output.status);
    let stdout = String::from_utf8_lossy(&output.stdout);
    print_line(format!("{stdout}{error}").trim_end());
    Ok(())
}
