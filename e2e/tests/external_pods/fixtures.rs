//! External pods of a test: create them, wait for them, inspect them.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::ResourceExt as _;
use kube::api::PostParams;
use serde_json::{Value, json};
use trellis_api::PodGroup;
use trellis_api::pod_group::{PodGroupPhase, PodGroupStatus};
use trellis_e2e::cluster::SCOPE_LABEL;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

/// Returns the spec of a pod that requests this number of GPUs on a site.
pub(super) fn pod_spec(site: &TestSite, gpus: u32) -> Value {
    json!({
        "schedulerName": "trellis",
        "nodeSelector": {SCOPE_LABEL: site.name()},
        "terminationGracePeriodSeconds": 1,
        "containers": [{
            "name": "main", "image": "registry.example/train:1.0",
            "resources": {
                "requests": {"cpu": "1", "memory": "1Gi"},
                "limits": {"nvidia.com/gpu": gpus.to_string()},
            },
        }],
    })
}

/// Creates a pod, changed by `change`.
pub(super) async fn create_pod(
    site: &TestSite,
    name: &str,
    gpus: u32,
    change: impl FnOnce(&mut Value),
) {
    let mut pod = json!({"metadata": {"name": name, "labels": {}}, "spec": pod_spec(site, gpus)});
    change(&mut pod);
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let pods = site.api::<Pod>();
    pods.create(&PostParams::default(), &pod).await.unwrap();
}

/// Creates a PodGroup.
pub(super) async fn create_pod_group(site: &TestSite, name: &str, spec: Value) {
    let group = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": name}, "spec": spec,
    });
    let group: PodGroup = serde_json::from_value(group).unwrap();
    let groups = site.api::<PodGroup>();
    groups.create(&PostParams::default(), &group).await.unwrap();
}

/// Creates an Indexed Job with `pods` pods in the PodGroup of its name.
pub(super) async fn create_job(site: &TestSite, name: &str, pods: u32, gpus: u32) {
    create_job_in_group(site, name, name, pods, gpus).await;
}

/// Creates an Indexed Job with `pods` pods in a PodGroup.
pub(super) async fn create_job_in_group(
    site: &TestSite,
    name: &str,
    group: &str,
    pods: u32,
    gpus: u32,
) {
    let mut spec = pod_spec(site, gpus);
    spec["restartPolicy"] = json!("Never");
    let job = json!({
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed", "completions": pods, "parallelism": pods,
            "backoffLimit": 100,
            "template": {"metadata": {"labels": {"trellis.dev/pod-group": group}}, "spec": spec},
        },
    });
    let job: Job = serde_json::from_value(job).unwrap();
    let jobs = site.api::<Job>();
    jobs.create(&PostParams::default(), &job).await.unwrap();
}

/// Creates a ReplicaSet with `pods` pods in the PodGroup of its name.
pub(super) async fn create_replica_set(site: &TestSite, name: &str, pods: u32, gpus: u32) {
    let labels = json!({"trellis.dev/pod-group": name});
    let set = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": pods, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(site, gpus)},
        },
    });
    let set: ReplicaSet = serde_json::from_value(set).unwrap();
    let sets = site.api::<ReplicaSet>();
    sets.create(&PostParams::default(), &set).await.unwrap();
}

/// Returns the pods of a PodGroup that are not being deleted.
pub(super) async fn list_pods(site: &TestSite, group: &str) -> Vec<Pod> {
    let all = site.api::<Pod>().list(&Default::default()).await.unwrap();
    let is_of = |pod: &Pod| {
        pod.labels()
            .get("trellis.dev/pod-group")
            .is_some_and(|g| g == group)
    };
    let is_live = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
    all.items
        .into_iter()
        .filter(|pod| is_of(pod) && is_live(pod))
        .collect()
}

pub(super) fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

pub(super) async fn read_journal(site: &TestSite, name: &str) -> PodGroupStatus {
    let groups = site.api::<PodGroup>();
    groups.get(name).await.unwrap().status.unwrap_or_default()
}

/// Waits until a gang is completely placed: its journal records it, and `count` pods are bound.
pub(super) async fn wait_until_placed(site: &TestSite, name: &str, count: usize) -> Vec<Pod> {
    let gang_check = eventually(SOON, || async {
        let journal = read_journal(site, name).await;
        ensure!(journal.phase == Some(PodGroupPhase::Placed), "{journal:?}");
        let pods = list_pods(site, name).await;
        let bound = pods.iter().filter(|pod| node_name(pod).is_some()).count();
        ensure!(
            bound == count,
            "{bound} of {} pods of {name} are bound",
            pods.len()
        );
        Ok(pods)
    });
    gang_check.await.unwrap_or_else(|error| panic!("{error:#}"))
}

/// Returns the condition PodScheduled of a pod.
pub(super) fn scheduled_condition(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|c| c.type_ == "PodScheduled")
}

/// Waits until a pod is reported as unschedulable with this text.
pub(super) async fn wait_for_unschedulable(site: &TestSite, pod: &str, words: &str) -> String {
    let unschedulable = eventually(SOON, || async {
        let pod = site.api::<Pod>().get(pod).await?;
        ensure!(node_name(&pod).is_none(), "the pod is bound");
        let condition =
            scheduled_condition(&pod).context("the pod has no condition PodScheduled")?;
        let message = condition.message.clone().unwrap_or_default();
        let reason = condition.reason.as_deref();
        ensure!(
            condition.status == "False"
                && reason == Some("Unschedulable")
                && message.contains(words),
            "{condition:?}"
        );
        Ok(message)
    });
    unschedulable
        .await
        .unwrap_or_else(|error| panic!("{words:?}: {error:#}"))
}

/// Waits until a pod is bound, and returns its node.
pub(super) async fn wait_until_bound(site: &TestSite, pod: &str) -> String {
    let bound = eventually(SOON, || async {
        let pod = site.api::<Pod>().get(pod).await?;
        let node = node_name(&pod).map(str::to_owned);
        node.with_context(|| format!("the pod is not bound: {:?}", scheduled_condition(&pod)))
    });
    bound
        .await
        .unwrap_or_else(|error| panic!("{pod}: {error:#}"))
}
