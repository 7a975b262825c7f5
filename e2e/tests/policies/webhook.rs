//! The webhook answers before the API server stores an object. It refuses a job that will be
//! denied, with the message of its later status.

pub(super) mod availability;
pub(super) mod certificate;

use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use kube::Api;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::admission::operator_webhook::{self, FailurePolicy};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::{ControlPlane, free_port};
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{message, reason};
use trellis_e2e::wait::eventually;

use super::fixtures::{
    FORBID_NO_IMAGE, apply_policy, cluster_policy_for, create_job, delete_policy, namespace_policy,
    policy_verdict, wait_until_active,
};
use super::operator_program;

/// Longest time until the webhook answers any request.
pub(super) const RESPONSE_LIMIT: Duration = Duration::from_secs(3);

pub(super) struct WebhookFixture {
    pub(super) control_plane: ControlPlane,
    pub(super) port: u16,
    pub(super) _operator: Operator,
}

pub(super) async fn operator_kubeconfig(control_plane: &ControlPlane) -> PathBuf {
    operator::kubeconfig(control_plane, operator::POD)
        .await
        .unwrap()
}

/// A control plane whose API server calls an operator, and treats each missing response as an
/// error.
pub(super) async fn start_fixture() -> WebhookFixture {
    let control_plane = operator::start_control_plane().await.unwrap();
    let port = free_port().unwrap();
    operator_webhook::install(&control_plane, port, FailurePolicy::Fail)
        .await
        .unwrap();
    let launch = operator_webhook::launch_options("operator", port).lease_seconds(60);
    let kubeconfig = operator_kubeconfig(&control_plane).await;
    let operator =
        Operator::launch_with_options(&control_plane, operator_program(), &kubeconfig, &launch)
            .unwrap();
    operator_webhook::wait_until_called(&control_plane)
        .await
        .unwrap();
    WebhookFixture {
        control_plane,
        port,
        _operator: operator,
    }
}

/// The scene of tests that send few requests.
async fn shared_fixture() -> &'static WebhookFixture {
    static FIXTURE: OnceCell<WebhookFixture> = OnceCell::const_new();
    FIXTURE.get_or_init(start_fixture).await
}

async fn create_site(prefix: &str, nodes: usize) -> (&'static ControlPlane, TestSite) {
    let control_plane = &shared_fixture().await.control_plane;
    let site = TestSite::new(control_plane, prefix, NodeTemplate::new(nodes).gpus(8)).await;
    (control_plane, site)
}

pub(super) fn reason_and_message(error: kube::Error) -> (String, String) {
    match error {
        kube::Error::Api(status) => (status.reason, status.message),
        other => panic!("{other:?}"),
    }
}

/// Runs kubectl. Returns whether it succeeded, and its standard error.
async fn run_kubectl(site: &TestSite, arguments: &[&str], objects: &[&Value]) -> (bool, String) {
    let all: Vec<_> = objects.iter().map(ToString::to_string).collect();
    let arguments = [&["--namespace", site.name()], arguments, &["-f", "-"]].concat();
    let control_plane = &shared_fixture().await.control_plane;
    let all = all.join("\n---\n");
    let output = control_plane.kubectl_with(&arguments, &all).await;
    let Output { status, stderr, .. } = output.unwrap();
    (
        status.success(),
        String::from_utf8_lossy(&stderr).into_owned(),
    )
}

#[tokio::test]
async fn webhook_refuses_denied_jobs_with_their_status_message() {
    let (control_plane, site) = create_site("early", 1).await;
    // A job exists before a policy forbids it, and is not placed.
    create_job(&site, site.job("before", 9, 8)).await;
    site.wait_for_phase("before", JobPhase::Queued).await;
    apply_policy(
        control_plane,
        &cluster_policy_for(&site, FORBID_NO_IMAGE, json!({})),
    )
    .await;
    wait_until_active(control_plane, site.name()).await;
    let denied = site.wait_for_phase("before", JobPhase::Refused).await;
    assert_eq!(reason(&denied), "PolicyDenied");

    let refused = site.create(site.job("before-not", 9, 8)).await.unwrap_err();
    let (word, refusal) = reason_and_message(refused);
    assert_eq!(word, "PolicyDenied");
    let hook = "admission webhook \"trainingjobs.trellis.dev\" denied the request: ";
    let words = refusal
        .strip_prefix(hook)
        .unwrap_or_else(|| panic!("{refusal}"));
    assert_eq!(words, message(&denied));
    let api: Api<TrainingJob> = site.api();
    assert!(api.get_opt("before-not").await.unwrap().is_none());

    // A change outside the spec passes. A change of the spec is checked.
    let labels = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}});
    site.patch("before", labels).await.unwrap();
    let changed = site.patch("before", json!({"spec": {"restart": {"limit": 5}}}));
    assert_eq!(
        reason_and_message(changed.await.unwrap_err()).0,
        "PolicyDenied"
    );
    // A change that only suspends the job passes.
    let stopped = site
        .patch("before", json!({"spec": {"suspend": true}}))
        .await;
    stopped.unwrap();
    site.wait_for_phase("before", JobPhase::Suspended).await;
    delete_policy(control_plane, site.name()).await;
}

