//! Watches, as kubectl and client libraries use them.

use std::process::Stdio;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::WatchParams;
use kube::core::WatchEvent;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_api::visibility::{JobState, NodeState};
use trellis_e2e::binaries::Executable;
use trellis_e2e::site::jobs::SOON;

use crate::fixtures::{VisibilityFixture, shared_fixture};

/// Waits for the next item of a future.
async fn soon<T>(next: impl Future<Output = Option<T>>) -> T {
    let next = tokio::time::timeout(SOON, next).await;
    next.expect("no event in time")
        .expect("the watch has ended")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_prints_each_change_of_a_job() {
    let scene = shared_fixture().await;
    let site = scene.create_site("watched", 1).await;
    let viewer = scene.viewer_kubeconfig(&site).await;
    let kubectl = scene.control_plane.binaries().path(Executable::Kubectl);
    let mut watching = Command::new(kubectl)
        .arg(format!("--kubeconfig={}", viewer.display()))
        .arg(format!("--namespace={}", site.name()))
        .args(["get", "jobstates", "--watch"])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    site.create(site.job("first", 1, 8)).await.unwrap();
    site.wait_for_phase("first", JobPhase::Running).await;
    site.create(site.job("second", 1, 8)).await.unwrap();
    let mut printed = Vec::new();
    for (name, phase) in [("first", "Running"), ("second", "Queued")] {
        loop {
            let line = soon(async { lines.next_line().await.unwrap() }).await;
            let is_it = line.starts_with(name) && line.contains(phase);
            printed.push(line);
            if is_it {
                break;
            }
        }
    }
    let heads = printed.iter().filter(|line| line.starts_with("NAME"));
    assert_eq!(heads.count(), 1, "{printed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_libraries_follow_jobs_and_nodes() {
    let scene = shared_fixture().await;
    let site = scene.create_site("followed", 1).await;
    let jobs: Api<JobState> = Api::namespaced(scene.control_plane.client(), site.name());
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let mut events = Box::pin(watcher::watcher(jobs.clone(), config));
        while !matches!(soon(events.next()).await.unwrap(), Event::InitDone) {}
        site.create(site.job("llm", 1, 8)).await.unwrap();
        loop {
            if let Event::Apply(job) = soon(events.next()).await.unwrap()
                && job.name_any() == "llm"
                && job.phase == Some(JobPhase::Running)
            {
                break;
            }
        }
        site.delete::<TrainingJob>("llm").await;
        loop {
            if let Event::Delete(job) = soon(events.next()).await.unwrap() {
                assert_eq!(job.name_any(), "llm");
                break;
            }
        }
    }
    follow_node(scene, &site.nodes().names()[0]).await;
}

/// Watches a node by its name, from the version of a list.
async fn follow_node(scene: &VisibilityFixture, node: &str) {
    let nodes: Api<NodeState> = Api::all(scene.control_plane.client());
    let version = nodes.list(&kube::api::ListParams::default()).await.unwrap();
    let version = version.metadata.resource_version.unwrap();
    let params = WatchParams::default().fields(&format!("metadata.name={node}"));
    let mut events = Box::pin(nodes.watch(&params, &version).await.unwrap());
    let cordon = scene
        .control_plane
        .kubectl(&["cordon", node])
        .await
        .unwrap();
    assert!(cordon.status.success());
    loop {
        match soon(async { events.try_next().await.unwrap() }).await {
            WatchEvent::Modified(state) => {
                assert_eq!(state.name_any(), node);
                if !state.schedulable {
                    break;
                }
            }
            WatchEvent::Bookmark(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_needs_its_right_and_ends_when_the_right_does() {
    let scene = shared_fixture().await;
    let site = scene.create_site("unwatched", 1).await;
    let viewer = scene.viewer_kubeconfig(&site).await;
    let config = kube::config::Kubeconfig::read_from(&viewer).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await;
    let client = kube::Client::try_from(config.unwrap()).unwrap();
    let elsewhere: Api<JobState> = Api::namespaced(client.clone(), "default");
    let refused = elsewhere.watch(&WatchParams::default(), "0").await;
    let refused = refused.err().map(|error| error.to_string()).unwrap();
    assert!(
        refused.contains("may not") || refused.contains("cannot watch"),
        "{refused}"
    );

    let here: Api<JobState> = Api::namespaced(client, site.name());
    let mut events = Box::pin(here.watch(&WatchParams::default(), "0").await.unwrap());
    let first = soon(async { events.try_next().await.unwrap() }).await;
    assert!(matches!(first, WatchEvent::Bookmark(_)), "{first:?}");
    let namespace = format!("--namespace={}", site.name());
    let delete = ["delete", "rolebinding", "--all", &namespace];
    let deleted = scene.control_plane.kubectl(&delete).await.unwrap();
    assert!(deleted.status.success());
    let ended = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            match events.try_next().await.unwrap() {
                Some(WatchEvent::Bookmark(_)) => {}
                Some(WatchEvent::Error(status)) => break status.code,
                other => panic!("{other:?}"),
            }
        }
    });
    assert_eq!(ended.await.unwrap(), 403);
}
