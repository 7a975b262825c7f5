//! Jobs that request only GPUs get CPU and memory per GPU from a RuntimeProfile or a queue.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::{
    PodGroup, Reason, RuntimeProfile, TrainingJob, TrainingQueue, ValidatedJob, validation,
};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message};
use trellis_e2e::wait::wait_for;

use crate::{create_site, shared_control_plane};

/// Returns a job of one pod in the site's queue that requests only GPUs.
fn job_of_gpus(site: &TestSite, name: &str, gpus: u32) -> Value {
    let mut job = site.job(name, 1, gpus);
    let group = job["spec"]["taskGroups"][0].as_object_mut().unwrap();
    group.remove("resources");
    job["spec"]["queueName"] = json!(queue_name(site));
    job
}

fn queue_name(site: &TestSite) -> String {
    format!("{}-q", site.name())
}

async fn apply_object(kind: &str, name: &str, spec: Value) -> anyhow::Result<()> {
    let object = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name}, "spec": spec,
    });
    let applied = shared_control_plane()
        .await
        .apply_yaml(&object.to_string())
        .await;
    applied.map(drop)
}

/// Returns CPU, memory and GPUs of a pod's containers. Checks that requests and limits are equal.
fn pod_requests_of(pod: &Pod) -> [String; 3] {
    let main = &pod.spec.as_ref().unwrap().containers[0];
    let resources = main.resources.as_ref().unwrap();
    assert_eq!(resources.requests, resources.limits);
    let requests = resources.requests.as_ref().unwrap();
    ["cpu", "memory", "nvidia.com/gpu"].map(|name| requests[name].0.clone())
}

async fn read_pod_requests(site: &TestSite, job: &str) -> [String; 3] {
    site.wait_for_phase(job, JobPhase::Running).await;
    pod_requests_of(&site.list_pods(job).await[0])
}

fn owned_requests(requests: [&str; 3]) -> [String; 3] {
    requests.map(str::to_owned)
}

