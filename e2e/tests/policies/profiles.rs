//! The settings of a RuntimeProfile are applied to the pods of the jobs that name it.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use trellis_api::job::{JobPhase, JobProfile};
use trellis_api::{Reason, RuntimeProfile, TrainingJob};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message, reason};
use trellis_e2e::wait::wait_for;

use super::fixtures::{
    apply_policy, cluster_policy_for, create_job, delete_policy, policy_verdict, wait_until_active,
};
use super::{create_site, shared_control_plane};

/// Creates a profile with the name of the site.
fn profile_manifest(site: &TestSite, spec: Value) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
        "metadata": {"name": site.name()}, "spec": spec,
    })
}

async fn profiles_api() -> Api<RuntimeProfile> {
    Api::all(shared_control_plane().await.client())
}

/// Returns a job of one pod with 8 GPUs that names the site's profile.
fn job_with_profile(site: &TestSite) -> Value {
    let mut job = site.job("j", 1, 8);
    job["spec"]["profile"] = json!(site.name());
    job
}

fn job_profile(job: &TrainingJob) -> Option<JobProfile> {
    job.status.as_ref()?.profile.clone()
}

async fn read_pod(site: &TestSite) -> Pod {
    site.list_pods("j").await.remove(0)
}

fn environment_variable(pod: &Pod, name: &str) -> Option<String> {
    let main = &pod.spec.as_ref().unwrap().containers[0];
    let found = main.env.iter().flatten().find(|v| v.name == name);
    found.and_then(|v| v.value.clone())
}

#[tokio::test]
async fn job_waits_for_its_profile_and_gets_its_settings() {
    let control_plane = shared_control_plane().await;
    let site = create_site("profile", 1).await;
    create_job(&site, job_with_profile(&site)).await;
    let waiting = site.wait_for_phase("j", JobPhase::Waiting).await;
    assert_eq!(reason(&waiting), "ProfileNotFound");
    let status_message = message(&waiting);
    assert!(
        status_message.contains(&format!("RuntimeProfile {:?} does not exist", site.name())),
        "{status_message}"
    );
    let status = waiting.status.unwrap();
    let accepted = status
        .conditions
        .iter()
        .find(|c| c.type_ == "Accepted")
        .unwrap();
    assert_eq!(accepted.status, "Unknown");
    assert_eq!(site.list_pods("j").await.len(), 0);
    // The test creates the profile and does not change the job.
    let spec = json!({
        "env": [{"name": "NCCL_IB_HCA", "value": "mlx5"}],
        "tolerations": [{"key": "example.com/fabric", "operator": "Exists"}],
        "podMetadata": {"labels": {"example.com/scrape": "yes"}},
        "network": {
            "ingress": [{"namespace": "monitoring", "ports": [{"port": 9400}]}],
            "egress": [{"cidr": "10.20.0.0/16", "ports": [{"port": 443}]}],
        },
        "podTemplate": {"spec": {"dnsConfig": {"options": [{"name": "ndots", "value": "1"}]}}},
    });
    apply_policy(control_plane, &profile_manifest(&site, spec)).await;
    let running = site.wait_for_phase("j", JobPhase::Running).await;
    let profile = job_profile(&running).unwrap();
    assert_eq!(
        (profile.name.as_str(), profile.hash.len()),
        (site.name(), 16)
    );
    let pod = read_pod(&site).await;
    assert_eq!(
        environment_variable(&pod, "NCCL_IB_HCA").as_deref(),
        Some("mlx5")
    );
    assert_eq!(
        pod.metadata.labels.as_ref().unwrap()["example.com/scrape"],
        "yes"
    );
    let spec = pod.spec.unwrap();
    let tolerated = spec
        .tolerations
        .iter()
        .flatten()
        .filter_map(|t| t.key.as_deref());
    assert!(tolerated.into_iter().any(|key| key == "example.com/fabric"));
    let options = spec.dns_config.unwrap().options.unwrap();
    assert_eq!(options[0].value.as_deref(), Some("1"));
    let network = site.api::<NetworkPolicy>().get("j").await.unwrap();
    let network = serde_json::to_string(&network.spec).unwrap();
    assert!(
        network.contains("monitoring") && network.contains("10.20.0.0/16"),
        "{network}"
    );
}

