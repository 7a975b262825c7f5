//! The versions of programs that the tests are written for.

use std::{path::Path, process::Command};

use super::{Executable, KubernetesVersion};

/// Returns the linker flags that set the version of Kubernetes programs. Without them the API
/// server reports v0.0.0-master, which version checks reject.
pub(super) fn kubernetes_ldflags(version: KubernetesVersion) -> String {
    let mut flags = String::from("-s -w");
    for package in [
        "k8s.io/component-base/version",
        "k8s.io/client-go/pkg/version",
    ] {
        for (name, value) in [
            ("gitVersion", version.release()),
            ("gitMajor", "1"),
            ("gitMinor", version.minor()),
            ("gitTreeState", "clean"),
        ] {
            flags.push_str(&format!(" -X {package}.{name}={value}"));
        }
    }
    flags
}

/// Returns true if the program at `path` reports a suitable version. Returns false if it cannot
/// run, or reports another version.
pub(super) fn has_matching_version(
    path: &Path,
    program: Executable,
    kubernetes: KubernetesVersion,
) -> bool {
    let arguments: &[&str] = match program {
        Executable::Kubectl => &["version", "--client"],
        Executable::Helm | Executable::Helm3 => &["version", "--short"],
        _ => &["--version"],
    };
    let Ok(output) = Command::new(path).args(arguments).output() else {
        return false;
    };
    output.status.success()
        && is_matching_output(
            &String::from_utf8_lossy(&output.stdout),
            program,
            kubernetes,
        )
}

/// Checks the minor version of Kubernetes, and the versions of etcd and kwok that Kubernetes 1.37
/// and the Stage files need.
fn is_matching_output(
    version_output: &str,
    program: Executable,
    kubernetes: KubernetesVersion,
) -> bool {
    let kubernetes = match program {
        Executable::Kubectl => format!("Client Version: v{}.", kubernetes.name()),
        _ => format!("Kubernetes v{}.", kubernetes.name()),
    };
    let prefixes: &[&str] = match program {
        Executable::KubeApiserver
        | Executable::KubeControllerManager
        | Executable::KubeScheduler
        | Executable::Kubelet
        | Executable::Kubectl => &[&kubernetes],
        Executable::Etcd => &["etcd Version: 3.6.", "etcd Version: 3.7."],
        Executable::Kwok => &["kwok version v0.8.", "kwok version 0.8."],
        Executable::Helm => &["v4."],
        // Later releases assume a Kubernetes version with MutatingAdmissionPolicy without a cluster; a
        // test needs one without.
        Executable::Helm3 => &["v3.20"],
        Executable::CoreDns => &["CoreDNS-1.15."],
        // Always built from the Go modules in this repository, so no installed version fits.
        Executable::Karpenter
        | Executable::CertManager
        | Executable::PrometheusRules
        | Executable::SimulatedGpus => &[],
    };
    version_output
        .lines()
        .any(|line| prefixes.iter().any(|prefix| line.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_output_matches_the_expected_versions() {
        let cases = [
            (Executable::KubeApiserver, "Kubernetes v1.37.1\n", true),
            (Executable::KubeApiserver, "Kubernetes v1.37.10\n", true),
            (Executable::KubeApiserver, "Kubernetes v1.36.9\n", false),
            (
                Executable::KubeApiserver,
                "Kubernetes v0.0.0-master+$Format:%H$\n",
                false,
            ),
            (
                Executable::Kubectl,
                "Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0\n",
                false,
            ),
            (
                Executable::Kubectl,
                "Client Version: v1.37.1\nKustomize Version: v5.8.1\n",
                true,
            ),
            (
                Executable::Etcd,
                "etcd Version: 3.7.0\nGit SHA: Not provided\n",
                true,
            ),
            (Executable::Etcd, "etcd Version: 3.5.21\n", false),
            (
                Executable::Kwok,
                "kwok version v0.8.0 go1.26.8 (linux/amd64)\n",
                true,
            ),
            (Executable::Helm, "v4.3\n", true),
            (Executable::Helm, "v3.19.0+g3d8990f\n", false),
            (Executable::Helm3, "v3.20.2+g8fb76d6\n", true),
            (Executable::Helm3, "v4.3\n", false),
            (Executable::KubeScheduler, "Kubernetes v1.37.1\n", true),
            (
                Executable::Kwok,
                "kwok version v0.7.0 go1.24.0 (linux/amd64)\n",
                false,
            ),
        ];
        for (program, version_output, expected) in cases {
            assert_eq!(
                is_matching_output(version_output, program, KubernetesVersion::DEFAULT),
                expected,
                "{program:?} {version_output:?}"
            );
        }
    }

    #[test]
    fn version_output_of_a_newer_api_server_does_not_match_an_older_version() {
        let matches =
            |output, version| is_matching_output(output, Executable::KubeApiserver, version);
        let old = KubernetesVersion::V1_33;
        assert!(matches("Kubernetes v1.33.13\n", old));
        assert!(!matches("Kubernetes v1.37.1\n", old));
        assert!(!matches(
            "Kubernetes v1.33.13\n",
            KubernetesVersion::DEFAULT
        ));
        let flags = kubernetes_ldflags(old);
        assert!(
            flags.contains("gitVersion=v1.33.13 ") && flags.contains("gitMinor=33 "),
            "{flags}"
        );
    }

    #[test]
    fn program_that_cannot_run_has_no_matching_version() {
        assert!(!has_matching_version(
            Path::new("/nonexistent/etcd"),
            Executable::Etcd,
            KubernetesVersion::DEFAULT
        ));
    }
}
