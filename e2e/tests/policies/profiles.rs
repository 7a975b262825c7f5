//! The settings of a RuntimeProfile are applied to the pods of the jobs that name it.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use trellis_api::job::{JobPhase, JobProfile};
use trellis_api::{Reason, RuntimeProfile, TrainingJob};
use trellis_e2e::jobs::{SOON, message, reason};
use trellis_e2e::site::Site;
use trellis_e2e::wait::wait_for;

use super::scene::{about, active, apply, create, delete, policy};
use super::{shared, site};

/// A profile of the site's name.
fn profile(site: &Site, spec: Value) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
        "metadata": {"name": site.name()}, "spec": spec,
    })
}

async fn api() -> Api<RuntimeProfile> {
    Api::all(shared().await.client())
}

/// A job of one pod with 8 GPUs that names the site's profile.
fn job(site: &Site) -> Value {
    let mut job = site.job("j", 1, 8);
    job["spec"]["profile"] = json!(site.name());
    job
}

fn profile_of(job: &TrainingJob) -> Option<JobProfile> {
    job.status.as_ref()?.profile.clone()
}

async fn pod(site: &Site) -> Pod {
    site.pods("j").await.remove(0)
}

fn variable(pod: &Pod, name: &str) -> Option<String> {
    let main = &pod.spec.as_ref().unwrap().containers[0];
    let found = main.env.iter().flatten().find(|v| v.name == name);
    found.and_then(|v| v.value.clone())
}

#[tokio::test]
async fn a_job_waits_for_its_profile_and_has_what_it_says() {
    let control_plane = shared().await;
    let site = site("profile", 1).await;
    create(&site, job(&site)).await;
    let waiting = site.reaches("j", JobPhase::Waiting).await;
    assert_eq!(reason(&waiting), "ProfileNotFound");
    let said = message(&waiting);
    assert!(
        said.contains(&format!("RuntimeProfile {:?} does not exist", site.name())),
        "{said}"
    );
    let status = waiting.status.unwrap();
    let accepted = status
        .conditions
        .iter()
        .find(|c| c.type_ == "Accepted")
        .unwrap();
    assert_eq!(accepted.status, "Unknown");
    assert_eq!(site.pods("j").await.len(), 0);
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
    apply(control_plane, &profile(&site, spec)).await;
    let runs = site.reaches("j", JobPhase::Running).await;
    let told = profile_of(&runs).unwrap();
    assert_eq!((told.name.as_str(), told.hash.len()), (site.name(), 16));
    let pod = pod(&site).await;
    assert_eq!(variable(&pod, "NCCL_IB_HCA").as_deref(), Some("mlx5"));
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
async fn who_has_its_place_keeps_the_profile_of_then_and_starts_again_with_that_of_now() {
    let control_plane = shared().await;
    let site = site("edited", 1).await;
    let of = |level: &str| json!({"env": [{"name": "NCCL_DEBUG", "value": level}]});
    apply(control_plane, &profile(&site, of("WARN"))).await;
    create(&site, job(&site)).await;
    let before = profile_of(&site.reaches("j", JobPhase::Running).await).unwrap();
    let network = site.api::<NetworkPolicy>().get("j").await.unwrap();
    let mut edited = of("INFO");
    edited["network"] = json!({"egress": [{"cidr": "10.9.0.0/16"}]});
    apply(control_plane, &profile(&site, edited)).await;
    // A change that makes the operator reconcile the job, and shows that it has.
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
    let seen = wait_for(&jobs, "j", SOON, |job: &TrainingJob| {
        job.status
            .as_ref()
            .is_some_and(|s| s.observed_generation == generation)
    });
    let seen = seen.await.unwrap();
    assert_eq!(profile_of(&seen), Some(before.clone()));
    let kept = site.api::<NetworkPolicy>().get("j").await.unwrap();
    assert_eq!(kept.spec, network.spec);
    assert_eq!(
        variable(&pod(&site).await, "NCCL_DEBUG").as_deref(),
        Some("WARN")
    );
    suspend(true).await;
    site.reaches("j", JobPhase::Suspended).await;
    suspend(false).await;
    let again = site.reaches("j", JobPhase::Running).await;
    assert_ne!(profile_of(&again), Some(before));
    assert_eq!(
        variable(&pod(&site).await, "NCCL_DEBUG").as_deref(),
        Some("INFO")
    );
    let network = site.api::<NetworkPolicy>().get("j").await.unwrap();
    let network = serde_json::to_string(&network.spec).unwrap();
    assert!(network.contains("10.9.0.0/16"), "{network}");
}

#[tokio::test]
async fn what_a_profile_brings_is_granted_by_its_name_or_denied() {
    let control_plane = shared().await;
    let site = site("granted", 1).await;
    apply(
        control_plane,
        &profile(&site, json!({"runtimeClassName": "nvidia"})),
    )
    .await;
    create(&site, job(&site)).await;
    let refused = site.reaches("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    let said = message(&refused);
    assert!(
        said.contains("\"runtimeClass nvidia\" (spec.runtimeClassName of its pods)"),
        "{said}"
    );
    assert_eq!(policy(&refused).missing_permits.len(), 1);
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
    apply(control_plane, &about(&site, &grant, json!({}))).await;
    active(control_plane, site.name()).await;
    site.reaches("j", JobPhase::Running).await;
    let spec = pod(&site).await.spec.unwrap();
    assert_eq!(spec.runtime_class_name.as_deref(), Some("nvidia"));
    delete(control_plane, site.name()).await;
}

#[tokio::test]
async fn a_profile_that_breaks_a_rule_keeps_its_jobs_waiting_with_its_words() {
    let control_plane = shared().await;
    let site = site("broken", 1).await;
    let wrong = json!({"podTemplate": {"spec": {"schedulerName": "other"}}});
    apply(control_plane, &profile(&site, wrong)).await;
    create(&site, job(&site)).await;
    let misconfigured = Reason::ProfileMisconfigured;
    let waiting = site
        .reaches_for("j", JobPhase::Waiting, misconfigured)
        .await;
    let said = message(&waiting);
    assert!(
        said.contains("spec.podTemplate.spec.schedulerName"),
        "{said}"
    );
    let profiles = api().await;
    let ready = |profile: &RuntimeProfile| {
        let conditions = profile.status.iter().flat_map(|s| &s.conditions);
        let ready = conditions.into_iter().find(|c| c.type_ == "Ready");
        ready.map(|c| (c.status.clone(), c.message.clone()))
    };
    let told = wait_for(&profiles, site.name(), SOON, |p| ready(p).is_some());
    let (holds, why) = ready(&told.await.unwrap()).unwrap();
    assert_eq!(holds, "False");
    assert!(why.contains("spec.podTemplate.spec.schedulerName"), "{why}");
    profiles
        .delete(site.name(), &DeleteParams::default())
        .await
        .unwrap();
    let jobs = site.api::<TrainingJob>();
    let gone = wait_for(&jobs, "j", SOON, |job: &TrainingJob| {
        reason(job) == "ProfileNotFound"
    });
    gone.await.unwrap();
    apply(control_plane, &profile(&site, json!({}))).await;
    site.reaches("j", JobPhase::Running).await;
}

/// The API server says what CEL can say.
#[tokio::test]
async fn what_no_profile_may_say_is_refused_by_the_api_server() {
    let control_plane = shared().await;
    let site = site("cel", 0).await;
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
            .apply_yaml(&profile(&site, spec.clone()).to_string())
            .await;
        let error = format!("{:?}", applied.unwrap_err());
        assert!(error.contains(words), "{spec}: {error}");
    }
}
