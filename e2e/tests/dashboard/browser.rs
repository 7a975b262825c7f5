//! Runs Playwright on the page's own test files.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::process::Command;
use trellis_e2e::binaries::Executable;

use super::world::World;

/// Browsers of distributions, in the order of preference. `CHROMIUM` names another.
const BROWSERS: [&str; 3] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
];

/// The folder of the page.
fn web_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../operator/dashboard/web")
}

/// The names of the test files.
pub(crate) fn test_files() -> Result<Vec<String>> {
    let folder = web_folder().join("test/browser");
    let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut files = Vec::new();
    for entry in entries {
        let name = entry?.file_name().into_string();
        let name = name.ok().filter(|name| name.ends_with(".browser.ts"));
        files.extend(name);
    }
    files.sort();
    ensure!(
        !files.is_empty(),
        "no browser tests in {}",
        folder.display()
    );
    Ok(files)
}

/// Returns what this machine lacks for the tests.
pub(crate) fn missing_program() -> Option<&'static str> {
    let has_node = std::process::Command::new("npm")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success());
    match (has_node, browser()) {
        (false, _) => Some("no npm: Node.js 20.19 or later is not installed"),
        (true, None) => Some("no Chromium: Debian's package is chromium"),
        (true, Some(_)) => None,
    }
}

/// Returns why a file of tests does not run by default.
pub(crate) fn reason_to_ignore(file: &str) -> Option<&'static str> {
    let is_asked = std::env::var_os("TRELLIS_BUILD").is_some_and(|value| value == "all");
    match file.split_once('.')?.0 {
        "speed" => Some("it measures: run `SPEED=1 npx playwright test`"),
        "pictures" if !is_asked => {
            Some("pictures depend on the version of the browser: set TRELLIS_BUILD=all")
        }
        // Together they take seven minutes.
        "accessibility" | "keyboard" | "narrow" | "policies" | "states" if !is_asked => {
            Some("slow: set TRELLIS_BUILD=all")
        }
        _ => None,
    }
}

fn browser() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let known = BROWSERS.iter().map(PathBuf::from);
    named.into_iter().chain(known).find(|path| path.exists())
}

/// Installs the packages that the lock file names, if they are not installed yet.
async fn install_packages() -> Result<()> {
    let web = web_folder();
    let lock = std::fs::metadata(web.join("package-lock.json"))?.modified()?;
    let installed = std::fs::metadata(web.join("node_modules/.package-lock.json"));
    if installed.is_ok_and(|file| file.modified().is_ok_and(|time| time >= lock)) {
        return Ok(());
    }
    let output = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(&web)
        .env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1")
        .output()
        .await
        .context("start npm")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "npm ci: {error}");
    Ok(())
}

/// Runs the tests of one file.
pub(crate) async fn run_file(world: &World, file: &str) -> Result<()> {
    install_packages().await?;
    let browser = browser().context("no Chromium")?;
    let mut tests = Command::new("npx")
        .args(["playwright", "test", "--workers=1", "--reporter=line", file])
        .current_dir(web_folder())
        .env("CHROMIUM", browser)
        .env("TRELLIS", super::world::trellis_program())
        .env(
            "KUBECTL",
            world.control_plane.binaries().path(Executable::Kubectl),
        )
        .env("KUBECONFIG", world.control_plane.kubeconfig())
        .env("TRELLIS_USERS", world.users_folder())
        .env("TRELLIS_ACTS", world.acts_folder())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("start npx playwright")?;
    let status = tokio::select! {
        status = tests.wait() => status?,
        error = world.serve_acts() => return Err(error),
    };
    if status.success() {
        return Ok(());
    }
    bail!("{file}: {status}; operator: {}", world.operator_log().await)
}
