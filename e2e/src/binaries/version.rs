//! Does an installed program have the version that the tests are written for?

use std::{path::Path, process::Command};

use super::Program;

/// The version of Kubernetes that is built, and that the API server must report.
pub const KUBERNETES_VERSION: &str = "v1.37.1";

/// True if the program at `path` reports a suitable version. False if it cannot be run, or reports
/// anything else.
pub(super) fn fits(path: &Path, program: Program) -> bool {
    let arguments: &[&str] = match program {
        Program::Kubectl => &["version", "--client"],
        Program::Helm | Program::Helm3 => &["version", "--short"],
        _ => &["--version"],
    };
    let Ok(output) = Command::new(path).args(arguments).output() else {
        return false;
    };
    output.status.success() && says_fitting(&String::from_utf8_lossy(&output.stdout), program)
}

/// Kubernetes by minor version; etcd and kwok by what Kubernetes 1.37 and the Stage files need.
fn says_fitting(said: &str, program: Program) -> bool {
    let prefixes: &[&str] = match program {
        Program::KubeApiserver
        | Program::KubeControllerManager
        | Program::KubeScheduler
        | Program::Kubelet => &["Kubernetes v1.37."],
        Program::Kubectl => &["Client Version: v1.37."],
        Program::Etcd => &["etcd Version: 3.6.", "etcd Version: 3.7."],
        Program::Kwok => &["kwok version v0.8.", "kwok version 0.8."],
        Program::Helm => &["v4."],
        // Later releases assume a Kubernetes version that is new enough for the chart without a
        // cluster; a test needs one that is not.
        Program::Helm3 => &["v3.20"],
        Program::CoreDns => &["CoreDNS-1.15."],
        // Always built from the Go modules in this repository, so no installed version fits.
        Program::CertManager | Program::PrometheusRules | Program::SimulatedGpus => &[],
    };
    said.lines()
        .any(|line| prefixes.iter().any(|prefix| line.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let cases = [
            (Program::KubeApiserver, "Kubernetes v1.37.1\n", true),
            (Program::KubeApiserver, "Kubernetes v1.37.10\n", true),
            (Program::KubeApiserver, "Kubernetes v1.36.9\n", false),
            (
                Program::KubeApiserver,
                "Kubernetes v0.0.0-master+$Format:%H$\n",
                false,
            ),
            (
                Program::Kubectl,
                "Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0\n",
                false,
            ),
            (
                Program::Kubectl,
                "Client Version: v1.37.1\nKustomize Version: v5.8.1\n",
                true,
            ),
            (
                Program::Etcd,
                "etcd Version: 3.7.0\nGit SHA: Not provided\n",
                true,
            ),
            (Program::Etcd, "etcd Version: 3.5.21\n", false),
            (
                Program::Kwok,
                "kwok version v0.8.0 go1.26.8 (linux/amd64)\n",
                true,
            ),
            (Program::Helm, "v4.3\n", true),
            (Program::Helm, "v3.19.0+g3d8990f\n", false),
            (Program::Helm3, "v3.20.2+g8fb76d6\n", true),
            (Program::Helm3, "v4.3\n", false),
            (Program::KubeScheduler, "Kubernetes v1.37.1\n", true),
            (
                Program::Kwok,
                "kwok version v0.7.0 go1.24.0 (linux/amd64)\n",
                false,
            ),
        ];
        for (program, said, expected) in cases {
            assert_eq!(
                says_fitting(said, program),
                expected,
                "{program:?} {said:?}"
            );
        }
    }

    #[test]
    fn what_cannot_be_run_does_not_fit() {
        assert!(!fits(Path::new("/nonexistent/etcd"), Program::Etcd));
    }
}