#[tokio::test]
async fn kubectl_prints_warn_policies_and_reasons_to_wait() {
    let (control_plane, site) = create_site("warned", 1).await;
    let warns = cluster_policy_for(&site, FORBID_NO_IMAGE, json!({"enforcement": "Warn"}));
    apply_policy(control_plane, &warns).await;
    wait_until_active(control_plane, site.name()).await;
    let mut job = site.job("j", 1, 8);
    let (created, stderr) = run_kubectl(&site, &["create"], &[&job]).await;
    assert!(created, "{stderr}");
    let running = site.wait_for_phase("j", JobPhase::Running).await;
    let warning = &policy_verdict(&running).warnings[0];
    assert!(stderr.contains(&format!("Warning: {warning}")), "{stderr}");

    job["metadata"]["name"] = json!("waits");
    job["spec"]["queueName"] = json!("nope");
    let (created, stderr) = run_kubectl(&site, &["create"], &[&job]).await;
    assert!(created, "{stderr}");
    assert!(
        stderr.contains("Warning: QueueNotFound: spec.queueName"),
        "{stderr}"
    );
    delete_policy(control_plane, site.name()).await;
}

#[tokio::test]
async fn dry_run_gets_the_same_answer_and_stores_nothing() {
    let (control_plane, site) = create_site("dry", 0).await;
    apply_policy(
        control_plane,
        &cluster_policy_for(&site, FORBID_NO_IMAGE, json!({})),
    )
    .await;
    wait_until_active(control_plane, site.name()).await;
    let dry = ["create", "--dry-run=server"];
    let job = site.job("j", 1, 8);
    let (created, stderr) = run_kubectl(&site, &dry, &[&job]).await;
    assert!(!created && stderr.contains("(PolicyDenied)"), "{stderr}");
    delete_policy(control_plane, site.name()).await;
    eventually(RESPONSE_LIMIT * 5, || async {
        let (created, stderr) = run_kubectl(&site, &dry, &[&job]).await;
        anyhow::ensure!(created, "{stderr}");
        Ok(())
    })
    .await
    .unwrap();
    let api: Api<TrainingJob> = site.api();
    assert!(api.get_opt("j").await.unwrap().is_none());
    // The refused object also leaves no state in the operator.
    create_job(&site, job).await;
    site.wait_for_phase("j", JobPhase::Queued).await;
}

#[tokio::test]
async fn invalid_policy_is_refused_with_line_and_caret() {
    let (control_plane, site) = create_site("caret", 0).await;
    let text = "permit(principal, action, resource)\nwhen { context.gpu > 8 };";
    for object in [
        cluster_policy_for(&site, text, json!({})),
        namespace_policy(&site, "x", text),
    ] {
        let (applied, stderr) = run_kubectl(&site, &["apply"], &[&object]).await;
        assert!(!applied);
        assert!(stderr.contains("policies.trellis.dev"), "{stderr}");
        assert!(
            stderr.contains("spec.cedar:2:8: attribute `gpu`"),
            "{stderr}"
        );
        assert!(
            stderr.contains("2 | when { context.gpu > 8 };\n"),
            "{stderr}"
        );
        assert!(stderr.contains("  |        ^"), "{stderr}");
    }
    let fails = json!({"tests": [{"name": "denies", "decision": "Allow", "request": {
        "namespace": site.name(), "action": "UseImage", "resource": {"name": "i"}}}]});
    let (applied, stderr) = run_kubectl(
        &site,
        &["apply"],
        &[&cluster_policy_for(&site, FORBID_NO_IMAGE, fails)],
    )
    .await;
    assert!(!applied);
    assert!(stderr.contains("the test \"denies\" fails"), "{stderr}");
    // The API server accepts a valid policy and refuses a change that breaks it. The valid version
    // stays.
    apply_policy(
        control_plane,
        &cluster_policy_for(&site, FORBID_NO_IMAGE, json!({})),
    )
    .await;
    let (applied, _) = run_kubectl(
        &site,
        &["apply"],
        &[&cluster_policy_for(&site, "permit(", json!({}))],
    )
    .await;
    assert!(!applied);
    wait_until_active(control_plane, site.name()).await;
    delete_policy(control_plane, site.name()).await;
}

