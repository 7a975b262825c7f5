//! Queues: what they let through, and what they say of it.

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trellis_api::Queue;
use trellis_api::job::JobPhase;
use trellis_api::queue::QueueStatus;
use trellis_e2e::jobs::{SOON, message, reason};
use trellis_e2e::wait::wait_for;

use super::{shared, site};

async fn says(queues: &Api<Queue>, name: &str, wanted: impl Fn(&QueueStatus) -> bool) {
    wait_for(queues, name, SOON, |queue: &Queue| {
        queue.status.as_ref().is_some_and(&wanted)
    })
    .await
    .unwrap();
}

fn counts(status: &QueueStatus) -> (Option<i64>, Option<i64>) {
    (status.pending, status.admitted)
}

fn active(status: &QueueStatus) -> Option<(&str, &str)> {
    let active = status.conditions.iter().find(|c| c.type_ == "Active")?;
    Some((&active.status, &active.reason))
}

#[tokio::test]
async fn quota_is_kept_and_counted_and_a_stopped_queue_starts_nothing() {
    let site = site("quota", 2).await;
    let name = format!("{}-q", site.name());
    let control_plane = shared().await;
    let queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "Queue", "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [{
                "resources": ["cpu", "memory", "nvidia.com/gpu"],
                "flavors": [{"name": "default", "quotas": [
                    {"resource": "cpu", "nominal": 100},
                    {"resource": "memory", "nominal": "100Gi"},
                    {"resource": "nvidia.com/gpu", "nominal": 8},
                ]}],
            }],
        },
    });
    control_plane.apply_yaml(&queue.to_string()).await.unwrap();
    let queues: Api<Queue> = Api::all(control_plane.client());
    says(&queues, &name, |s| counts(s) == (Some(0), Some(0))).await;
    for (job, replicas) in [("first", 8), ("second", 1)] {
        let mut spec = site.job(job, replicas, 1);
        spec["spec"]["queue"] = json!(name);
        site.create(spec).await.unwrap();
        site.becomes(job, |s| s.phase.is_some_and(|p| p != JobPhase::Waiting))
            .await;
    }
    site.reaches("first", JobPhase::Running).await;
    let waiting = site
        .becomes("second", |s| {
            s.reason.is_some_and(|r| r.as_str() == "QuotaExceeded")
        })
        .await;
    assert!(
        message(&waiting).contains(&name) && message(&waiting).contains('1'),
        "{}",
        message(&waiting)
    );
    says(&queues, &name, |s| {
        counts(s) == (Some(1), Some(1)) && active(s) == Some(("True", "Accepted"))
    })
    .await;
    let stop = |policy: &'static str| {
        let (queues, name) = (queues.clone(), name.clone());
        async move {
            let patch = json!({"spec": {"stop": policy}});
            queues
                .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
                .await
                .unwrap();
        }
    };
    stop("Hold").await;
    says(&queues, &name, |s| {
        active(s) == Some(("False", "QueueStopped"))
    })
    .await;
    site.delete::<trellis_api::TrainingJob>("first").await;
    says(&queues, &name, |s| counts(s) == (Some(1), Some(0))).await;
    let held = site
        .becomes("second", |s| {
            s.reason.is_some_and(|r| r.as_str() == "QueueStopped")
        })
        .await;
    assert_eq!(reason(&held), "QueueStopped");
    assert!(site.pods("second").await.is_empty());
    stop("None").await;
    site.reaches("second", JobPhase::Running).await;
    says(&queues, &name, |s| {
        counts(s) == (Some(0), Some(1)) && active(s) == Some(("True", "Accepted"))
    })
    .await;
}
