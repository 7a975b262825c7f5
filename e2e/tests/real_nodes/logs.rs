//! `trellis logs` with the logs of a real kubelet.

use std::process::Stdio;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::timeout;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::SCOPE_LABEL;
use trellis_e2e::real_nodes::IMAGE_NAME;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::fixtures::{RealNodesFixture, TRAINING_TIMEOUT, TrialNamespace, TrialOutcome};

/// A program that prints its rank and attempt, and fails or ends when a file exists.
const RANK_SCRIPT: &str = "trap 'exit 143' TERM; echo rank $TRELLIS_RANK attempt $TRELLIS_ATTEMPT; \
    until [ -e /shared/ends ]; do \
        if [ -e /shared/fails-$TRELLIS_RANK-$TRELLIS_ATTEMPT ]; then \
            echo out of data in $TRELLIS_ATTEMPT; exit 3; \
        fi; \
        sleep 0.2; \
    done; echo ended $TRELLIS_RANK";

fn logs_command(scene: &RealNodesFixture, place: &TrialNamespace, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trellis-under-test"));
    command
        .args(["logs", "j", "-n", place.name()])
        .args(arguments)
        .env("KUBECONFIG", scene.control_plane.kubeconfig())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs `trellis logs`. Returns exit status, standard output and standard error.
async fn run_logs(
    scene: &RealNodesFixture,
    place: &TrialNamespace,
    arguments: &[&str],
) -> (Option<i32>, String, String) {
    let output = logs_command(scene, place, arguments)
        .output()
        .await
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

pub(crate) async fn test_logs(
    scene: &'static RealNodesFixture,
    place: TrialNamespace,
) -> TrialOutcome {
    let shared = place.create_shared_volume("shared").await;
    let mut job = place.gang_waiting_for_file("j", 2, 1);
    job["spec"]["taskGroups"][0]["command"] = json!(["sh", "-c", RANK_SCRIPT]);
    place.create(job).await.unwrap();
    let all = async |attempt: u32| {
        let prefixes =
            (0..2).map(|rank| format!("[{rank} j-worker-{rank}] rank {rank} attempt {attempt}\n"));
        let prefixes: Vec<String> = prefixes.collect();
        eventually(SOON, || async {
            let output = run_logs(scene, &place, &["--all"]).await;
            let mut lines: Vec<&str> = output.1.split_inclusive('\n').collect();
            lines.sort_unstable();
            ensure!(output.0 == Some(0) && lines == prefixes, "{output:?}");
            Ok(())
        })
        .await
        .unwrap();
    };
    all(1).await;
    let own = |rank: u32, attempt: u32| {
        let line = format!("rank {rank} attempt {attempt}\n");
        (Some(0), line, String::new())
    };
    assert_eq!(run_logs(scene, &place, &[]).await, own(0, 1));
    assert_eq!(run_logs(scene, &place, &["--rank", "1"]).await, own(1, 1));
    let (none, _, reason) = run_logs(scene, &place, &["--rank", "2"]).await;
    assert_eq!(none, Some(1));
    assert!(
        reason.contains("j has no rank 2: its ranks are 0 to 1"),
        "{reason}"
    );

    // Follows the logs across a restart until the job ends.
    let mut follows = logs_command(scene, &place, &["-f", "--rank", "1"])
        .spawn()
        .unwrap();
    let mut followed = BufReader::new(follows.stdout.take().unwrap()).lines();
    let mut next = async || -> String {
        let line = timeout(TRAINING_TIMEOUT, followed.next_line())
            .await
            .context("silent");
        line.unwrap().unwrap().unwrap_or_default()
    };
    assert_eq!(next().await, "rank 1 attempt 1");
    std::fs::write(shared.join("fails-1-1"), "").unwrap();
    assert_eq!(next().await, "out of data in 1");
    assert_eq!(next().await, "rank 1 attempt 2");
    place.wait_for_running_attempt("j", 2).await;
    all(2).await;
    // The logs of the first attempt are gone with its pods, but their last lines are known.
    let (none, out, reason) = run_logs(scene, &place, &["-p", "--rank", "1"]).await;
    assert_eq!((none, out.as_str()), (Some(1), ""), "{reason}");
    let last = "The last line of j-worker-1 in attempt 1: out of data in 1";
    assert!(reason.contains(last), "{reason}");

    std::fs::write(shared.join("ends"), "").unwrap();
    assert_eq!(next().await, "ended 1");
    assert_eq!(next().await, "");
    let ended = timeout(TRAINING_TIMEOUT, follows.wait_with_output()).await;
    let ended = ended.unwrap().unwrap();
    let output = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{output}");
    assert!(output.contains("note: attempt 2 starts"), "{output}");
    place.wait_until_complete("j").await;
    // The pods of a complete job still exist, with their logs.
    let tail = run_logs(scene, &place, &["--rank", "1", "--tail", "1"]).await;
    assert_eq!(tail, (Some(0), "ended 1\n".to_owned(), String::new()));
    check_first_job_of_docs(scene, &place).await;
    TrialOutcome::Passed
}

/// The job of docs/quick-start.md prints what the page shows, which simulated pods cannot.
async fn check_first_job_of_docs(scene: &RealNodesFixture, place: &TrialNamespace) {
    let page = include_str!("../../../docs/quick-start.md");
    let job = page.split("```yaml\n").nth(1).unwrap();
    let job = job.split("```").next().unwrap();
    let mut job: Value = serde_saphyr::from_str(job).unwrap();
    job["metadata"]["namespace"].take();
    let group = &mut job["spec"]["taskGroups"][0];
    group["image"] = json!(IMAGE_NAME);
    group["nodeSelector"] = json!({SCOPE_LABEL: "calm"});
    // The container ignores SIGTERM, and the next test waits for its nodes.
    job["spec"]["checkpoint"] = json!({"gracePeriodSeconds": 5});
    place.create(job).await.unwrap();
    place.wait_for_phase("hello", JobPhase::Running).await;
    let (_, expected) = page.split_once("$ kubectl logs hello-worker-1\n").unwrap();
    let expected = expected.split("```").next().unwrap();
    let logs = ["logs", "hello-worker-1", "-n", place.name()];
    eventually(SOON, || async {
        let printed = scene.control_plane.kubectl_ok(&logs).await?;
        ensure!(
            printed == expected,
            "{printed:?} is printed, {expected:?} is shown"
        );
        Ok(())
    })
    .await
    .unwrap();
}
