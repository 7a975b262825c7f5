//! External pods that cannot be placed report the reason, and are placed after a fix.

use anyhow::ensure;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use trellis_api::QuotaPolicy;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message};
use trellis_e2e::site::queues::resource_groups;
use trellis_e2e::wait::{eventually, wait_for};

use super::fixtures::{
    create_job, create_pod, create_pod_group, list_pods, wait_for_unschedulable, wait_until_bound,
    wait_until_placed,
};
use super::{create_site, shared_control_plane};

async fn wait_for_event(site: &TestSite, pod: &str, reason: &str) {
    eventually(SOON, || async {
        let all = site
            .api::<Event>()
            .list(&ListParams::default())
            .await?
            .items;
        let is_expected = |event: &&Event| {
            let about = event
                .regarding
                .as_ref()
                .and_then(|about| about.name.as_deref());
            about == Some(pod) && event.reason.as_deref() == Some(reason)
        };
        ensure!(
            all.iter().any(|event| is_expected(&event)),
            "no event {reason} of {pod}"
        );
        Ok(())
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}"));
}

#[tokio::test]
async fn pod_reports_and_waits_for_its_missing_group_or_queue() {
    let site = create_site("missing", 1).await;
    create_pod(&site, "member", 1, |pod| {
        pod["metadata"]["labels"]["trellis.dev/pod-group"] = json!("nobody");
    })
    .await;
    wait_for_unschedulable(
        &site,
        "member",
        "PodGroupNotFound: label trellis.dev/pod-group: PodGroup \"nobody\" does not exist",
    )
    .await;
    wait_for_event(&site, "member", "PodGroupNotFound").await;
    create_pod_group(
        &site,
        "nobody",
        json!({"minMember": 1, "queueName": "no-such-queue"}),
    )
    .await;
    wait_for_unschedulable(
        &site,
        "member",
        "QueueNotFound: spec.queueName of the PodGroup: queue \"no-such-queue\" does not exist",
    )
    .await;
    wait_for_event(&site, "member", "QueueNotFound").await;
    create_pod(&site, "alone", 1, |pod| {
        pod["metadata"]["labels"]["trellis.dev/queue"] = json!("no-such-queue");
    })
    .await;
    wait_for_unschedulable(
        &site,
        "alone",
        "QueueNotFound: label trellis.dev/queue: queue \"no-such-queue\" does not exist",
    )
    .await;
    let api = site.api::<Pod>();
    let patch =
        kube::api::Patch::Merge(json!({"metadata": {"labels": {"trellis.dev/queue": null}}}));
    api.patch("alone", &Default::default(), &patch)
        .await
        .unwrap();
    wait_until_bound(&site, "alone").await;
}

/// Every invalid label is reported.
#[tokio::test]
async fn gang_is_refused_when_pods_and_group_name_different_queues() {
    let site = create_site("one-queue", 1).await;
    let labelled = |group: &'static str| {
        move |pod: &mut Value| {
            pod["metadata"]["labels"]["trellis.dev/pod-group"] = json!(group);
            pod["metadata"]["labels"]["trellis.dev/queue"] = json!("no-such-queue");
        }
    };
    create_pod_group(&site, "silent", json!({"minMember": 1})).await;
    create_pod(&site, "silent", 1, labelled("silent")).await;
    wait_for_unschedulable(
        &site,
        "silent",
        "QueueNotFound: label trellis.dev/queue: queue \"no-such-queue\" does not exist",
    )
    .await;
    let group_spec = json!({"minMember": 1, "queueName": "default"});
    create_pod_group(&site, "says", group_spec).await;
    create_pod(&site, "says", 1, labelled("says")).await;
    wait_for_unschedulable(
        &site,
        "says",
        "InvalidSpec: label trellis.dev/queue is \"no-such-queue\", and spec.queueName of the PodGroup is \"default\": name one queue for all of the gang",
    )
    .await;
    let patch = json!({"metadata": {"labels": {"trellis.dev/queue": "default"}}});
    let api = site.api::<Pod>();
    api.patch("says", &Default::default(), &kube::api::Patch::Merge(patch))
        .await
        .unwrap();
    wait_until_bound(&site, "says").await;
}

