//! External pods that cannot be placed get the reason, and are placed once it is fixed.

use anyhow::ensure;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use trellis_api::QuotaPolicy;
use trellis_e2e::jobs::SOON;
use trellis_e2e::queues::resource_groups;
use trellis_e2e::site::Site;
use trellis_e2e::wait::{eventually, wait_for};

use super::scene::{bound, group, job, pod, pods, runs, told};
use super::{shared, site};

async fn event(site: &Site, pod: &str, reason: &str) {
    eventually(SOON, || async {
        let all = site
            .api::<Event>()
            .list(&ListParams::default())
            .await?
            .items;
        let is_it = |event: &&Event| {
            let about = event
                .regarding
                .as_ref()
                .and_then(|about| about.name.as_deref());
            about == Some(pod) && event.reason.as_deref() == Some(reason)
        };
        ensure!(
            all.iter().any(|event| is_it(&event)),
            "no event {reason} of {pod}"
        );
        Ok(())
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}"));
}

#[tokio::test]
async fn a_group_or_queue_that_is_not_there_is_told_and_waited_for() {
    let site = site("missing", 1).await;
    pod(&site, "member", 1, |pod| {
        pod["metadata"]["labels"]["trellis.dev/pod-group"] = json!("nobody");
    })
    .await;
    told(
        &site,
        "member",
        "PodGroupNotFound: label trellis.dev/pod-group: PodGroup \"nobody\" does not exist",
    )
    .await;
    event(&site, "member", "PodGroupNotFound").await;
    group(
        &site,
        "nobody",
        json!({"minMember": 1, "queueName": "no-such-queue"}),
    )
    .await;
    told(
        &site,
        "member",
        "QueueNotFound: spec.queueName of the PodGroup: queue \"no-such-queue\" does not exist",
    )
    .await;
    event(&site, "member", "QueueNotFound").await;
    pod(&site, "alone", 1, |pod| {
        pod["metadata"]["labels"]["trellis.dev/queue"] = json!("no-such-queue");
    })
    .await;
    told(
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
    bound(&site, "alone").await;
}

/// No label is ignored without a word.
#[tokio::test]
async fn a_gang_is_in_the_one_queue_that_it_and_its_pods_name() {
    let site = site("one-queue", 1).await;
    let labelled = |group: &'static str| {
        move |pod: &mut Value| {
            pod["metadata"]["labels"]["trellis.dev/pod-group"] = json!(group);
            pod["metadata"]["labels"]["trellis.dev/queue"] = json!("no-such-queue");
        }
    };
    group(&site, "silent", json!({"minMember": 1})).await;
    pod(&site, "silent", 1, labelled("silent")).await;
    told(
        &site,
        "silent",
        "QueueNotFound: label trellis.dev/queue: queue \"no-such-queue\" does not exist",
    )
    .await;
    let says = json!({"minMember": 1, "queueName": "default"});
    group(&site, "says", says).await;
    pod(&site, "says", 1, labelled("says")).await;
    told(
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
    bound(&site, "says").await;
}

#[tokio::test]
async fn what_is_not_evaluated_is_said_and_policies_are_asked() {
    let site = site("asked", 1).await;
    pod(&site, "apart", 1, |pod| {
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
    })
    .await;
    told(
        &site,
        "apart",
        "ConstraintNotSupported: pod \"apart\" asks for the host port 8080",
    )
    .await;
    let control_plane = shared().await;
    // A queue that does not select the namespace.
    let closed = format!("{}-closed", site.name());
    let queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": closed}, "spec": {},
    });
    control_plane.apply_yaml(&queue.to_string()).await.unwrap();
    pod(&site, "closed", 1, |pod| {
        pod["metadata"]["labels"]["trellis.dev/queue"] = json!(closed);
    })
    .await;
    let said = told(&site, "closed", "PolicyDenied: ").await;
    assert!(said.contains("uses queue"), "{said}");
    event(&site, "closed", "PolicyDenied").await;
}

#[tokio::test]
async fn the_quota_of_a_queue_counts_external_pods_and_jobs_alike() {
    let site = site("counted", 2).await;
    let name = format!("{}-q", site.name());
    let queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": resource_groups(&[("default", 8)])},
    });
    shared().await.apply_yaml(&queue.to_string()).await.unwrap();
    let in_queue = |pod: &mut serde_json::Value| {
        pod["metadata"]["labels"]["trellis.dev/queue"] = json!(name);
    };
    pod(&site, "first", 6, in_queue).await;
    bound(&site, "first").await;
    let mut job = site.job("j", 1, 4);
    job["spec"]["queueName"] = json!(name);
    site.create(job).await.unwrap();
    let waits = site
        .becomes("j", |status| {
            status.reason == Some(trellis_api::Reason::QuotaExceeded)
        })
        .await;
    assert!(
        trellis_e2e::jobs::message(&waits).contains("6 of 8"),
        "{waits:?}"
    );
    pod(&site, "second", 4, in_queue).await;
    told(
        &site,
        "second",
        "QuotaExceeded: needs 4 nvidia.com/gpu, 6 of 8 are held",
    )
    .await;
    site.delete::<Pod>("first").await;
    site.runs_again("j", 1).await;
    bound(&site, "second").await;
}

#[tokio::test]
async fn a_quota_policy_counts_external_pods_and_the_account_is_right() {
    let site = site("limited", 2).await;
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
    shared()
        .await
        .apply_yaml(&policy.to_string())
        .await
        .unwrap();
    let policies: Api<QuotaPolicy> = Api::all(shared().await.client());
    let ready = |policy: &QuotaPolicy| policy.status.is_some();
    wait_for(&policies, &name, SOON, ready).await.unwrap();
    group(&site, "pair", json!({"minMember": 2})).await;
    job(&site, "pair", 2, 3).await;
    runs(&site, "pair", 2).await;
    pod(&site, "more", 3, |_| {}).await;
    let said = told(&site, "more", "QuotaPolicyExceeded: ").await;
    assert!(said.contains("6 of 8"), "{said}");
    // The operator recounts every two seconds, and reports a mismatch that lasts ten.
    tokio::time::sleep(Duration::from_secs(15)).await;
    let policy = policies.get(&name).await.unwrap();
    let status = json!(policy.status);
    assert!(!status.to_string().contains("LedgerMismatch"), "{status}");
    site.delete::<Job>("pair").await;
    for pod in pods(&site, "pair").await {
        let _ = site
            .api::<Pod>()
            .delete(&pod.name_any(), &Default::default())
            .await;
    }
    bound(&site, "more").await;
}

#[tokio::test]
async fn pod_whose_image_is_longer_than_jobs_may_name_is_refused_with_the_field() {
    let site = site("long-image", 1).await;
    pod(&site, "long", 1, |pod| {
        pod["spec"]["containers"][0]["image"] =
            json!(format!("registry.example/{}", "a".repeat(1008)));
    })
    .await;
    let refused = "InvalidSpec: pod \"long\": spec.containers[0].image has 1025 characters, and at most 1024 are taken";
    told(&site, "long", refused).await;
    event(&site, "long", "InvalidSpec").await;
}
