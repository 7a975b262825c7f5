//! `jobstates`, as kubectl and a client see them.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_api::visibility::JobState;
use trellis_e2e::admission::wait_for_stamping;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::site::namespace::TestNamespace;
use trellis_e2e::wait::eventually;

use crate::fixtures::shared_fixture;

/// Time in which pods start and stop, together, in seconds.
const MAX_SLACK_SECONDS: i64 = 2400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn viewer_of_a_namespace_sees_only_its_jobs() {
    let scene = shared_fixture().await;
    wait_for_stamping(&scene.control_plane).await;
    let site = scene.create_site("queued", 1).await;
    let queue = site.name();
    scene.create_queue(&site, 100).await;
    for (name, gpus, phase) in [
        ("runs", 8, JobPhase::Running),
        ("next", 8, JobPhase::Queued),
        ("over", 9, JobPhase::Queued),
    ] {
        let mut job = site.job(name, 1, gpus);
        job["spec"]["queueName"] = json!(queue);
        if phase == JobPhase::Running {
            job["spec"]["deadlines"] = json!({"activeSeconds": 3600});
        }
        site.create(job).await.unwrap();
        site.wait_for_phase(name, phase).await;
    }

    let viewer = scene.viewer_kubeconfig(&site).await;
    let namespace = format!("--namespace={}", site.name());
    let get = ["get", "jobstates", &namespace];
    let first_output = eventually(SOON, || async {
        let (ok, output) = scene.run_kubectl(&viewer, &get).await;
        ensure!(ok, "{output}");
        let lines: Vec<Vec<String>> = output
            .lines()
            .map(|line| line.split_whitespace().map(str::to_owned).collect())
            .collect();
        ensure!(lines.len() == 4, "{output}");
        // The operator gets its own writes through a watch.
        let has_prefix = |line: &[String], words: &[&str]| line.iter().take(words.len()).eq(words);
        ensure!(has_prefix(&lines[1], &["runs", queue]), "{output}");
        ensure!(lines[1].contains(&"Running".to_owned()), "{output}");
        for (line, name, position) in [(&lines[2], "next", "1"), (&lines[3], "over", "2")] {
            ensure!(
                has_prefix(line, &[name, queue, position, "Queued"]),
                "{output}"
            );
        }
        Ok((lines, output))
    });
    let (lines, output) = first_output.await.unwrap();
    let head = [
        "NAME",
        "QUEUE",
        "POSITION",
        "PHASE",
        "REASON",
        "GPUS",
        "PODS",
        "SINCE",
        "STARTS-IN",
        "ENDS-IN",
    ];
    assert_eq!(lines[0], head, "{output}");
    // Reads the kind by its short name, and in the wide format.
    let wide = ["get", "jst", "next", "-o", "wide", &namespace];
    let (ok, output) = scene.run_kubectl(&viewer, &wide).await;
    assert!(
        ok && output.contains("MESSAGE") && output.contains("nvidia.com/gpu"),
        "{output}"
    );

    // A user may not see the jobs of other namespaces.
    for elsewhere in [
        &["get", "jst", "--namespace=default"][..],
        &["get", "jst", "--all-namespaces"],
    ] {
        let (ok, output) = scene.run_kubectl(&viewer, elsewhere).await;
        assert!(
            !ok && output.contains("Forbidden"),
            "{elsewhere:?}: {output}"
        );
    }
    let (ok, output) = scene
        .run_kubectl(&viewer, &["get", "jst", "nobody", &namespace])
        .await;
    assert!(!ok && output.contains("NotFound"), "{output}");
    // These objects can only be read.
    let admin = scene.control_plane.kubeconfig();
    for (arguments, expected) in [
        (
            &["delete", "jst", "next", &namespace][..],
            "MethodNotAllowed",
        ),
        (
            &["get", "jst", "--selector=a=b", &namespace],
            "labelSelector",
        ),
    ] {
        let (_, output) = scene.run_kubectl(&admin, arguments).await;
        assert!(output.contains(expected), "{arguments:?}: {output}");
    }

    // The types that the command line reads.
    let api: Api<JobState> = Api::namespaced(scene.control_plane.client(), site.name());
    let next = eventually(SOON, || async {
        let next = api.get("next").await?;
        ensure!(next.expected_start.is_some(), "{next:?}");
        Ok(next)
    });
    let next = next.await.unwrap();
    assert_eq!(next.reason, Some(Reason::InsufficientCapacity));
    assert_eq!((next.gpus, next.pods, next.position), (8, 1, Some(1)));
    assert_eq!(next.user.as_deref(), Some("admin"), "{next:?}");
    let all = api.list(&ListParams::default().limit(1)).await.unwrap();
    assert_eq!(all.items.len(), 3, "the limit shortens the list");
    let running = all.items.first().context("nothing").unwrap();
    assert_eq!(running.nodes, site.nodes().names());
    assert_eq!((running.position, running.node_count), (None, Some(1)));
    // The running job ends an hour after its start, and then the next one starts, within the time
    // in which pods start and stop.
    let after = |time: &Option<Time>| {
        let time = time.as_ref().context("not known").unwrap().0;
        time.duration_since(running.since.0).as_secs()
    };
    let (end, start) = (after(&running.expected_end), after(&next.expected_start));
    assert!(
        (3600..3600 + MAX_SLACK_SECONDS).contains(&end),
        "{end}: {running:?}"
    );
    assert!((end - 5..=end + 5).contains(&start), "{start}: {next:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discovery_lists_the_group_and_other_groups_are_unaffected() {
    let scene = shared_fixture().await;
    let admin = scene.control_plane.kubeconfig();
    let of_group = [
        "api-resources",
        "--api-group=visibility.trellis.dev",
        "--no-headers",
        "-o",
        "wide",
    ];
    let served: BTreeSet<&str> = trellis_api::visibility::ALL_RESOURCES
        .iter()
        .map(|s| s.plural)
        .collect();
    // The API server reads the operator's OpenAPI document from time to time.
    let discovered = eventually(SOON, || async {
        let (ok, output) = scene.run_kubectl(&admin, &of_group).await;
        ensure!(ok, "{output}");
        let found: BTreeSet<&str> = output
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        ensure!(found == served, "{output}");
        ensure!(!output.contains("delete"), "{output}");
        Ok(())
    });
    discovered.await.unwrap();
    // `kubectl explain` describes the fields.
    for (field, expected) in [
        ("jobstates.expectedStart", "Expected start time"),
        ("explanations.shortage.missing", "Amount that is missing"),
    ] {
        let explained = eventually(SOON, || async {
            let (ok, output) = scene.run_kubectl(&admin, &["explain", field]).await;
            ensure!(ok && output.contains(expected), "{field}: {output}");
            Ok(())
        });
        explained.await.unwrap();
    }
    // The list is complete and has no warning about missing data.
    let gang_check = eventually(SOON, || async {
        let (ok, output) = scene.run_kubectl(&admin, &["api-resources"]).await;
        ensure!(ok && !output.to_lowercase().contains("error"), "{output}");
        Ok(())
    });
    gang_check.await.unwrap();
    let namespace = TestNamespace::create(&scene.control_plane, "short")
        .await
        .unwrap();
    let deleted = ["delete", "namespace", namespace.name(), "--timeout=60s"];
    let (ok, output) = scene.run_kubectl(&admin, &deleted).await;
    assert!(ok, "{output}");
}
