//! Commands that keep running until their reader closes the output, also while no server answers.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use trellis_api::job::JobPhase;
use trellis_e2e::control_plane::{ControlPlane, free_port};
use trellis_e2e::site::jobs::SOON;

use crate::fixtures::{shared_fixture, trellis_program};

/// A running command.
struct WatchCommand {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
}

impl WatchCommand {
    fn start(kubeconfig: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(trellis_program())
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let err = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, out, err }
    }

    /// Reads lines until one has these words.
    async fn wait_for_line(&mut self, words: &str) {
        let found = async {
            loop {
                match self.out.next_line().await.unwrap() {
                    Some(line) if line.contains(words) => return,
                    Some(_) => {}
                    None => panic!(
                        "the output ends without {words:?}: {:?}",
                        self.err.next_line().await
                    ),
                }
            }
        };
        let found = timeout(SOON, found).await;
        found.unwrap_or_else(|_| panic!("{words:?} is not shown"));
    }
}

/// A connection to the API server that a test can cut.
struct ApiRelay {
    port: u16,
    address: String,
    relay: JoinHandle<()>,
}

impl ApiRelay {
    /// Creates a connection to this control plane, and a kubeconfig of its administrator for it.
    async fn for_control_plane(control_plane: &ControlPlane, kubeconfig: &Path) -> Self {
        let direct = std::fs::read_to_string(control_plane.kubeconfig()).unwrap();
        let server = control_plane.url();
        let address = server.trim_start_matches("https://").to_owned();
        let way = Self::open(free_port().unwrap(), address).await;
        let over = direct.replace(&server, &format!("https://127.0.0.1:{}", way.port));
        assert_ne!(over, direct);
        std::fs::write(kubeconfig, over).unwrap();
        way
    }

    async fn open(port: u16, address: String) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let server = address.clone();
        let relay = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((mut client_stream, _)) = listener.accept().await {
                let address = server.clone();
                open.spawn(async move {
                    let mut server_stream = TcpStream::connect(address).await.unwrap();
                    let _ = copy_bidirectional(&mut client_stream, &mut server_stream).await;
                });
            }
        });
        Self {
            port,
            address,
            relay,
        }
    }

    /// Cuts the connection with all its streams.
    async fn cut(self) -> (u16, String) {
        self.relay.abort();
        let _ = self.relay.await;
        (self.port, self.address)
    }
}

#[tokio::test]
async fn watch_ends_when_its_reader_closes_the_pipe() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-head", 1).await;
    site.submit("runs", 1, 1).await;
    site.wait_for_phase("runs", JobPhase::Running).await;
    let kubeconfig = scene.control_plane.kubeconfig();
    for command in ["queue", "nodes"] {
        let mut watch = WatchCommand::start(&kubeconfig, &[command, "-w", "--interval", "1"]);
        let first = timeout(SOON, watch.out.next_line()).await.unwrap();
        assert!(first.unwrap().is_some(), "{command}");
        let WatchCommand { mut child, out, .. } = watch;
        drop(out);
        let ended = timeout(Duration::from_secs(30), child.wait()).await;
        let ended = ended.unwrap_or_else(|_| {
            panic!("{command} -w keeps running after its reader has closed the pipe")
        });
        assert_eq!(ended.unwrap().code(), Some(0), "{command}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_continues_after_an_api_server_outage() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-gap", 1).await;
    site.submit("one", 1, 1).await;
    site.wait_for_phase("one", JobPhase::Running).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let way = ApiRelay::for_control_plane(&scene.control_plane, &path).await;

    let at = ["-n", site.name()];
    let queue = [&["queue", "-w", "--interval", "1"][..], &at].concat();
    let status = [&["status", "one", "-w"][..], &at].concat();
    let mut watches = [
        (WatchCommand::start(&path, &queue), "two"),
        (WatchCommand::start(&path, &status), "Suspended"),
    ];
    for (watch, _) in &mut watches {
        watch.wait_for_line("Running").await;
    }
    let (port, address) = way.cut().await;
    for (watch, _) in &mut watches {
        let line = timeout(SOON, watch.err.next_line()).await.unwrap();
        let line = line.unwrap().unwrap();
        assert!(line.starts_with("not reachable since"), "{line}");
    }
    site.submit("two", 1, 1).await;
    let suspended = scene
        .run_trellis(&[&["suspend", "one"][..], &at].concat())
        .await;
    assert_eq!(suspended.status, 0, "{suspended:?}");
    let way = ApiRelay::open(port, address).await;
    for (watch, words) in &mut watches {
        watch.wait_for_line(words).await;
    }
    // If the cluster is unreachable at the start, the command fails.
    let (port, _) = way.cut().await;
    let none = WatchCommand::start(&path, &queue);
    let ended = none.child.wait_with_output();
    let ended = timeout(SOON, ended).await.unwrap().unwrap();
    assert_eq!(ended.status.code(), Some(2), "at {port}");
}

/// A command that follows the logs of a job ends if the job is deleted during a gap of the watch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follow_logs_ends_when_the_job_is_deleted_during_a_gap() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-logs-gap", 1).await;
    site.submit("waits", 9, 8).await;
    site.wait_for_phase("waits", JobPhase::Queued).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let way = ApiRelay::for_control_plane(&scene.control_plane, &path).await;
    let follow = ["logs", "waits", "-f", "-n", site.name()];
    let mut follows = WatchCommand::start(&path, &follow);
    let note = timeout(SOON, follows.err.next_line()).await.unwrap();
    let note = note.unwrap().unwrap();
    assert!(note.contains("has no pods now"), "{note}");
    let (port, address) = way.cut().await;
    let cancel = ["cancel", "waits", "--wait", "-n", site.name()];
    let cancelled = scene.run_trellis(&cancel).await;
    assert_eq!(cancelled.status, 0, "{cancelled:?}");
    let _way = ApiRelay::open(port, address).await;
    let ended = timeout(Duration::from_secs(120), follows.child.wait()).await;
    let ended = ended.expect("the command follows a deleted job").unwrap();
    assert_eq!(ended.code(), Some(1));
    let last = follows.err.next_line().await.unwrap().unwrap();
    assert!(last.contains("the job was deleted"), "{last}");
}
