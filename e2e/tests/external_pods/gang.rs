//! Gangs of pods that a Job's controller has created.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, Reason, names};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use super::fixtures::{
    create_job, create_job_in_group, create_pod, create_pod_group, list_pods, node_name,
    read_journal, scheduled_condition, wait_for_unschedulable, wait_until_bound, wait_until_placed,
};
use super::{create_site, shared_control_plane};

#[tokio::test]
async fn indexed_job_is_bound_as_a_whole_by_a_journaled_plan() {
    let site = create_site("indexed", 2).await;
    create_pod_group(&site, "train", json!({"minMember": 4})).await;
    create_job(&site, "train", 4, 4).await;
    let bound = wait_until_placed(&site, "train", 4).await;
    let plan = read_journal(&site, "train").await.plan.unwrap();
    assert_eq!(plan.queue.as_deref(), Some("default"));
    let planned: BTreeSet<(String, String)> = plan
        .assignments
        .iter()
        .flat_map(|run| {
            run.pods
                .iter()
                .map(|pod| (pod.name.clone(), run.node.clone()))
        })
        .collect();
    let bound_uids: BTreeSet<(String, String)> = bound
        .iter()
        .map(|pod| (pod.name_any(), node_name(pod).unwrap().to_owned()))
        .collect();
    assert_eq!(planned, bound_uids);
    for pod in &bound {
        assert_eq!(pod.annotations().get(names::PLAN), Some(&plan.hash));
    }
    // Only a deleted pod of a running gang is created again.
    let lost = bound[0].name_any();
    let api = site.api::<Pod>();
    api.delete(&lost, &DeleteParams::default()).await.unwrap();
    eventually(SOON, || async {
        let now = list_pods(&site, "train").await;
        let bound_count = now.iter().filter(|pod| node_name(pod).is_some()).count();
        ensure!(
            bound_count == 4 && now.iter().all(|pod| pod.name_any() != lost),
            "{bound_count} are there"
        );
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(
        read_journal(&site, "train").await.phase,
        Some(PodGroupPhase::Placed)
    );
    // When all pods have ended, the gang releases its resources.
    let jobs = site.api::<Job>();
    jobs.delete("train", &DeleteParams::background())
        .await
        .unwrap();
    eventually(SOON, || async {
        let journal = read_journal(&site, "train").await;
        ensure!(
            journal.phase == Some(PodGroupPhase::Pending) && journal.plan.is_none(),
            "{journal:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn gang_waits_for_capacity_and_members_and_reports_it() {
    let site = create_site("room", 1).await;
    create_pod_group(&site, "big", json!({"minMember": 4})).await;
    create_job(&site, "big", 4, 4).await;
    let waiting = eventually(SOON, || async {
        let pods = list_pods(&site, "big").await;
        ensure!(pods.len() == 4, "{} pods", pods.len());
        Ok(pods)
    })
    .await
    .unwrap();
    for pod in &waiting {
        wait_for_unschedulable(&site, &pod.name_any(), "ExceedsCluster: ").await;
    }
    eventually(SOON, || async {
        let journal = read_journal(&site, "big").await;
        ensure!(
            journal.reason == Some(Reason::ExceedsCluster),
            "{journal:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
    assert!(
        list_pods(&site, "big")
            .await
            .iter()
            .all(|pod| node_name(pod).is_none())
    );
    let extra_nodes = site
        .add_nodes(shared_control_plane().await, NodeTemplate::new(1).gpus(8))
        .await;
    let bound = wait_until_placed(&site, "big", 4).await;
    assert_eq!(
        bound
            .iter()
            .filter_map(node_name)
            .collect::<BTreeSet<_>>()
            .len(),
        2
    );
    assert!(
        bound
            .iter()
            .all(|pod| scheduled_condition(pod).is_some_and(|c| c.status == "True"))
    );
    drop(extra_nodes);
}

#[tokio::test]
async fn incomplete_gang_reports_missing_pods_and_is_bound_once_complete() {
    let site = create_site("members", 1).await;
    create_pod_group(&site, "few", json!({"minMember": 3})).await;
    let wait_for_count = async |count: &str| {
        let count_message = eventually(SOON, || async {
            let journal = read_journal(&site, "few").await;
            let message = journal.message.unwrap_or_default();
            ensure!(
                journal.reason == Some(Reason::MembersMissing) && message.starts_with(count),
                "{message}"
            );
            Ok(())
        });
        count_message.await.unwrap();
    };
    wait_for_count("0 of the 3 pods").await;
    create_job(&site, "few", 2, 1).await;
    let waiting = eventually(SOON, || async {
        let pods = list_pods(&site, "few").await;
        ensure!(pods.len() == 2, "{} pods", pods.len());
        Ok(pods)
    })
    .await
    .unwrap();
    wait_for_unschedulable(
        &site,
        &waiting[0].name_any(),
        "MembersMissing: fewer pods without scheduling gates are there than PodGroup \"few\" asks for",
    )
    .await;
    wait_for_count("2 of the 3 pods").await;
    let label = json!({"trellis.dev/pod-group": "few"});
    create_pod(&site, "gated", 1, |pod| {
        pod["metadata"]["labels"] = label;
        pod["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    })
    .await;
    wait_for_count(
        "2 of the 3 pods are there that the PodGroup asks for (spec.minMember); 1 more has",
    )
    .await;
    let groups = site.api::<PodGroup>();
    let patch = Patch::Merge(json!({"spec": {"minMember": 2}}));
    groups
        .patch("few", &PatchParams::default(), &patch)
        .await
        .unwrap();
    wait_until_placed(&site, "few", 2).await;
    // The pods are deleted, most of them with their owner. The gang was placed, so it does not
    // report missing pods.
    let jobs = site.api::<Job>();
    let api = site.api::<Pod>();
    api.delete("gated", &DeleteParams::default()).await.unwrap();
    jobs.delete("few", &DeleteParams::background())
        .await
        .unwrap();
    let is_over = async || {
        let journal = read_journal(&site, "few").await;
        journal.phase == Some(PodGroupPhase::Pending) && journal.reason.is_none()
    };
    let over = eventually(SOON, || async {
        ensure!(is_over().await, "{:?}", read_journal(&site, "few").await);
        Ok(())
    });
    over.await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let group = read_journal(&site, "few").await;
    assert!(is_over().await, "{group:?}");
    // New pods wait for the other pods of their gang, and are deleted before the gang is complete.
    let patch = Patch::Merge(json!({"spec": {"minMember": 3}}));
    groups
        .patch("few", &PatchParams::default(), &patch)
        .await
        .unwrap();
    create_job(&site, "few", 1, 1).await;
    wait_for_count("1 of the 3 pods").await;
    jobs.delete("few", &DeleteParams::background())
        .await
        .unwrap();
    wait_for_count("0 of the 3 pods").await;
}

/// The gang is like that of a JobSet: one Job for each of its `replicatedJobs`, and the pods of
/// both Jobs have the same indexes.
#[tokio::test]
async fn pods_of_several_jobs_form_one_gang_with_repeated_indexes() {
    let site = create_site("jobset", 2).await;
    create_pod_group(&site, "set", json!({"minMember": 4})).await;
    create_job_in_group(&site, "set-worker-0", "set", 2, 4).await;
    let pending = eventually(SOON, || async {
        let message = read_journal(&site, "set").await.message.unwrap_or_default();
        ensure!(message.starts_with("2 of the 4 pods"), "{message}");
        Ok(())
    });
    pending.await.unwrap();
    assert!(
        list_pods(&site, "set")
            .await
            .iter()
            .all(|pod| node_name(pod).is_none())
    );
    create_job_in_group(&site, "set-worker-1", "set", 2, 4).await;
    let bound = wait_until_placed(&site, "set", 4).await;
    let index = |pod: &Pod| pod.annotations()["batch.kubernetes.io/job-completion-index"].clone();
    let mut numbers: Vec<String> = bound.iter().map(index).collect();
    numbers.sort();
    assert_eq!(numbers, ["0", "0", "1", "1"]);
}

#[tokio::test]
async fn surplus_pods_are_bound_singly_and_near_the_gang() {
    let site = create_site("beyond", 2).await;
    let control_plane = shared_control_plane().await;
    let level = format!("{}.example/rack", site.name());
    let topology = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "Topology",
        "metadata": {"name": site.name()}, "spec": {"levels": [{"nodeLabel": level}]},
    });
    control_plane
        .apply_yaml(&topology.to_string())
        .await
        .unwrap();
    for (rack, node) in ["a", "b"].iter().zip(site.nodes().names()) {
        site.nodes().label(node, &level, Some(rack)).await.unwrap();
    }
    let rack_request = json!({"required": level});
    // Two pods fit on one node, and the third only on the other. The controller creates them in any
    // order, so all of them exist before the PodGroup does.
    create_job(&site, "grows", 3, 4).await;
    eventually(SOON, || async {
        let pods = list_pods(&site, "grows").await.len();
        ensure!(pods == 3, "{pods} pods");
        Ok(())
    })
    .await
    .unwrap();
    create_pod_group(
        &site,
        "grows",
        json!({"minMember": 2, "topology": rack_request}),
    )
    .await;
    let placed_pods = wait_until_placed(&site, "grows", 2).await;
    let nodes: BTreeSet<_> = placed_pods.iter().filter_map(node_name).collect();
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    let third = placed_pods
        .iter()
        .find(|pod| node_name(pod).is_none())
        .unwrap();
    let index = third
        .labels()
        .get("batch.kubernetes.io/job-completion-index");
    assert_eq!(
        index.map(String::as_str),
        Some("2"),
        "the third pod has another index"
    );
    wait_for_unschedulable(&site, &third.name_any(), "InsufficientCapacity: ").await;
    assert_eq!(
        read_journal(&site, "grows").await.phase,
        Some(PodGroupPhase::Placed)
    );
    let first = placed_pods
        .iter()
        .find(|pod| node_name(pod).is_some())
        .unwrap();
    let full = node_name(first).unwrap().to_owned();
    site.nodes()
        .set_allocatable(&full, "nvidia.com/gpu", "12")
        .await
        .unwrap();
    assert_eq!(wait_until_bound(&site, &third.name_any()).await, full);
    wait_until_placed(&site, "grows", 3).await;
}

#[tokio::test]
async fn competing_gangs_are_never_bound_in_part() {
    let site = create_site("compete", 2).await;
    for name in ["one", "two"] {
        create_pod_group(&site, name, json!({"minMember": 4})).await;
    }
    tokio::join!(
        create_job(&site, "one", 4, 4),
        create_job(&site, "two", 4, 4)
    );
    let bound = || async {
        let mut counts = Vec::new();
        for name in ["one", "two"] {
            let existing = list_pods(&site, name).await;
            counts.push(
                existing
                    .iter()
                    .filter(|pod| node_name(pod).is_some())
                    .count(),
            );
        }
        counts.sort_unstable();
        counts
    };
    eventually(SOON, || async {
        let now = bound().await;
        ensure!(now == [0, 4], "{now:?}");
        Ok(())
    })
    .await
    .unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(bound().await, [0, 4]);
    let first = match read_journal(&site, "one").await.phase {
        Some(PodGroupPhase::Placed) => "one",
        _ => "two",
    };
    let second = if first == "one" { "two" } else { "one" };
    let jobs = site.api::<Job>();
    jobs.delete(first, &DeleteParams::background())
        .await
        .unwrap();
    wait_until_placed(&site, second, 4).await;
}
