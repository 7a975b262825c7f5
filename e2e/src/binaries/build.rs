//! Builds missing programs from Go modules, once per machine, with progress on stderr.

use std::{
    fs::{self, File},
    io::{IsTerminal as _, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::{Executable, KubernetesVersion, cache, version::kubernetes_ldflags};

/// Interval between two progress messages of a build, if the output is no terminal.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);

/// How to build one program.
struct BuildRecipe {
    /// The folder of the Go module.
    module: &'static str,
    package: &'static str,
    /// Usual time on two cores with an empty build cache, after the build of the earlier programs.
    usual_time: &'static str,
}

fn build_recipe(program: Executable, kubernetes: KubernetesVersion) -> BuildRecipe {
    let (module, package, usually) = match program {
        Executable::KubeApiserver => (
            kubernetes.module(),
            "k8s.io/kubernetes/cmd/kube-apiserver",
            "6 minutes",
        ),
        Executable::KubeControllerManager => (
            kubernetes.module(),
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "3 minutes",
        ),
        Executable::KubeScheduler => (
            "kubernetes",
            "k8s.io/kubernetes/cmd/kube-scheduler",
            "1 minute",
        ),
        Executable::Kubectl => ("kubernetes", "k8s.io/kubernetes/cmd/kubectl", "30 seconds"),
        Executable::Etcd => ("kubernetes", "go.etcd.io/etcd/server/v3", "30 seconds"),
        Executable::Kwok => ("tools", "sigs.k8s.io/kwok/cmd/kwok", "90 seconds"),
        Executable::Helm => ("helm", "helm.sh/helm/v4/cmd/helm", "3 minutes"),
        Executable::Helm3 => ("helm3", "helm.sh/helm/v3/cmd/helm", "2 minutes"),
        Executable::PrometheusRules => ("prometheus", ".", "2 minutes"),
        Executable::Karpenter => ("karpenter", "sigs.k8s.io/karpenter/kwok", "3 minutes"),
        Executable::CertManager => ("cert-manager", ".", "3 minutes"),
        Executable::Kubelet => ("kubernetes", "k8s.io/kubernetes/cmd/kubelet", "1 minute"),
        Executable::CoreDns => ("nodes", "./coredns", "1 minute"),
        Executable::SimulatedGpus => ("nodes", "./simulated-gpus", "10 seconds"),
    };
    BuildRecipe {
        module,
        package,
        usual_time: usually,
    }
}

/// Sets the Kubernetes version that Helm 3 assumes without a cluster. A released Helm has the
/// version of its client library.
fn helm3_ldflags() -> String {
    let package = "helm.sh/helm/v3/pkg/chartutil";
    format!("-s -w -X {package}.k8sVersionMajor=1 -X {package}.k8sVersionMinor=35")
}

/// Builds `programs` into `folder`. A lock lets only one process build; the others wait and use the
/// result.
///
/// # Errors
///
/// When Go is missing, with the advice to install it; when a build fails, with the output of Go.
pub(super) fn build_programs(folder: &Path, programs: &[Executable]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let lock = File::create(folder.join("lock"))?;
    if lock.try_lock().is_err() {
        print_progress("another process builds what is missing, waiting for it");
        lock.lock()?;
    }
    let missing: Vec<Executable> = programs
        .iter()
        .copied()
        .filter(|program| !folder.join(program.name()).is_file())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    check_go(&missing)?;
    print_progress(&format!(
        "building missing programs, once, into {}",
        folder.display()
    ));
    for program in missing {
        build_one(folder, program)?;
    }
    Ok(())
}

fn check_go(missing: &[Executable]) -> Result<()> {
    let go = Command::new("go").arg("version").output();
    if go.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|program| program.name()).collect();
    let version = KubernetesVersion::chosen()?.name();
    bail!(
        "{} not found: install Go 1.26 or newer (https://go.dev/dl) to build once, or set \
         KUBEBUILDER_ASSETS to a folder that has them for Kubernetes {version}",
        names.join(", ")
    )
}

/// Builds under a temporary name and renames the program, so that an interrupted build leaves no
/// program.
fn build_one(folder: &Path, program: Executable) -> Result<()> {
    let kubernetes = program.kubernetes_version()?;
    let recipe = build_recipe(program, kubernetes);
    let name = program.name();
    let target = folder.join(format!("{name}.{}.partial", std::process::id()));
    let log = folder.join(format!("{name}.log"));
    let ldflags = match recipe.module {
        "helm3" => helm3_ldflags(),
        module if module == kubernetes.module() => kubernetes_ldflags(kubernetes),
        _ => String::from("-s -w"),
    };
    let started = Instant::now();
    let output = File::create(&log)?;
    let mut go = Command::new("go")
        .args(["build", "-trimpath", "-ldflags", &ldflags, "-o"])
        .arg(&target)
        .arg(recipe.package)
        .current_dir(cache::go_modules_folder().join(recipe.module))
        .env("CGO_ENABLED", "0")
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .context("start go")?;
    let success = wait_with_progress(&mut go, name, recipe.usual_time, started)?;
    if !success {
        let log_text = fs::read_to_string(&log).unwrap_or_default();
        bail!(
            "go build {} failed:\n{}",
            recipe.package,
            log_text.trim_end()
        );
    }
    fs::rename(&target, folder.join(name))?;
    fs::remove_file(&log)?;
    Ok(())
}

/// Waits for a build. On a terminal one line shows the elapsed time, else a line is printed from
/// time to time.
fn wait_with_progress(go: &mut Child, name: &str, usually: &str, started: Instant) -> Result<bool> {
    let terminal = std::io::stderr().is_terminal();
    let mut last_report = started;
    if !terminal {
        print_progress(&format!("  {name}: building, usually {usually}"));
    }
    let status = loop {
        if let Some(status) = go.try_wait()? {
            break status;
        }
        let elapsed = started.elapsed().as_secs();
        if terminal {
            eprint!("\r  {name}: building, {elapsed} s of usually {usually} ");
            std::io::stderr().flush()?;
        } else if last_report.elapsed() >= PROGRESS_INTERVAL {
            last_report = Instant::now();
            print_progress(&format!(
                "  {name}: still building, {elapsed} s of usually {usually}"
            ));
        }
        sleep(Duration::from_millis(200));
    };
    let elapsed = started.elapsed().as_secs();
    let outcome = if status.success() { "done" } else { "failed" };
    let start = if terminal { "\r\x1b[K" } else { "" };
    print_progress(&format!("{start}  {name}: {outcome} after {elapsed} s"));
    Ok(status.success())
}

fn print_progress(line: &str) {
    eprintln!("{line}");
}
