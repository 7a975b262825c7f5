//! Finds or builds the programs of the control plane and of real nodes.
//!
//! Programs with the right version are used from the folder in `KUBEBUILDER_ASSETS`, else from the
//! `PATH`. Missing programs are built once from Go modules into a cache folder.

mod build;
pub(crate) mod cache;
mod go_module;
mod kubernetes_version;
mod version;

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
};

use anyhow::Result;

pub use go_module::download_module;
pub use kubernetes_version::KubernetesVersion;

/// With the value `all`, tests build programs of other projects that take minutes: Argo CD,
/// cert-manager and Helm 3. Without it, the tests that need these programs run only if the programs are
/// already built.
const BUILD_VARIABLE: &str = "TRELLIS_BUILD";

/// Returns why a program with a long build is not available, in one line. None: it may be built.
pub(crate) fn missing_build_reason(name: &str, usually: &str) -> Option<String> {
    let may_build = env::var(BUILD_VARIABLE).is_ok_and(|value| value == "all");
    let reason =
        format!("{name} is not built: set {BUILD_VARIABLE}=all to build it, once, in {usually}");
    (!may_build).then_some(reason)
}

/// A program of the control plane, or one that tests call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Executable {
    /// etcd, the store.
    Etcd,
    /// kube-apiserver.
    KubeApiserver,
    /// Garbage collection, namespaces, service accounts, node lifecycle.
    KubeControllerManager,
    /// Binds pods that belong to no gang.
    KubeScheduler,
    /// kubectl.
    Kubectl,
    /// Simulates the kubelet of every simulated node.
    Kwok,
    /// Helm 4.
    Helm,
    /// Helm 3.
    Helm3,
    /// Evaluates Prometheus rules, with the packages of Prometheus.
    PrometheusRules,
    /// Orders nodes for pending pods. Its kwok provider creates Node objects in place of machines.
    Karpenter,
    /// Issues certificates, and injects CA bundles into webhook configurations and APIServices.
    CertManager,
    /// The kubelet of real nodes.
    Kubelet,
    /// Resolves the names of Services for pods of real nodes.
    CoreDns,
    /// A device plugin with simulated GPUs, for real nodes.
    SimulatedGpus,
}

impl Executable {
    /// The programs of a control plane with simulated nodes. Those with the longest build come
    /// first.
    pub const CONTROL_PLANE: [Self; 5] = [
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::Kubectl,
        Self::Etcd,
        Self::Kwok,
    ];

    /// The programs that real nodes need in addition.
    pub const REAL_NODES: [Self; 3] = [Self::Kubelet, Self::CoreDns, Self::SimulatedGpus];

    /// Returns the version of Kubernetes whose source the program is built from. Only the API server
    /// and the controller manager have the chosen version: kubectl and the nodes of an older
    /// cluster do not matter to the tests that run there.
    fn kubernetes_version(self) -> Result<KubernetesVersion> {
        match self {
            Self::KubeApiserver | Self::KubeControllerManager => KubernetesVersion::chosen(),
            _ => Ok(KubernetesVersion::DEFAULT),
        }
    }

    /// Returns the file name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kwok => "kwok",
            Self::Helm | Self::Helm3 => "helm",
            Self::PrometheusRules => "prometheus-rules",
            Self::Karpenter => "karpenter",
            Self::CertManager => "cert-manager",
            Self::Kubelet => "kubelet",
            Self::CoreDns => "coredns",
            Self::SimulatedGpus => "simulated-gpus",
        }
    }
}

/// The path of each program.
#[derive(Debug, Clone)]
pub struct Binaries {
    paths: BTreeMap<Executable, PathBuf>,
}

impl Binaries {
    /// Returns true if `program` needs no build.
    ///
    /// # Errors
    ///
    /// When the user has no cache folder.
    pub fn is_available(program: Executable) -> Result<bool> {
        Ok(find_program(&installed_folders(), program)?.is_some())
    }

    /// Returns why a program with a long build is not available on this machine, in one line. None:
    /// it is there, or may be built.
    pub(crate) fn unavailable_reason(
        program: Executable,
        name: &str,
        usually: &str,
    ) -> Option<String> {
        match Self::is_available(program) {
            Ok(true) => None,
            Ok(false) => missing_build_reason(name, usually),
            Err(error) => Some(format!("{error:#}")),
        }
    }

    /// Finds each of `programs`, and builds missing ones. A build takes minutes, shows its progress
    /// on stderr and happens once per machine; other processes wait for it.
    ///
    /// # Errors
    ///
    /// When a build is needed and Go is missing, or the build fails.
    pub fn find_or_build(programs: &[Executable]) -> Result<Self> {
        let mut paths = BTreeMap::new();
        let folders = installed_folders();
        let mut missing: BTreeMap<PathBuf, Vec<Executable>> = BTreeMap::new();
        for &program in programs {
            match find_program(&folders, program)? {
                Some(path) => drop(paths.insert(program, path)),
                None => {
                    let cache = cache::program_folder(program)?;
                    missing.entry(cache).or_default().push(program);
                }
            }
        }
        for (cache, programs) in missing {
            build::build_programs(&cache, &programs)?;
            let built = programs.iter().map(|&p| (p, cache.join(p.name())));
            paths.extend(built);
        }
        Ok(Self { paths })
    }

    /// Returns the path of one program.
    pub fn path(&self, program: Executable) -> &Path {
        &self.paths[&program]
    }
}

/// Folders that may hold installed programs, the preferred one first.
fn installed_folders() -> Vec<PathBuf> {
    let assets = env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    assets.into_iter().chain(env::split_paths(&path)).collect()
}

/// Returns the path of the program, if it is installed or has been built.
fn find_program(folders: &[PathBuf], program: Executable) -> Result<Option<PathBuf>> {
    // A program of the cache has the right version. A check would start a process.
    let cached = cache::program_folder(program)?.join(program.name());
    let installed = find_installed(folders, program, program.kubernetes_version()?);
    Ok(installed.or_else(|| cached.is_file().then_some(cached)))
}

fn find_installed(
    folders: &[PathBuf],
    program: Executable,
    kubernetes: KubernetesVersion,
) -> Option<PathBuf> {
    folders
        .iter()
        .map(|folder| folder.join(program.name()))
        .find(|path| path.is_file() && version::has_matching_version(path, program, kubernetes))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn write_version_script(folder: &Path, program: Executable, prints: &str) {
        let path = folder.join(program.name());
        fs::write(&path, format!("#!/bin/sh\necho '{prints}'\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn installed_program_is_used_only_if_its_version_matches() {
        let old = tempfile::tempdir().unwrap();
        let new = tempfile::tempdir().unwrap();
        write_version_script(
            old.path(),
            Executable::Kubectl,
            "Client Version: v1.32.4-dispatcher",
        );
        write_version_script(new.path(), Executable::Kubectl, "Client Version: v1.37.0");
        let folders = [old.path().to_owned(), new.path().to_owned()];
        let find = |folders, program| find_installed(folders, program, KubernetesVersion::DEFAULT);
        assert_eq!(
            find(&folders[..], Executable::Kubectl),
            Some(new.path().join("kubectl"))
        );
        assert_eq!(find(&folders[..1], Executable::Kubectl), None);
        assert_eq!(find(&folders[..], Executable::Etcd), None);
    }
}