#[tokio::test]
async fn job_of_gpus_waits_for_its_queue_and_keeps_its_amounts() {
    let site = create_site("pergpu", 1).await;
    let root = format!("{}-root", site.name());
    apply_object("TrainingQueue", &root, json!({}))
        .await
        .unwrap();
    let of_queue = json!({"namespaceSelector": {}, "parentName": root});
    apply_object("TrainingQueue", &queue_name(&site), of_queue)
        .await
        .unwrap();
    site.create(job_of_gpus(&site, "waits", 2)).await.unwrap();
    let missing = Reason::ResourcesMissing;
    let waiting = site
        .wait_for_phase_and_reason("waits", JobPhase::Waiting, missing)
        .await;
    let status_message = message(&waiting);
    let ways_out = format!("RuntimeProfile or queue {:?}", queue_name(&site));
    assert!(
        status_message.starts_with("spec.taskGroups[0].resources.limits: ")
            && status_message.contains(&ways_out),
        "{status_message}"
    );
    assert!(site.list_pods("waits").await.is_empty());
    // The queue inherits the amounts from its parent.
    let stated = |cpu: &str| json!({"resourcesPerGPU": {"cpu": cpu, "memory": "1Gi"}});
    apply_object("TrainingQueue", &root, stated("500m"))
        .await
        .unwrap();
    assert_eq!(
        read_pod_requests(&site, "waits").await,
        owned_requests(["1", "2Gi", "2"])
    );
    let group = site.api::<PodGroup>().get("waits").await.unwrap();
    assert_eq!(group.spec.groups[0].resources["memory"].as_str(), "2Gi");
    let plan = group.status.unwrap().plan.unwrap();
    assert_eq!(
        serde_json::to_value(plan.resources_per_gpu).unwrap(),
        json!({"cpu": "500m", "memory": "1Gi"})
    );
    // A changed amount applies to jobs that start later.
    let before = site.list_pods("waits").await;
    apply_object("TrainingQueue", &root, stated("1"))
        .await
        .unwrap();
    let queues: Api<TrainingQueue> = Api::all(shared_control_plane().await.client());
    let is_read = |queue: &TrainingQueue| {
        let read = queue.status.as_ref().and_then(|s| s.observed_generation);
        read.is_some() && read == queue.metadata.generation
    };
    wait_for(&queues, &root, SOON, is_read).await.unwrap();
    site.create(job_of_gpus(&site, "next", 2)).await.unwrap();
    assert_eq!(
        read_pod_requests(&site, "next").await,
        owned_requests(["2", "2Gi", "2"])
    );
    let jobs = site.api::<TrainingJob>();
    let patch = json!({"spec": {"cleanup": {"childrenTTLSeconds": 4000}}});
    let patched = jobs
        .patch("waits", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let generation = patched.metadata.generation;
    let updated = wait_for(&jobs, "waits", SOON, |job: &TrainingJob| {
        job.status
            .as_ref()
            .is_some_and(|s| s.observed_generation == generation)
    });
    updated.await.unwrap();
    let after = site.list_pods("waits").await;
    assert_eq!(after[0].metadata.uid, before[0].metadata.uid);
    assert_eq!(
        pod_requests_of(&after[0]),
        owned_requests(["1", "2Gi", "2"])
    );
    let group = site.api::<PodGroup>().get("waits").await.unwrap();
    assert_eq!(group.spec.groups[0].resources["cpu"].as_str(), "1");
    // After a suspension, the job starts with the current amounts.
    for (suspend, phase) in [(true, JobPhase::Suspended), (false, JobPhase::Running)] {
        let patch = json!({"spec": {"suspend": suspend}});
        site.patch("waits", patch).await.unwrap();
        site.wait_for_phase("waits", phase).await;
    }
    assert_eq!(
        read_pod_requests(&site, "waits").await,
        owned_requests(["2", "2Gi", "2"])
    );
}

#[tokio::test]
async fn amounts_of_the_job_override_those_of_profile_and_queue() {
    let site = create_site("pergpu-profile", 1).await;
    let of_queue = json!({
        "namespaceSelector": {}, "resourcesPerGPU": {"cpu": 1, "memory": "512Mi"},
    });
    apply_object("TrainingQueue", &queue_name(&site), of_queue)
        .await
        .unwrap();
    let of_profile = json!({"resourcesPerGPU": {"cpu": "1500m"}});
    apply_object("RuntimeProfile", site.name(), of_profile)
        .await
        .unwrap();
    let mut profiled = job_of_gpus(&site, "profiled", 2);
    profiled["spec"]["profile"] = json!(site.name());
    let mut own = profiled.clone();
    own["metadata"]["name"] = json!("own");
    own["spec"]["taskGroups"][0]["resources"] = json!({"limits": {"memory": "3Gi"}});
    site.create(job_of_gpus(&site, "queued", 1)).await.unwrap();
    site.create(profiled).await.unwrap();
    site.create(own).await.unwrap();
    for (name, expected) in [
        ("queued", ["1", "512Mi", "1"]),
        ("profiled", ["3", "1Gi", "2"]),
        ("own", ["3", "3Gi", "2"]),
    ] {
        assert_eq!(
            read_pod_requests(&site, name).await,
            owned_requests(expected),
            "{name}"
        );
    }
}

#[tokio::test]
async fn api_server_refuses_groups_without_gpus_and_resources() {
    let site = create_site("pergpu-cel", 0).await;
    for (gpus, resources, field) in [
        (json!(0), json!({"limits": {"memory": "1Gi"}}), "cpu"),
        (json!(null), json!({"limits": {"cpu": 1}}), "memory"),
        (json!(null), json!(null), "cpu"),
    ] {
        let mut bad = job_of_gpus(&site, "bad", 0);
        let group = &mut bad["spec"]["taskGroups"][0];
        group["gpus"] = gpus;
        group["resources"] = resources;
        group
            .as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        // The API server writes the key of a mapping in brackets.
        let limits = "spec.taskGroups[0].resources.limits";
        let path = format!("{limits}[{field}]: ");
        let rule = "is required of a group without gpus: add it";
        let error = site.create(bad.clone()).await.unwrap_err().to_string();
        assert!(error.contains(&path) && error.contains(rule), "{error}");
        // The library has the same message.
        let object: TrainingJob = serde_json::from_value(bad).unwrap();
        let library_error = ValidatedJob::try_from(object).unwrap_err().to_string();
        assert!(
            library_error.contains(&format!("{limits}.{field}: {rule}")),
            "{library_error}"
        );
    }
    for (amount, words) in [
        (json!({"cpu": 0}), "must be an amount of CPU for each GPU"),
        (json!({"cpu": "1001"}), "at most 1000 cores"),
        (json!({"memory": "128"}), "of at least 1Mi and at most 16Ti"),
        (
            json!({"memory": "17Ti"}),
            "of at least 1Mi and at most 16Ti",
        ),
    ] {
        let spec = json!({"resourcesPerGPU": amount});
        let meta = json!({"name": site.name()});
        let queue: TrainingQueue =
            serde_json::from_value(json!({"metadata": meta, "spec": spec, "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue"})).unwrap();
        let profile: RuntimeProfile =
            serde_json::from_value(json!({"metadata": meta, "spec": spec, "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile"})).unwrap();
        let library_error = [
            validation::check_rules(&queue).unwrap_err(),
            validation::check_rules(&profile).unwrap_err(),
        ];
        for library_error in library_error.map(|violations| violations.to_string()) {
            assert!(
                library_error.starts_with("spec.resourcesPerGPU.") && library_error.contains(words),
                "{library_error}"
            );
        }
        for kind in ["TrainingQueue", "RuntimeProfile"] {
            let error = apply_object(kind, site.name(), spec.clone())
                .await
                .unwrap_err();
            let error = format!("{error:#}");
            assert!(
                error.contains("spec.resourcesPerGPU.") && error.contains(words),
                "{kind}: {error}"
            );
        }
    }
    let queues: Api<TrainingQueue> = Api::all(shared_control_plane().await.client());
    assert!(queues.get_opt(site.name()).await.unwrap().is_none());
}
