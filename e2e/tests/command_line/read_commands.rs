//! Commands that only read.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_e2e::admission::wait_for_stamping;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use crate::fixtures::{CommandLineFixture, CommandOutput, shared_fixture};

/// Repeats the command until its output is as expected, because the data of the engine may be some
/// seconds old.
async fn repeat_until(
    arguments: &[&str],
    condition: impl Fn(&CommandOutput) -> bool,
) -> CommandOutput {
    let scene = shared_fixture().await;
    repeat_command_until(condition, async || scene.run_trellis(arguments).await).await
}

/// Runs a command until its output satisfies the condition.
async fn repeat_command_until(
    is_so: impl Fn(&CommandOutput) -> bool,
    ask: impl AsyncFn() -> CommandOutput,
) -> CommandOutput {
    let output = eventually(SOON, || async {
        let output = ask().await;
        ensure!(is_so(&output), "{output:?}");
        Ok(output)
    });
    output.await.unwrap()
}

#[tokio::test]
async fn queue_lists_running_and_pending_jobs() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-queue", 1).await;
    site.submit("runs", 1, 6).await;
    site.wait_for_phase("runs", JobPhase::Running).await;
    site.submit("waits", 1, 4).await;
    site.wait_for_phase("waits", JobPhase::Queued).await;
    let has_reason = |output: &CommandOutput| output.out.contains("InsufficientCapacity");
    let output = repeat_until(&["queue", "-n", site.name()], has_reason).await;
    assert_eq!(output.status, 0, "{output:?}");
    assert!(output.out.starts_with("QUEUE "), "{output:?}");
    let running: Vec<_> = output.line_with("runs").split_whitespace().collect();
    assert_eq!((running[0], running[6], running[8]), ("-", "6", "Running"));
    let pending = output.line_with("waits");
    assert!(
        pending.contains("InsufficientCapacity: needs 4"),
        "{pending}"
    );
    // The output for scripts.
    let all = scene
        .run_trellis(&["queue", "-n", site.name(), "-o", "json", "--waiting"])
        .await;
    let all = all.json();
    let jobs = &all["jobs"];
    assert_eq!(jobs.as_array().unwrap().len(), 1);
    assert!(all["queues"].is_array() && all["notes"].is_array(), "{all}");
    assert_eq!(jobs[0]["metadata"]["name"], "waits");
    assert!(jobs[0]["position"].is_number());
    let labels = json!({"metadata": {"labels": {"run": site.name()}}});
    site.patch("waits", labels).await.unwrap();
    let run = format!("run={}", site.name());
    let names = scene
        .run_trellis(&["queue", "-A", "-l", &run, "-o", "name"])
        .await;
    assert_eq!(names.out, "trainingjob.trellis.dev/waits\n", "{names:?}");
    let wrong = scene.run_trellis(&["queue", "-l", "a b"]).await;
    assert_eq!(wrong.status, 2, "{wrong:?}");
    assert!(
        wrong.err.starts_with("error: --selector \"a b\": "),
        "{wrong:?}"
    );
    let typo = scene.run_trellis(&["queue", "no-such-queue"]).await;
    assert_eq!(typo.status, 1, "{typo:?}");
    assert!(typo.err.contains("no queue \"no-such-queue\""), "{typo:?}");
    let wrong = scene
        .run_trellis(&["queue", "--waiting", "--running"])
        .await;
    assert_eq!(wrong.status, 2, "{wrong:?}");
}

