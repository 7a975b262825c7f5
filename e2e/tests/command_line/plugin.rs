//! `kubectl trellis`: kubectl finds the plugin on the PATH, and completes its commands.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tokio::process::Command;
use tokio::sync::OnceCell;
use trellis_e2e::control_plane::ControlPlane;

use crate::fixtures::{CommandOutput, run_command, shared_fixture, trellis_program};

/// A user's setup: `trellis` with its two names, and the completion program.
async fn path_with_plugin(control_plane: &ControlPlane) -> &'static str {
    static PATH: OnceCell<String> = OnceCell::const_new();
    let install = async || {
        let programs = [
            ("trellis", trellis_program()),
            ("kubectl-trellis", trellis_program()),
        ];
        let line = control_plane.shell_path_line(&programs).unwrap();
        let folder = line.strip_prefix("export PATH=").unwrap();
        let folder = folder.strip_suffix(":$PATH").unwrap();
        let script = shared_fixture()
            .await
            .run_trellis(&["completions", "kubectl"])
            .await;
        assert_eq!(script.status, 0, "{script:?}");
        let completes = Path::new(folder).join("kubectl_complete-trellis");
        std::fs::write(&completes, script.out).unwrap();
        let may_run = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(completes, may_run).unwrap();
        format!("{folder}:{}", std::env::var("PATH").unwrap())
    };
    PATH.get_or_init(install).await
}

/// Runs `kubectl` with the plugin on the PATH.
async fn run_kubectl(arguments: &[&str]) -> CommandOutput {
    let control_plane = &shared_fixture().await.control_plane;
    let path = path_with_plugin(control_plane).await;
    let folder = path.split(':').next().unwrap();
    let mut command = Command::new(Path::new(folder).join("kubectl"));
    command.args(arguments).env("PATH", path);
    run_command(command, &control_plane.kubeconfig(), "").await
}

#[tokio::test]
async fn kubectl_finds_the_plugin_on_the_path() {
    let scene = shared_fixture().await;
    let arguments = ["queue", "-o", "json", "--waiting", "-l", "none=such"];
    let own = scene.run_trellis(&arguments).await;
    assert_eq!(own.status, 0, "{own:?}");
    let plugin = run_kubectl(&[&["trellis"][..], &arguments].concat()).await;
    assert_eq!(plugin.status, 0, "{plugin:?}");
    assert_eq!(plugin.json()["jobs"], own.json()["jobs"]);
    // kubectl returns the exit status of the plugin.
    let typo = run_kubectl(&["trellis", "queue", "no-such-queue"]).await;
    assert_eq!(typo.status, 1, "{typo:?}");
    assert!(typo.err.contains("no queue \"no-such-queue\""), "{typo:?}");
}

/// Returns kubectl's completions for these words. The completion scripts of all shells call
/// `__complete`.
async fn completions(words: &[&str]) -> Vec<String> {
    let all = run_kubectl(&[&["__complete", "trellis"], words].concat()).await;
    assert_eq!(all.status, 0, "{all:?}");
    let mut lines: Vec<String> = all.out.lines().map(str::to_owned).collect();
    // The directive of kubectl to the shell: add no file names.
    assert_eq!(lines.pop().as_deref(), Some(":4"), "{all:?}");
    lines
}

#[tokio::test]
async fn kubectl_completes_plugin_arguments() {
    assert_eq!(completions(&["sus"]).await, ["suspend"]);
    let commands = completions(&[""]).await;
    for command in ["queue", "explain", "logs", "policy"] {
        assert!(
            commands.iter().any(|candidate| candidate == command),
            "{commands:?}"
        );
    }
    assert_eq!(completions(&["policy", "te"]).await, ["test"]);
    assert_eq!(completions(&["queue", "--wait"]).await, ["--waiting"]);
    let formats = completions(&["queue", "--output", ""]).await;
    assert!(
        formats.iter().any(|candidate| candidate == "json"),
        "{formats:?}"
    );
    assert_eq!(completions(&["completions", "kub"]).await, ["kubectl"]);
    assert!(completions(&["no-such-command-"]).await.is_empty());
}
