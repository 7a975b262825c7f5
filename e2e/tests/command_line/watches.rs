//! Commands that keep running: until their reader goes away, and while no server answers.

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
use trellis_e2e::jobs::SOON;

use crate::scene::{program, shared};

/// A command that goes on.
struct Watch {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
}

impl Watch {
    fn begin(kubeconfig: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(program())
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

    /// Reads on until a line has these words.
    async fn shows(&mut self, words: &str) {
        let found = async {
            loop {
                match self.out.next_line().await.unwrap() {
                    Some(line) if line.contains(words) => return,
                    Some(_) => {}
                    None => panic!(
                        "it ends without {words:?}: {:?}",
                        self.err.next_line().await
                    ),
                }
            }
        };
        let found = timeout(SOON, found).await;
        found.unwrap_or_else(|_| panic!("{words:?} is not shown"));
    }
}

/// A way to the API server that can be cut.
struct Way {
    port: u16,
    to: String,
    relay: JoinHandle<()>,
}

impl Way {
    /// One to this control plane, and the kubeconfig of its administrator over it.
    async fn of(control_plane: &ControlPlane, kubeconfig: &Path) -> Self {
        let direct = std::fs::read_to_string(control_plane.kubeconfig()).unwrap();
        let server = control_plane.url();
        let to = server.trim_start_matches("https://").to_owned();
        let way = Self::open(free_port().unwrap(), to).await;
        let over = direct.replace(&server, &format!("https://127.0.0.1:{}", way.port));
        assert_ne!(over, direct);
        std::fs::write(kubeconfig, over).unwrap();
        way
    }

    async fn open(port: u16, to: String) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let server = to.clone();
        let relay = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((mut here, _)) = listener.accept().await {
                let to = server.clone();
                open.spawn(async move {
                    let mut there = TcpStream::connect(to).await.unwrap();
                    let _ = copy_bidirectional(&mut here, &mut there).await;
                });
            }
        });
        Self { port, to, relay }
    }

    /// Cuts it, with all that goes over it.
    async fn cut(self) -> (u16, String) {
        self.relay.abort();
        let _ = self.relay.await;
        (self.port, self.to)
    }
}

#[tokio::test]
async fn who_reads_no_more_ends_what_goes_on() {
    let scene = shared().await;
    let site = scene.site("cli-head", 1).await;
    site.submit("runs", 1, 1).await;
    site.reaches("runs", JobPhase::Running).await;
    let kubeconfig = scene.control_plane.kubeconfig();
    for command in ["queue", "nodes"] {
        let mut watch = Watch::begin(&kubeconfig, &[command, "-w", "--interval", "1"]);
        let first = timeout(SOON, watch.out.next_line()).await.unwrap();
        assert!(first.unwrap().is_some(), "{command}");
        let Watch { mut child, out, .. } = watch;
        drop(out);
        let ended = timeout(Duration::from_secs(30), child.wait()).await;
        let ended = ended.unwrap_or_else(|_| panic!("{command} -w goes on for nobody"));
        assert_eq!(ended.unwrap().code(), Some(0), "{command}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_reached_for_a_while_is_watched_on() {
    let scene = shared().await;
    let site = scene.site("cli-gap", 1).await;
    site.submit("one", 1, 1).await;
    site.reaches("one", JobPhase::Running).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let way = Way::of(&scene.control_plane, &path).await;

    let at = ["-n", site.name()];
    let queue = [&["queue", "-w", "--interval", "1"][..], &at].concat();
    let status = [&["status", "one", "-w"][..], &at].concat();
    let mut watches = [
        (Watch::begin(&path, &queue), "two"),
        (Watch::begin(&path, &status), "Suspended"),
    ];
    for (watch, _) in &mut watches {
        watch.shows("Running").await;
    }
    let (port, address) = way.cut().await;
    for (watch, _) in &mut watches {
        let said = timeout(SOON, watch.err.next_line()).await.unwrap();
        let said = said.unwrap().unwrap();
        assert!(said.starts_with("not reachable since"), "{said}");
    }
    site.submit("two", 1, 1).await;
    let suspended = scene
        .trellis(&[&["suspend", "one"][..], &at].concat())
        .await;
    assert_eq!(suspended.status, 0, "{suspended:?}");
    let way = Way::open(port, address).await;
    for (watch, words) in &mut watches {
        watch.shows(words).await;
    }
    // No cluster at first is no gap.
    let (port, _) = way.cut().await;
    let none = Watch::begin(&path, &queue);
    let ended = none.child.wait_with_output();
    let ended = timeout(SOON, ended).await.unwrap().unwrap();
    assert_eq!(ended.status.code(), Some(2), "at {port}");
}

/// A command that follows the logs of a job ends if the job is deleted during a gap of the watch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_of_a_job_that_went_during_a_gap_come_to_an_end() {
    let scene = shared().await;
    let site = scene.site("cli-logs-gap", 1).await;
    site.submit("waits", 9, 8).await;
    site.reaches("waits", JobPhase::Queued).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let way = Way::of(&scene.control_plane, &path).await;
    let follow = ["logs", "waits", "-f", "-n", site.name()];
    let mut follows = Watch::begin(&path, &follow);
    let note = timeout(SOON, follows.err.next_line()).await.unwrap();
    let note = note.unwrap().unwrap();
    assert!(note.contains("has no pods now"), "{note}");
    let (port, to) = way.cut().await;
    let cancel = ["cancel", "waits", "--wait", "-n", site.name()];
    let cancelled = scene.trellis(&cancel).await;
    assert_eq!(cancelled.status, 0, "{cancelled:?}");
    let _way = Way::open(port, to).await;
    let ended = timeout(Duration::from_secs(120), follows.child.wait()).await;
    let ended = ended.expect("it follows a job that is gone").unwrap();
    assert_eq!(ended.code(), Some(1));
    let last = follows.err.next_line().await.unwrap().unwrap();
    assert!(last.contains("the job is gone"), "{last}");
}
