//! Builds Argo CD and kstatus from Go modules, once per machine.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::binaries::{cache, missing_build_reason};

/// Interval between two progress messages of a build.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);
const ARGO_CD: &str = "github.com/argoproj/argo-cd/v3";
/// The kinds of Argo CD in its manifests.
pub(super) const CRDS: [&str; 3] = ["application-crd", "applicationset-crd", "appproject-crd"];

/// A program that is built from a Go module of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitOpsProgram {
    /// Argo CD. Its manifests are in the same folder.
    ArgoCd,
    /// A program that prints the kstatus status of objects.
    Kstatus,
}

impl GitOpsProgram {
    fn name(self) -> &'static str {
        match self {
            Self::ArgoCd => "argocd",
            Self::Kstatus => "kstatus",
        }
    }

    /// The folder of the module, relative to this crate.
    fn module_folder(self) -> &'static str {
        match self {
            Self::ArgoCd => "src/argocd/module",
            Self::Kstatus => "src/argocd/kstatus",
        }
    }

    fn source_files(self) -> &'static [&'static str] {
        match self {
            Self::ArgoCd => &["go.mod", "go.sum", "main.go", "health.go", "redis.go"],
            Self::Kstatus => &["go.mod", "go.sum", "main.go"],
        }
    }

    /// Usual build time on two cores with an empty build cache.
    fn usual_build_time(self) -> &'static str {
        match self {
            Self::ArgoCd => "5 to 9 minutes",
            Self::Kstatus => "30 seconds",
        }
    }

    fn cache_folder(self) -> Result<PathBuf> {
        // The cache resolves paths relative to the folder of the other modules.
        let path = |file: &&str| format!("../{}/{file}", self.module_folder());
        let sources: Vec<String> = self.source_files().iter().map(path).collect();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        cache::hashed_folder(self.name(), &sources, "")
    }

    fn is_built(self) -> bool {
        self.cache_folder()
            .is_ok_and(|f| f.join(self.name()).is_file())
    }

    /// Returns the path of the program, and builds it if necessary. Only one process builds at a
    /// time; the others wait for its result.
    ///
    /// # Errors
    ///
    /// When the build fails, with the output of Go.
    pub fn find_or_build(self) -> Result<PathBuf> {
        let folder = self.cache_folder()?;
        let program = folder.join(self.name());
        fs::create_dir_all(&folder)?;
        let lock = File::create(folder.join("lock"))?;
        lock.lock()?;
        if !program.is_file() {
            self.build(&folder)?;
        }
        Ok(program)
    }

    /// Renames the finished program last, so that an interrupted build leaves no program.
    fn build(self, folder: &Path) -> Result<()> {
        let (name, usually) = (self.name(), self.usual_build_time());
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.module_folder());
        eprintln!(
            "building {name}, usually {usually}, once, into {}",
            folder.display()
        );
        let partial = folder.join(format!("{name}.partial"));
        let log = folder.join("log");
        let output = File::create(&log)?;
        let mut go = Command::new("go")
            .args(["build", "-trimpath", "-ldflags", "-s -w", "-o"])
            .arg(&partial)
            .arg(".")
            .current_dir(&module)
            .env("CGO_ENABLED", "0")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("start go: install Go 1.26 or newer")?;
        let started = Instant::now();
        let mut last_report = started;
        let status = loop {
            if let Some(status) = go.try_wait()? {
                break status;
            }
            if last_report.elapsed() >= PROGRESS_INTERVAL {
                last_report = Instant::now();
                eprintln!(
                    "  {name}: still building, {} s",
                    started.elapsed().as_secs()
                );
            }
            sleep(Duration::from_millis(200));
        };
        if !status.success() {
            bail!("go build {name}: {}", fs::read_to_string(&log)?.trim_end());
        }
        if self == Self::ArgoCd {
            copy_files(&module, folder)?;
            let kustomize = folder.join("kustomize");
            let _ = fs::remove_file(&kustomize);
            symlink(name, kustomize)?;
        }
        fs::rename(&partial, folder.join(name))?;
        Ok(())
    }
}

/// Returns the folder with the manifests.
pub(super) fn manifests_folder(program: &Path) -> PathBuf {
    program.with_file_name("manifests")
}

/// Copies the CRDs, the configuration and a script of the built version.
fn copy_files(module: &Path, folder: &Path) -> Result<()> {
    let output = Command::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}", ARGO_CD])
        .current_dir(module)
        .output()?;
    ensure!(
        output.status.success(),
        "go list {ARGO_CD}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let source = PathBuf::from(String::from_utf8(output.stdout)?.trim_end());
    // Argo CD calls this script even if it checks no signatures.
    let verify = folder.join("git-verify-wrapper.sh");
    fs::write(
        &verify,
        fs::read(source.join("hack/git-verify-wrapper.sh"))?,
    )?;
    fs::set_permissions(&verify, fs::Permissions::from_mode(0o755))?;
    let source = source.join("manifests");
    let target = folder.join("manifests");
    fs::create_dir_all(&target)?;
    for from in ["crds", "base/config"] {
        let from = source.join(from);
        for entry in from
            .read_dir()
            .with_context(|| format!("read {}", from.display()))?
        {
            let entry = entry?;
            // A copy of a file of the module cache would also be read-only.
            fs::write(target.join(entry.file_name()), fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

/// Returns why this machine cannot run the program, in one line. None: it can.
#[must_use]
pub fn unavailable_reason(program: GitOpsProgram) -> Option<String> {
    let name = program.name();
    if program == GitOpsProgram::ArgoCd && !can_run("git", "--version") {
        return Some(format!("{name} needs `git` (Debian: git)"));
    }
    if program.is_built() {
        return None;
    }
    if program == GitOpsProgram::ArgoCd
        && let Some(reason) = missing_build_reason("Argo CD", program.usual_build_time())
    {
        return Some(reason);
    }
    (!can_run("go", "version")).then(|| format!("{name} is not built: install Go 1.26 or newer"))
}

fn can_run(program: &str, argument: &str) -> bool {
    let output = Command::new(program).arg(argument).output();
    output.is_ok_and(|output| output.status.success())
}
