//! The operator is killed after the k-th write for a gang of pods that a Job's controller has
//! created.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, Reason, names};
use trellis_e2e::cluster::{NodeTemplate, SCOPE_LABEL};
use trellis_e2e::operator::{
    LATE_WRITE_TIME, RECOVERY_TIMEOUT, Succession, kill_after_every_write,
};
use trellis_e2e::proxy::{Request, TrapTiming};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::queues::resource_groups;
use trellis_e2e::wait::eventually;

use super::{KillMoments, counted_write_filter, start_succession};

const GANG_SIZE: u32 = 4;

/// Creates the PodGroup, then the Job.
async fn submit_gang(site: &TestSite) {
    submit_gang_to_queue(site, "default").await;
}

async fn submit_gang_to_queue(site: &TestSite, queue: &str) {
    let group: PodGroup = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "j"}, "spec": {"minMember": GANG_SIZE, "queueName": queue},
    }))
    .unwrap();
    let groups = site.api::<PodGroup>();
    groups.create(&PostParams::default(), &group).await.unwrap();
    let job: Job = serde_json::from_value(json!({
        "metadata": {"name": "j"},
        "spec": {
            "completionMode": "Indexed", "completions": GANG_SIZE, "parallelism": GANG_SIZE,
            "template": {
                "metadata": {"labels": {names::POD_GROUP: "j"}},
                "spec": {
                    "schedulerName": names::SCHEDULER, "restartPolicy": "Never",
                    "nodeSelector": {SCOPE_LABEL: site.name()},
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "main", "image": "registry.example/train:1.0",
                        "resources": {"limits": {"nvidia.com/gpu": "2"}},
                    }],
                },
            },
        },
    }))
    .unwrap();
    let jobs = site.api::<Job>();
    jobs.create(&PostParams::default(), &job).await.unwrap();
}

/// Waits until all pods exist on the nodes of one plan, and the journal of the plan is closed.
async fn check_whole_gang(site: &TestSite) -> anyhow::Result<()> {
    let group = site.api::<PodGroup>().get("j").await?;
    let journal = group.status.unwrap_or_default();
    ensure!(journal.phase == Some(PodGroupPhase::Placed), "{journal:?}");
    let plan = journal.plan.context("no plan")?;
    let pods = site.api::<Pod>().list(&Default::default()).await?.items;
    ensure!(pods.len() == GANG_SIZE as usize, "{} pods", pods.len());
    for pod in &pods {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        ensure!(
            node.is_some() && pod.annotations().get(names::PLAN) == Some(&plan.hash),
            "{} is not bound by plan {:?}: {:?}",
            pod.name_any(),
            plan.hash,
            pod.annotations()
        );
    }
    Ok(())
}

async fn survives_kill(operators: &mut Succession, k: u64, moment: TrapTiming) -> bool {
    let site = TestSite::new(
        &operators.control_plane,
        "external",
        NodeTemplate::new(1).gpus(8),
    )
    .await;
    let of_site = counted_write_filter(site.name());
    let mut fired =
        operators.kill_after_write(k, moment, move |request: &Request| of_site(request));
    submit_gang(&site).await;
    let gang_check = eventually(RECOVERY_TIMEOUT, || check_whole_gang(&site));
    let reached = tokio::select! {
        reached = fired.wait_until_fired(RECOVERY_TIMEOUT) => reached.is_ok(),
        gang_check = gang_check => {
            gang_check.unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
            fired.wait_until_fired(LATE_WRITE_TIME).await.is_ok()
        }
    };
    operators.start_next_leader_at_once().await;
    let gang_check = eventually(RECOVERY_TIMEOUT, || check_whole_gang(&site)).await;
    gang_check.unwrap_or_else(|e| panic!("after write {k} ({moment:?}): {e:#}"));
    // No pod was bound twice or created again: the Job has created exactly its number of pods.
    let job = site.api::<Job>().get("j").await.unwrap();
    let status = job.status.unwrap();
    assert_eq!(
        (status.active, status.failed),
        (Some(4), None),
        "after write {k}"
    );
    site.api::<Job>()
        .delete("j", &DeleteParams::background())
        .await
        .unwrap();
    eventually(RECOVERY_TIMEOUT, || async {
        let pods = site
            .api::<Pod>()
            .list(&Default::default())
            .await?
            .items
            .len();
        ensure!(pods == 0, "{pods} pods");
        let group = site.api::<PodGroup>().get("j").await?;
        let phase = group.status.and_then(|journal| journal.phase);
        ensure!(phase == Some(PodGroupPhase::Pending), "{phase:?}");
        Ok(())
    })
    .await
    .unwrap();
    reached
}

async fn external_gang_is_bound_whole_after_a_crash_at_each_write(moments: KillMoments) {
    let mut operators = start_succession().await;
    // The writes are the journal twice and a binding of each pod.
    let minimum = 2 + u64::from(GANG_SIZE);
    kill_after_every_write(minimum, async |k| {
        survives_kill(&mut operators, k, moments.at_write(k)).await
    })
    .await;
}

