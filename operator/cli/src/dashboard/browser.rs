//! Starts the user's browser.

use std::process::{Command, Stdio};

/// Opens the link in the user's browser. Returns false without a browser on this machine: over SSH,
/// or without a display. The user then opens the printed link.
pub(super) fn open(link: &str) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if is_set("SSH_CONNECTION") || is_set("SSH_TTY") {
        return false;
    }
    let program = match cfg!(target_os = "macos") {
        true => "open",
        false if is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") => "xdg-open",
        false => return false,
    };
    let mut command = Command::new(program);
    command
        .arg(link)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