#[tokio::test]
async fn pod_reports_unsupported_constraints_and_policy_denials() {
    let site = create_site("asked", 1).await;
    create_pod(&site, "apart", 1, |pod| {
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
    })
    .await;
    wait_for_unschedulable(
        &site,
        "apart",
        "ConstraintNotSupported: pod \"apart\" asks for the host port 8080",
    )
    .await;
    let control_plane = shared_control_plane().await;
    // A queue that does not select the namespace.
    let closed = format!("{}-closed", site.name());
    let queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": closed}, "spec": {},
    });
    control_plane.apply_yaml(&queue.to_string()).await.unwrap();
    create_pod(&site, "closed", 1, |pod| {
        pod["metadata"]["labels"]["trellis.dev/queue"] = json!(closed);
    })
    .await;
    let condition_message = wait_for_unschedulable(&site, "closed", "PolicyDenied: ").await;
    assert!(
        condition_message.contains("uses queue"),
        "{condition_message}"
    );
    wait_for_event(&site, "closed", "PolicyDenied").await;
}

#[tokio::test]
async fn queue_quota_counts_external_pods_and_jobs() {
    let site = create_site("counted", 2).await;
    let name = format!("{}-q", site.name());
    let queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": resource_groups(&[("default", 8)])},
    });
    shared_control_plane()
        .await
        .apply_yaml(&queue.to_string())
        .await
        .unwrap();
    let in_queue = |pod: &mut serde_json::Value| {
        pod["metadata"]["labels"]["trellis.dev/queue"] = json!(name);
    };
    create_pod(&site, "first", 6, in_queue).await;
    wait_until_bound(&site, "first").await;
    let mut job = site.job("j", 1, 4);
    job["spec"]["queueName"] = json!(name);
    site.create(job).await.unwrap();
    let pending = site
        .wait_for_status("j", |status| {
            status.reason == Some(trellis_api::Reason::QuotaExceeded)
        })
        .await;
    assert!(message(&pending).contains("6 of 8"), "{pending:?}");
    create_pod(&site, "second", 4, in_queue).await;
    wait_for_unschedulable(
        &site,
        "second",
        "QuotaExceeded: needs 4 nvidia.com/gpu, 6 of 8 are held",
    )
    .await;
    site.delete::<Pod>("first").await;
    site.wait_for_running_attempt("j", 1).await;
    wait_until_bound(&site, "second").await;
}

#[tokio::test]
async fn quota_policy_counts_external_pods_and_its_recount_agrees() {
    let site = create_site("limited", 2).await;
    let name = format!("{}-limit", site.name());
    let namespace = json!({"matchLabels": {"kubernetes.io/metadata.name": site.name()}});
    let policy = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy", "metadata": {"name": name},
        "spec": {
            "subject": {"namespaceSelector": namespace},
            "limits": {"resources": [{"resource": "nvidia.com/gpu", "max": 8}]},
            "enforcement": "Queue",
        },
    });
    shared_control_plane()
        .await
        .apply_yaml(&policy.to_string())
        .await
        .unwrap();
    let policies: Api<QuotaPolicy> = Api::all(shared_control_plane().await.client());
    let ready = |policy: &QuotaPolicy| policy.status.is_some();
    wait_for(&policies, &name, SOON, ready).await.unwrap();
    create_pod_group(&site, "pair", json!({"minMember": 2})).await;
    create_job(&site, "pair", 2, 3).await;
    wait_until_placed(&site, "pair", 2).await;
    create_pod(&site, "more", 3, |_| {}).await;
    let condition_message = wait_for_unschedulable(&site, "more", "QuotaPolicyExceeded: ").await;
    assert!(condition_message.contains("6 of 8"), "{condition_message}");
    // The operator counts again every two seconds, and reports a mismatch that lasts ten seconds.
    tokio::time::sleep(Duration::from_secs(15)).await;
    let policy = policies.get(&name).await.unwrap();
    let status = json!(policy.status);
    assert!(!status.to_string().contains("LedgerMismatch"), "{status}");
    site.delete::<Job>("pair").await;
    for pod in list_pods(&site, "pair").await {
        let _ = site
            .api::<Pod>()
            .delete(&pod.name_any(), &Default::default())
            .await;
    }
    wait_until_bound(&site, "more").await;
}

#[tokio::test]
async fn pod_with_an_overlong_image_name_is_refused_with_the_field() {
    let site = create_site("long-image", 1).await;
    create_pod(&site, "long", 1, |pod| {
        pod["spec"]["containers"][0]["image"] =
            json!(format!("registry.example/{}", "a".repeat(1008)));
    })
    .await;
    let refused = "InvalidSpec: pod \"long\": spec.containers[0].image has 1025 characters, and at most 1024 are taken";
    wait_for_unschedulable(&site, "long", refused).await;
    wait_for_event(&site, "long", "InvalidSpec").await;
}