/// The leader dies after it has bound one pod. Another scheduler binds the next pod to another
/// node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn external_gang_is_placed_again_after_another_scheduler_binds_a_pod() {
    let mut operators = start_succession().await;
    let site = TestSite::new(
        &operators.control_plane,
        "torn",
        NodeTemplate::new(2).gpus(8),
    )
    .await;
    let mut fired = operators.kill_after_write(1, TrapTiming::AfterAnswer, |request| {
        request.is_write() && request.resource == "pods/binding"
    });
    submit_gang(&site).await;
    fired.wait_until_fired(RECOVERY_TIMEOUT).await.unwrap();
    let api = site.api::<Pod>();
    let pods = api.list(&Default::default()).await.unwrap().items;
    let (bound, free): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| {
        pod.spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some())
    });
    let (bound_pod, foreign_pod) = (bound[0], free[0].name_any());
    let at = bound_pod
        .spec
        .as_ref()
        .and_then(|spec| spec.node_name.clone());
    let mut nodes = site.nodes().names().iter();
    let other = nodes.find(|node| at.as_ref() != Some(*node)).unwrap();
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": foreign_pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": other}});
    let _: serde_json::Value = api
        .create_subresource("binding", &foreign_pod, &PostParams::default(), &binding)
        .await
        .unwrap();
    operators.start_next_leader_at_once().await;
    let gang_check = eventually(RECOVERY_TIMEOUT * 3, || async {
        let group = site.api::<PodGroup>().get("j").await?;
        let journal = group.status.unwrap_or_default();
        ensure!(journal.phase == Some(PodGroupPhase::Placed), "{journal:?}");
        let pods = api.list(&Default::default()).await?.items;
        let existing = pods.iter().filter(|pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
            node.is_some() && pod.metadata.deletion_timestamp.is_none()
        });
        let existing: Vec<_> = existing.collect();
        ensure!(
            existing.len() == GANG_SIZE as usize,
            "{} are bound",
            existing.len()
        );
        ensure!(
            existing.iter().all(|pod| pod.uid() != bound_pod.uid()),
            "the bound pod of the incomplete plan holds its node"
        );
        Ok(())
    });
    gang_check.await.unwrap();
}

/// Every leader counts the resources of bound external pods, also in the quota of their queue and
/// their assigned flavors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_leader_counts_bound_external_pods() {
    let mut operators = start_succession().await;
    let site = TestSite::new(
        &operators.control_plane,
        "counts",
        NodeTemplate::new(3).gpus(8),
    )
    .await;
    let queue = format!("{}-q", site.name());
    let flavors = [("default", 9), (queue.as_str(), 4)];
    let control_plane = &operators.control_plane;
    for object in [
        json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "ResourceFlavor",
            "metadata": {"name": queue}, "spec": {},
        }),
        json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": queue},
            "spec": {"namespaceSelector": {}, "resourceGroups": resource_groups(&flavors)},
        }),
    ] {
        control_plane.apply_yaml(&object.to_string()).await.unwrap();
    }
    submit_gang_to_queue(&site, &queue).await;
    wait_until_bound(&site, 4).await;
    let pods = site.api::<Pod>();
    // The pods use all quota of the first flavor, and then some of the second.
    for (name, gpus, bound) in [("alone", "1", 5), ("other", "2", 6)] {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {names::QUEUE: queue}},
            "spec": {
                "schedulerName": names::SCHEDULER, "nodeSelector": {SCOPE_LABEL: site.name()},
                "containers": [{"name": "main", "image": "registry.example/train:1.0",
                    "resources": {"limits": {"nvidia.com/gpu": gpus}}}],
            },
        }))
        .unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
        wait_until_bound(&site, bound).await;
    }
    // The queue of a bound pod comes from the data that Trellis has written, not from a later
    // change by the user.
    let label = Patch::Merge(json!({"metadata": {"labels": {names::QUEUE: "default"}}}));
    pods.patch("alone", &PatchParams::default(), &label)
        .await
        .unwrap();
    operators.start_next_leader_at_once().await;
    // The job would fit if usage of the second flavor were not charged to the first.
    let mut job = site.job("late", 1, 3);
    job["spec"]["queueName"] = json!(queue);
    site.create(job).await.unwrap();
    site.wait_for_status("late", |status| {
        status.reason == Some(Reason::QuotaExceeded)
    })
    .await;
    pods.delete("other", &DeleteParams::default())
        .await
        .unwrap();
    site.wait_for_running_attempt("late", 1).await;
}

/// Waits until `expected` pods of the site are bound.
async fn wait_until_bound(site: &TestSite, expected: usize) {
    let pods = site.api::<Pod>();
    let all = eventually(RECOVERY_TIMEOUT, || async {
        let pods = pods.list(&Default::default()).await?.items;
        let bound = pods
            .iter()
            .filter(|pod| pod.spec.as_ref().is_some_and(|s| s.node_name.is_some()));
        let bound = bound.count();
        ensure!(bound == expected, "{bound} of {} are bound", pods.len());
        Ok(())
    });
    all.await.unwrap();
}

at_both_moments!(external_gang_is_bound_whole_after_a_crash_at_each_write);