/// Each of two users sees the jobs with their own stamp, and not the jobs of the other user.
#[tokio::test]
async fn queue_mine_lists_jobs_of_the_current_user() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-mine", 1).await;
    let subjects = ["cli-ann", "cli-ben"].map(|user| json!({"kind": "User", "name": user}));
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "users"}, "subjects": subjects,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
    });
    let control_plane = &scene.control_plane;
    control_plane
        .apply_yaml_in(site.name(), &binding.to_string())
        .await
        .unwrap();
    wait_for_stamping(control_plane).await;
    for (user, job) in [("cli-ann", "of-ann"), ("cli-ben", "of-ben")] {
        let job = site.job(job, 1, 1).to_string();
        let submit = ["submit", "-f", "-", "-n", site.name()];
        let output = scene.run_as_user(user, &submit, &job).await;
        assert_eq!(output.status, 0, "{output:?}");
    }
    for job in ["of-ann", "of-ben"] {
        site.wait_for_phase(job, JobPhase::Running).await;
    }
    let names = ["queue", "-n", site.name(), "-o", "name"];
    repeat_until(&names, |output| output.out.lines().count() == 2).await;
    let mine = [&names[..], &["--mine"]].concat();
    for (user, job) in [("cli-ann", "of-ann"), ("cli-ben", "of-ben")] {
        let all = scene.run_as_user(user, &names, "").await;
        assert_eq!(all.out.lines().count(), 2, "{all:?}");
        // A job that was placed at once has no requester until the operator has read its status.
        let own = format!("trainingjob.trellis.dev/{job}\n");
        let is_own = |output: &CommandOutput| (output.status, &output.out) == (0, &own);
        repeat_command_until(is_own, async || scene.run_as_user(user, &mine, "").await).await;
    }
    // A user who has submitted no jobs.
    let none = scene.run_trellis(&mine).await;
    assert_eq!((none.status, none.out.as_str()), (0, ""), "{none:?}");
}

#[tokio::test]
async fn queue_shows_only_namespaces_that_the_user_may_view() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-viewer", 1).await;
    site.submit("mine", 1, 1).await;
    site.wait_for_phase("mine", JobPhase::Running).await;
    // The namespace of its context is the default one.
    let queue = ["queue", "-n", site.name()];
    let lists_it = |output: &CommandOutput| output.status == 0 && output.out.contains("mine");
    repeat_command_until(lists_it, async || scene.run_as_viewer(&site, &queue).await).await;
    let labelled = ["queue", "-n", site.name(), "-l", "no-such-label"];
    let output = scene.run_as_viewer(&site, &labelled).await;
    assert_eq!(output.status, 0, "{output:?}");
    assert!(!output.out.contains("mine"), "{output:?}");
    let all = scene.run_as_viewer(&site, &["queue", "-A"]).await;
    assert_eq!(all.status, 2, "{all:?}");
    assert!(all.err.contains("without -A"), "{all:?}");
    let elsewhere = scene
        .run_as_viewer(&site, &["queue", "-n", "default"])
        .await;
    assert_eq!(elsewhere.status, 2);
    assert!(elsewhere.err.contains("trellis-view"), "{elsewhere:?}");
    let nodes = scene.run_as_viewer(&site, &["nodes"]).await;
    assert_eq!(nodes.status, 2);
    assert!(nodes.err.contains("trellis-platform"), "{nodes:?}");
    let as_user = scene
        .run_as_viewer(&site, &["status", "mine", "-n", site.name()])
        .await;
    assert_eq!(as_user.status, 0, "{as_user:?}");
    assert!(as_user.out.contains("Running"), "{as_user:?}");
    // With --as, as in kubectl, an administrator sees what that user sees.
    let viewer = format!("--as=system:serviceaccount:{}:viewer", site.name());
    let nodes = scene.run_trellis(&["nodes", &viewer]).await;
    assert_eq!(nodes.status, 2, "{nodes:?}");
    assert!(nodes.err.contains("trellis-platform"), "{nodes:?}");
}

#[tokio::test]
async fn broken_kubeconfig_is_an_error() {
    let scene = shared_fixture().await;
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("config");
    std::fs::write(&broken, "clusters: {").unwrap();
    let broken = broken.to_str().unwrap();
    for arguments in [
        &["queue", "--kubeconfig", broken][..],
        &["queue", "--kubeconfig", "/no/such/config"],
        &["queue", "--cluster", "none-of-this-name"],
    ] {
        let output = scene.run_trellis(arguments).await;
        assert_eq!(output.status, 2, "{output:?}");
        assert!(
            output.err.contains("no cluster is configured"),
            "{output:?}"
        );
    }
}