#[tokio::test]
async fn webhook_refuses_useless_policies_and_profiles_and_jobs_over_quota() {
    let (control_plane, site) = create_site("room", 1).await;
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]});
    let labels = json!({"matchLabels": {"kubernetes.io/metadata.name": site.name()}});
    let quota = |selector: &Value| {
        json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
            "metadata": {"name": site.name()},
            "spec": {
                "subject": {"namespaceSelector": selector}, "enforcement": "Deny",
                "limits": {"runningJobs": 1, "gpusPerJob": 4},
            },
        })
    };
    let profile = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
        "metadata": {"name": site.name()},
        "spec": {"podTemplate": {"spec": {"initContainers": [{"name": "s", "image": "i"}]}}},
    });
    for (object, words) in [
        (
            quota(&selector),
            "no job starts: spec.subject.namespaceSelector is not a selector",
        ),
        (
            profile,
            "spec.podTemplate.spec.initContainers[0].resources.limits: must name cpu and memory",
        ),
    ] {
        let (passed, stderr) = run_kubectl(&site, &["apply"], &[&object]).await;
        assert!(!passed && stderr.contains("(InvalidSpec)"), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    }
    apply_policy(control_plane, &quota(&labels)).await;
    let refused = eventually(Duration::from_secs(20), || async {
        let refused = site.create(site.job("large", 1, 8)).await;
        anyhow::ensure!(refused.is_err(), "the job is not refused yet");
        Ok(refused.unwrap_err())
    });
    let (word, stderr) = reason_and_message(refused.await.unwrap());
    assert_eq!(word, "QuotaPolicyExceeded");
    assert!(stderr.contains("gpusPerJob is 4"), "{stderr}");
    create_job(&site, site.job("first", 1, 1)).await;
    site.wait_for_phase("first", JobPhase::Running).await;
    let refused = eventually(Duration::from_secs(20), || async {
        let dry_run = kube::api::PostParams {
            dry_run: true,
            ..Default::default()
        };
        let api: Api<TrainingJob> = site.api();
        let job = serde_json::from_value(site.job("second", 1, 1))?;
        let refused = api.create(&dry_run, &job).await;
        anyhow::ensure!(refused.is_err(), "the job is not refused yet");
        Ok(refused.unwrap_err())
    });
    let (word, stderr) = reason_and_message(refused.await.unwrap());
    assert_eq!(word, "QuotaPolicyExceeded");
    assert!(
        stderr.contains("runningJobs: needs 1, 1 of 1 are held"),
        "{stderr}"
    );
    // When the limit has room, the job is accepted.
    site.delete::<TrainingJob>("first").await;
    eventually(Duration::from_secs(20), || async {
        site.create(site.job("second", 1, 1)).await?;
        Ok(())
    })
    .await
    .unwrap();
    site.wait_for_phase("second", JobPhase::Running).await;
}

#[tokio::test]
async fn job_applied_together_with_its_permission_passes() {
    let (control_plane, site) = create_site("together", 1).await;
    apply_policy(
        control_plane,
        &cluster_policy_for(&site, FORBID_NO_IMAGE, json!({})),
    )
    .await;
    wait_until_active(control_plane, site.name()).await;
    let allows =
        FORBID_NO_IMAGE.replace(';', " when { resource has tag && resource.tag == \"0\" };");
    let allows = cluster_policy_for(&site, &allows, json!({}));
    let (applied, stderr) = run_kubectl(&site, &["apply"], &[&allows, &site.job("j", 1, 8)]).await;
    assert!(applied, "{stderr}");
    site.wait_for_phase("j", JobPhase::Running).await;
    // A namespace with a job.
    let name = format!("{}-more", site.name());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let mut job = site.job("j", 1, 8);
    job["metadata"]["namespace"] = json!(name);
    let objects = format!("{namespace}\n---\n{job}");
    let applied = control_plane
        .kubectl_with(&["apply", "-f", "-"], &objects)
        .await;
    let applied = applied.unwrap();
    assert!(applied.status.success(), "{applied:?}");
    delete_policy(control_plane, site.name()).await;
}
