//! Checks that this machine can run real nodes.

use std::process::Command;

use crate::binaries::KubernetesVersion;

/// Programs that build the nodes, with their Debian packages.
const REQUIRED_PROGRAMS: [(&str, &str); 6] = [
    ("apt-get", "apt"),
    ("dpkg-deb", "dpkg"),
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("tar", "tar"),
    ("unshare", "util-linux"),
];

/// A script with the privileged operations of a node. It runs in new namespaces, so that it changes
/// nothing else.
const PRIVILEGE_CHECK: &str = "ip link add name one type bridge && ip link add name two type veth peer name three \
    && mount -t tmpfs none /run && mkdir /run/up /run/work /run/all \
    && mount -t overlay none -o lowerdir=/usr,upperdir=/run/up,workdir=/run/work /run/all";

/// Returns why this machine cannot run real nodes, in one line. None: it can. The first call on a
/// machine downloads packages, which takes a minute.
#[must_use]
pub fn unavailable_reason() -> Option<String> {
    if let Some(reason) = KubernetesVersion::reason_to_skip("the kubelets of real nodes") {
        return Some(reason);
    }
    if !rustix::process::geteuid().is_root() {
        return Some("real nodes need root".to_owned());
    }
    for (program, package) in REQUIRED_PROGRAMS {
        if Command::new(program).arg("--version").output().is_err() {
            return Some(format!("real nodes need `{program}` (Debian: {package})"));
        }
    }
    let tried = Command::new("unshare")
        .args([
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "sh",
            "-c",
            PRIVILEGE_CHECK,
        ])
        .output();
    let reason = match tried {
        Ok(output) if output.status.success() => {
            return super::cgroups::unavailable_reason().or_else(super::image::unavailable_reason);
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    let last = reason.lines().last().unwrap_or_default();
    Some(format!(
        "real nodes need namespaces, a bridge, veth and overlays: {last}"
    ))
}