#[tokio::test]
async fn explain_shows_the_shortage_and_the_remedy() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-explain", 2).await;
    site.submit("holds", 2, 5).await;
    site.wait_for_phase("holds", JobPhase::Running).await;
    site.submit("waits", 1, 8).await;
    site.wait_for_phase("waits", JobPhase::Queued).await;
    let arguments = ["explain", "tj/waits", "-n", site.name()];
    let output = repeat_until(&arguments, |output| output.out.contains("smallest change")).await;
    for words in [
        "number ",
        "Shortage",
        "Nodes for task group worker",
        "free 5 nvidia.com/gpu",
    ] {
        assert!(output.out.contains(words), "{words}: {output:?}");
    }
    let unwrapped: Vec<_> = output.out.split_whitespace().collect();
    let holder = format!("held by {}/holds (5 nvidia.com/gpu)", site.name());
    assert!(unwrapped.join(" ").contains(&holder), "{output:?}");
    let missing = scene
        .run_trellis(&["explain", "nobody", "-n", site.name()])
        .await;
    assert_eq!(missing.status, 1);
    assert!(
        missing.err.contains("there is no TrainingJob \"nobody\""),
        "{missing:?}"
    );
    let missing = ["explain", "pod/nobody", "-n", site.name()];
    let missing = scene.run_trellis(&missing).await;
    assert_eq!(missing.status, 1);
    assert!(
        missing.err.contains("there is no Pod/nobody"),
        "{missing:?}"
    );
    let wrong = scene.run_trellis(&["explain", "deploy/waits"]).await;
    assert_eq!(wrong.status, 2);
    assert!(wrong.err.contains("podgroup/NAME"), "{wrong:?}");
    // The command refers from the PodGroup of a job to the job.
    let own = ["explain", "podgroup/waits", "-n", site.name()];
    let own = scene.run_trellis(&own).await;
    assert_eq!(own.status, 2, "{own:?}");
    assert!(own.err.contains("`trellis explain waits`"), "{own:?}");
    let json = scene
        .run_trellis(&["explain", "waits", "-n", site.name(), "-o", "json"])
        .await;
    assert_eq!(json.json()["explanation"]["metadata"]["name"], "waits");
}

#[tokio::test]
async fn nodes_shows_free_capacity_and_node_problems() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-nodes", 2).await;
    site.submit("holds", 1, 3).await;
    site.wait_for_phase("holds", JobPhase::Running).await;
    let names = site.nodes().names();
    site.nodes().cordon(&names[1]).await.unwrap();
    let (used_node, cordoned) = (names[0].as_str(), names[1].as_str());
    // The pod may run on either node. The other node is empty.
    let holds = site
        .list_pods("holds")
        .await
        .remove(0)
        .spec
        .unwrap()
        .node_name;
    let (free, left, usable) = match holds.as_deref() == Some(used_node) {
        true => (["5/8", "8/8"], ["███·····", "xxxxxxxx"], "5        5/2/1/0"),
        false => (["8/8", "5/8"], ["········", "███xxxxx"], "8        8/4/2/1"),
    };
    let arguments = ["nodes", used_node, cordoned];
    let output = repeat_until(&arguments, |output| {
        output.out.contains("SchedulingDisabled") && output.out.contains("/holds:3")
    })
    .await;
    let words = |node: &str, column: usize| output.line_with(node).split_whitespace().nth(column);
    assert_eq!(words(used_node, 2), Some(free[0]), "{output:?}");
    assert_eq!(words(cordoned, 2), Some(free[1]), "{output:?}");
    assert!(
        output.line_with(cordoned).contains("SchedulingDisabled"),
        "{output:?}"
    );
    let holder = format!("{}/holds:3", site.name());
    let full_line = output.line_with(if free[0] == "5/8" {
        used_node
    } else {
        cordoned
    });
    assert!(full_line.contains(&holder), "{output:?}");
    let map = scene
        .run_trellis(&["nodes", "--map", used_node, cordoned])
        .await;
    let drawn = format!(
        "{used_node}  {}\n{cordoned}  {}  SchedulingDisabled\n\n\
         █ a job's  ▒ another pod's  ░ kept  · free  x free, on a node that takes no pods\n\n\
         DEVICE           ALL   JOBS   OTHERS   KEPT   FREE   USABLE   PODS OF 1/2/4/8\n\
         nvidia.com/gpu   16    3      0        0      13     {usable}\n",
        left[0], left[1]
    );
    assert_eq!(map.out, drawn, "{map:?}");
    let missing = scene.run_trellis(&["nodes", "nowhere"]).await;
    assert_eq!(missing.status, 1);
    assert!(missing.err.contains("no node \"nowhere\""), "{missing:?}");
}