#[tokio::test]
async fn placed_job_keeps_its_profile_until_its_next_attempt() {
    let control_plane = shared_control_plane().await;
    let site = create_site("edited", 1).await;
    let template = |level: &str| json!({"env": [{"name": "NCCL_DEBUG", "value": level}]});
    apply_policy(control_plane, &profile_manifest(&site, template("WARN"))).await;
    create_job(&site, job_with_profile(&site)).await;
    let before = job_profile(&site.wait_for_phase("j", JobPhase::Running).await).unwrap();
    let network = site.api::<NetworkPolicy>().get("j").await.unwrap();
    let mut edited = template("INFO");
    edited["network"] = json!({"egress": [{"cidr": "10.9.0.0/16"}]});
    apply_policy(control_plane, &profile_manifest(&site, edited)).await;
    // This change makes the operator reconcile the job, and shows when it has done so.
    let jobs = site.api::<TrainingJob>();
    let suspend = async |suspend: bool| {
        let patch = json!({"spec": {"suspend": suspend}});
        jobs.patch("j", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    };
    let patch = json!({"spec": {"cleanup": {"childrenTTLSeconds": 4000}}});
    let patched = jobs
        .patch("j", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let generation = patched.metadata.generation;
    let reconciled = wait_for(&jobs, "j", SOON, |job: &TrainingJob| {
        job.status
            .as_ref()
            .is_some_and(|s| s.observed_generation == generation)
    });
    let reconciled = reconciled.await.unwrap();
    assert_eq!(job_profile(&reconciled), Some(before.clone()));
    let network_policy = site.api::<NetworkPolicy>().get("j").await.unwrap();
    assert_eq!(network_policy.spec, network.spec);
    assert_eq!(
        environment_variable(&read_pod(&site).await, "NCCL_DEBUG").as_deref(),
        Some("WARN")
    );
    suspend(true).await;
    site.wait_for_phase("j", JobPhase::Suspended).await;
    suspend(false).await;
    let restarted = site.wait_for_phase("j", JobPhase::Running).await;
    assert_ne!(job_profile(&restarted), Some(before));
    assert_eq!(
        environment_variable(&read_pod(&site).await, "NCCL_DEBUG").as_deref(),
        Some("INFO")
    );
    let network = site.api::<NetworkPolicy>().get("j").await.unwrap();
    let network = serde_json::to_string(&network.spec).unwrap();
    assert!(network.contains("10.9.0.0/16"), "{network}");
}

#[tokio::test]
async fn profile_privileges_are_permitted_by_profile_name_or_denied() {
    let control_plane = shared_control_plane().await;
    let site = create_site("granted", 1).await;
    apply_policy(
        control_plane,
        &profile_manifest(&site, json!({"runtimeClassName": "nvidia"})),
    )
    .await;
    create_job(&site, job_with_profile(&site)).await;
    let refused = site.wait_for_phase("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    let status_message = message(&refused);
    assert!(
        status_message.contains("\"runtimeClass nvidia\" (spec.runtimeClassName of its pods)"),
        "{status_message}"
    );
    assert_eq!(policy_verdict(&refused).missing_permits.len(), 1);
    // The API server requires a RuntimeClass of that name.
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"}, "handler": "nvidia",
    });
    control_plane.apply_yaml(&class.to_string()).await.unwrap();
    let grant = format!(
        "permit(principal, action == Trellis::Action::\"UsePrivilege\", resource == Trellis::Privilege::\"runtimeClass nvidia\") \
         when {{ context has profile && context.profile == {:?} }};",
        site.name()
    );
    apply_policy(control_plane, &cluster_policy_for(&site, &grant, json!({}))).await;
    wait_until_active(control_plane, site.name()).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let spec = read_pod(&site).await.spec.unwrap();
    assert_eq!(spec.runtime_class_name.as_deref(), Some("nvidia"));
    delete_policy(control_plane, site.name()).await;
}

#[tokio::test]
async fn invalid_profile_keeps_its_jobs_waiting_with_the_reason() {
    let control_plane = shared_control_plane().await;
    let site = create_site("broken", 1).await;
    let wrong = json!({"podTemplate": {"spec": {"schedulerName": "other"}}});
    apply_policy(control_plane, &profile_manifest(&site, wrong)).await;
    create_job(&site, job_with_profile(&site)).await;
    let misconfigured = Reason::ProfileMisconfigured;
    let waiting = site
        .wait_for_phase_and_reason("j", JobPhase::Waiting, misconfigured)
        .await;
    let status_message = message(&waiting);
    assert!(
        status_message.contains("spec.podTemplate.spec.schedulerName"),
        "{status_message}"
    );
    let profiles = profiles_api().await;
    let ready = |profile: &RuntimeProfile| {
        let conditions = profile.status.iter().flat_map(|s| &s.conditions);
        let ready = conditions.into_iter().find(|c| c.type_ == "Ready");
        ready.map(|c| (c.status.clone(), c.message.clone()))
    };
    let reported = wait_for(&profiles, site.name(), SOON, |p| ready(p).is_some());
    let (holds, message) = ready(&reported.await.unwrap()).unwrap();
    assert_eq!(holds, "False");
    assert!(
        message.contains("spec.podTemplate.spec.schedulerName"),
        "{message}"
    );
    profiles
        .delete(site.name(), &DeleteParams::default())
        .await
        .unwrap();
    let jobs = site.api::<TrainingJob>();
    let without_profile = wait_for(&jobs, "j", SOON, |job: &TrainingJob| {
        reason(job) == "ProfileNotFound"
    });
    without_profile.await.unwrap();
    apply_policy(control_plane, &profile_manifest(&site, json!({}))).await;
    site.wait_for_phase("j", JobPhase::Running).await;
}

/// The API server checks the rules that CEL can express.
#[tokio::test]
async fn api_server_refuses_forbidden_profile_fields() {
    let control_plane = shared_control_plane().await;
    let site = create_site("cel", 0).await;
    for (spec, words) in [
        (
            json!({"env": [{"name": "RANK", "value": "0"}]}),
            "what Trellis sets for PyTorch and DeepSpeed",
        ),
        (
            json!({"env": [{"name": "TF_CONFIG", "value": "0"}]}),
            "what Trellis sets for TensorFlow",
        ),
        (
            json!({"network": {"egress": [{"service": "s"}]}}),
            "must not name a service",
        ),
        (
            json!({"runtimeClassName": "A b"}),
            "must be the name of a RuntimeClass",
        ),
        (
            json!({"podMetadata": {"labels": {"trellis.dev/job": "x"}}}),
            "reserved",
        ),
    ] {
        let applied = control_plane
            .apply_yaml(&profile_manifest(&site, spec.clone()).to_string())
            .await;
        let error = format!("{:?}", applied.unwrap_err());
        assert!(error.contains(words), "{spec}: {error}");
    }
}
