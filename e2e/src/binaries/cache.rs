//! The cache folder for built programs.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use super::{Executable, KubernetesVersion, version::kubernetes_ldflags};

/// Returns the folder of the Go modules that name the built versions.
pub(super) fn go_modules_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("control-plane")
}

/// Returns the folder of a program: `<cache>/control-plane/<hash>`, or another folder for programs
/// that change at other times (`helm`, `helm3`, `karpenter`) or contain our own code (`cert-manager`,
/// `prometheus`, `nodes`).
///
/// # Errors
///
/// When the user has no cache folder, or has chosen an unknown version of Kubernetes.
pub(super) fn program_folder(program: Executable) -> Result<PathBuf> {
    folder_for(program, program.kubernetes_version()?)
}

fn folder_for(program: Executable, kubernetes: KubernetesVersion) -> Result<PathBuf> {
    if kubernetes != KubernetesVersion::DEFAULT {
        let module = kubernetes.module();
        let files = ["go.mod", "go.sum"].map(|file| format!("{module}/{file}"));
        let files = files.each_ref().map(String::as_str);
        return hashed_folder("control-plane", &files, &kubernetes_ldflags(kubernetes));
    }
    let (kind, files): (_, &[&str]) = match program {
        Executable::CoreDns | Executable::SimulatedGpus => (
            "nodes",
            &[
                "nodes/go.mod",
                "nodes/go.sum",
                "nodes/coredns/main.go",
                "nodes/simulated-gpus/main.go",
            ],
        ),
        Executable::Helm => ("helm", &["helm/go.mod", "helm/go.sum"]),
        Executable::Helm3 => ("helm3", &["helm3/go.mod", "helm3/go.sum"]),
        Executable::PrometheusRules => (
            "prometheus",
            &[
                "prometheus/go.mod",
                "prometheus/go.sum",
                "prometheus/main.go",
            ],
        ),
        Executable::Karpenter => ("karpenter", &["karpenter/go.mod", "karpenter/go.sum"]),
        Executable::CertManager => (
            "cert-manager",
            &[
                "cert-manager/go.mod",
                "cert-manager/go.sum",
                "cert-manager/main.go",
            ],
        ),
        _ => (
            "control-plane",
            &[
                "kubernetes/go.mod",
                "kubernetes/go.sum",
                "tools/go.mod",
                "tools/go.sum",
            ],
        ),
    };
    hashed_folder(kind, files, &kubernetes_ldflags(kubernetes))
}

/// Returns `<cache>/<kind>/<hash>`. The hash covers all inputs of the build: the files, relative to
/// the modules, and `flags`. So a changed version or flag gets a new folder.
pub(crate) fn hashed_folder(kind: &str, files: &[&str], flags: &str) -> Result<PathBuf> {
    let mut hash = Sha256::new();
    for file in files {
        let path = go_modules_folder().join(file);
        let content = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        hash.update(content);
    }
    hash.update(flags);
    let hash: String = hash
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(cache_root()?.join(kind).join(hash))
}

/// Returns `TRELLIS_CACHE`, else `trellis` in the user's cache folder.
fn cache_root() -> Result<PathBuf> {
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("TRELLIS_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|folder| folder.join("trellis")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/trellis")))
        .context("none of TRELLIS_CACHE, XDG_CACHE_HOME and HOME is set, so there is no folder to build into")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_folder_is_named_after_its_sources() {
        let folder = program_folder(Executable::Etcd).unwrap();
        let name = folder.file_name().unwrap().to_str().unwrap();
        assert_eq!(name.len(), 16);
        assert_eq!(super::program_folder(Executable::Kubelet).unwrap(), folder);
        assert_ne!(super::program_folder(Executable::CoreDns).unwrap(), folder);
    }

    #[test]
    fn api_servers_of_two_versions_have_two_folders() {
        let folder = |version| folder_for(Executable::KubeApiserver, version).unwrap();
        let folders = KubernetesVersion::ALL.map(folder);
        assert_ne!(folders[0], folders[1]);
        assert_ne!(folders[1], folders[2]);
        assert_eq!(folders[0].parent(), folders[2].parent());
    }
}