/// Without an operator, commands lack the data of the engine, and still show the data of the API
/// server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_show_api_server_data_without_an_operator() {
    let mut scene = CommandLineFixture::new().await.unwrap();
    let site = scene.create_site("cli-alone", 1).await;
    site.submit("waits", 9, 8).await;
    site.wait_for_phase("waits", JobPhase::Queued).await;
    scene.operator.kill().unwrap();
    let unavailable = eventually(Duration::from_secs(60), || async {
        let output = scene.run_trellis(&["queue"]).await;
        ensure!(output.status == 2, "{output:?}");
        Ok(output)
    });
    let unavailable = unavailable.await.unwrap();
    assert!(
        unavailable.err.contains("kubectl get tj -A"),
        "{unavailable:?}"
    );
    let explanation = scene
        .run_trellis(&["explain", "waits", "-n", site.name()])
        .await;
    assert_eq!(explanation.status, 0, "{explanation:?}");
    assert!(explanation.out.contains("note: "), "{explanation:?}");
    assert!(explanation.out.contains("Next steps"), "{explanation:?}");
}

#[tokio::test]
async fn history_shows_how_attempts_ended() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-history", 1).await;
    for name in ["done", "broken"] {
        let mut job = site.job(name, 1, 2);
        job["spec"]["restart"] = json!({"limit": 0});
        site.create(job).await.unwrap();
        site.wait_for_phase(name, JobPhase::Running).await;
    }
    site.end_pod("done-worker-0", "0").await;
    site.end_pod("broken-worker-0", "3").await;
    let has_both =
        |output: &CommandOutput| output.out.contains("/done") && output.out.contains("exit code 3");
    let output = repeat_until(&["history", "-n", site.name()], has_both).await;
    assert!(output.out.starts_with("JOB "), "{output:?}");
    let line = |job: &str| {
        let name = format!("{}/{job} ", site.name());
        output
            .out
            .lines()
            .find(|line| line.starts_with(&name))
            .unwrap()
    };
    assert!(line("done").contains("Complete"), "{output:?}");
    assert!(line("broken").contains("Failed"), "{output:?}");
    let failed = ["history", "--failed", "-n", site.name(), "-o", "json"];
    let failed = scene.run_trellis(&failed).await.json();
    assert_eq!(failed.as_array().unwrap().len(), 1, "{failed}");
    assert_eq!(failed[0]["job"], "broken");
    let one = scene
        .run_trellis(&["history", "done", "-n", site.name()])
        .await;
    assert_eq!((one.status, one.out.lines().count()), (0, 2), "{one:?}");
    let none = scene
        .run_trellis(&["history", "nothing", "-n", site.name()])
        .await;
    assert_eq!(none.status, 1, "{none:?}");
    let elsewhere = scene
        .run_as_viewer(&site, &["history", "-n", "default"])
        .await;
    assert_eq!(elsewhere.status, 2, "{elsewhere:?}");
    assert!(elsewhere.err.contains("trellis-view"), "{elsewhere:?}");
}
