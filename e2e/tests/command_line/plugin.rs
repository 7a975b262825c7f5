//! `kubectl trellis`: found on the PATH by kubectl itself, and completed by it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tokio::process::Command;
use tokio::sync::OnceCell;
use trellis_e2e::control_plane::ControlPlane;

use crate::scene::{Said, program, said, shared};

/// The setup that a user does once: `trellis` under its two names, and its completion program.
async fn installed(control_plane: &ControlPlane) -> &'static str {
    static PATH: OnceCell<String> = OnceCell::const_new();
    let install = async || {
        let programs = [("trellis", program()), ("kubectl-trellis", program())];
        let line = control_plane.tools(&programs).unwrap();
        let folder = line.strip_prefix("export PATH=").unwrap();
        let folder = folder.strip_suffix(":$PATH").unwrap();
        let script = shared().await.trellis(&["completions", "kubectl"]).await;
        assert_eq!(script.status, 0, "{script:?}");
        let completes = Path::new(folder).join("kubectl_complete-trellis");
        std::fs::write(&completes, script.out).unwrap();
        let may_run = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(completes, may_run).unwrap();
        format!("{folder}:{}", std::env::var("PATH").unwrap())
    };
    PATH.get_or_init(install).await
}

/// Runs `kubectl` with it on the PATH.
async fn kubectl(arguments: &[&str]) -> Said {
    let control_plane = &shared().await.control_plane;
    let path = installed(control_plane).await;
    let folder = path.split(':').next().unwrap();
    let mut command = Command::new(Path::new(folder).join("kubectl"));
    command.args(arguments).env("PATH", path);
    said(command, &control_plane.kubeconfig(), "").await
}

#[tokio::test]
async fn kubectl_finds_it_on_the_path() {
    let scene = shared().await;
    let asked = ["queue", "-o", "json", "--waiting", "-l", "none=such"];
    let own = scene.trellis(&asked).await;
    assert_eq!(own.status, 0, "{own:?}");
    let plugin = kubectl(&[&["trellis"][..], &asked].concat()).await;
    assert_eq!(plugin.status, 0, "{plugin:?}");
    assert_eq!(plugin.json()["jobs"], own.json()["jobs"]);
    // Its exit status is kubectl's.
    let typo = kubectl(&["trellis", "queue", "no-such-queue"]).await;
    assert_eq!(typo.status, 1, "{typo:?}");
    assert!(typo.err.contains("no queue \"no-such-queue\""), "{typo:?}");
}

/// kubectl's completions for these words in any shell: the completion scripts of all shells call
/// `__complete`.
async fn offered(words: &[&str]) -> Vec<String> {
    let all = kubectl(&[&["__complete", "trellis"], words].concat()).await;
    assert_eq!(all.status, 0, "{all:?}");
    let mut lines: Vec<String> = all.out.lines().map(str::to_owned).collect();
    // kubectl's own answer to its shell: the shell adds no files of its own.
    assert_eq!(lines.pop().as_deref(), Some(":4"), "{all:?}");
    lines
}

#[tokio::test]
async fn kubectl_completes_it() {
    assert_eq!(offered(&["sus"]).await, ["suspend"]);
    let commands = offered(&[""]).await;
    for command in ["queue", "explain", "logs", "policy"] {
        assert!(commands.iter().any(|of| of == command), "{commands:?}");
    }
    assert_eq!(offered(&["policy", "te"]).await, ["test"]);
    assert_eq!(offered(&["queue", "--wait"]).await, ["--waiting"]);
    let formats = offered(&["queue", "--output", ""]).await;
    assert!(formats.iter().any(|of| of == "json"), "{formats:?}");
    assert_eq!(offered(&["completions", "kub"]).await, ["kubectl"]);
    assert!(offered(&["no-such-command-"]).await.is_empty());
}
