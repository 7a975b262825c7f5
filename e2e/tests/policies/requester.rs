//! Policies may depend on the requester of a job, and see only a requester that cannot be forged.

pub(super) mod stamp;
mod webhook;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::names::REQUESTED_BY;
use trellis_e2e::admission::{operator_webhook, wait_for_stamping};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::operator::{self, LaunchOptions, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, reason};
use trellis_e2e::wait::eventually;

use super::fixtures::{apply_policy, cluster_policy_for, policy_verdict, wait_until_active};
use super::users::{self, jobs_as, user_client};
use super::{create_site, operator_program, shared_control_plane};

/// Returns a policy by which only known members of `ml` may submit.
const ONLY_ML_POLICY: &str = "forbid(principal, action == Trellis::Action::\"Submit\", resource) \
    unless { context has requester && context.requester.groups.contains(\"ml\") };";
const ADA_STAMP: &str = r#"{"user": "ada", "groups": ["ml", "all"]}"#;

async fn apply_only_ml_policy(control_plane: &ControlPlane, site: &TestSite) {
    // A job is not evicted because its requester is no longer known.
    let evicts = json!({"onViolation": "Evict"});
    apply_policy(
        control_plane,
        &cluster_policy_for(site, ONLY_ML_POLICY, evicts),
    )
    .await;
    wait_until_active(control_plane, site.name()).await;
}

async fn submit_job(api: &Api<TrainingJob>, job: Value) {
    let job = serde_json::from_value(job).unwrap();
    api.create(&PostParams::default(), &job).await.unwrap();
}

/// Waits until the job is denied, with the reason if its stamp is not trusted.
async fn wait_until_denied(site: &TestSite, name: &str, doubt: Option<&str>) {
    let is_denied = |status: &TrainingJobStatus| {
        let policy = status.policy.as_ref();
        match (policy.and_then(|p| p.requester_unknown.as_deref()), doubt) {
            (Some(said), Some(doubt)) => said.contains(doubt),
            (said, doubt) => said.is_none() && doubt.is_none(),
        }
    };
    let denied = |s: &TrainingJobStatus| s.phase == Some(JobPhase::Refused) && is_denied(s);
    let job = site.wait_for_status(name, denied).await;
    assert_eq!(reason(&job), "PolicyDenied", "{name}");
    assert_eq!(site.list_pods(name).await.len(), 0);
}

#[tokio::test]
async fn policy_allows_jobs_by_their_requester() {
    let control_plane = shared_control_plane().await;
    let site = create_site("asks", 1).await;
    users::grant_user_rights(control_plane).await;
    wait_for_stamping(control_plane).await;
    apply_only_ml_policy(control_plane, &site).await;
    let ada = jobs_as(&site, &user_client(control_plane, "ada", &["ml"]));
    let bob = jobs_as(&site, &user_client(control_plane, "bob", &["ops"]));
    let groups: Vec<String> = (0..2_500).map(|i| format!("group-number-{i:04}")).collect();
    let groups: Vec<&str> = groups.iter().map(String::as_str).chain(["ml"]).collect();
    let unknown_user = jobs_as(&site, &user_client(control_plane, "many", &groups));

    submit_job(&ada, site.job("of-ada", 1, 1)).await;
    site.wait_for_phase("of-ada", JobPhase::Running).await;
    submit_job(&bob, site.job("of-bob", 1, 1)).await;
    wait_until_denied(&site, "of-bob", None).await;
    submit_job(&unknown_user, site.job("of-nobody", 1, 1)).await;
    wait_until_denied(&site, "of-nobody", None).await;

    // The requester is the user who last changed the spec.
    let patch = json!({"spec": {"restart": {"limit": 4}}});
    let params = PatchParams::default();
    ada.patch("of-bob", &params, &Patch::Merge(&patch))
        .await
        .unwrap();
    let changed_job = site.wait_for_phase("of-bob", JobPhase::Running).await;
    assert_eq!(
        policy_verdict(&changed_job).requester.as_deref(),
        Some("ada")
    );
    let verdict = policy_verdict(&site.wait_for_phase("of-nobody", JobPhase::Refused).await);
    assert_eq!(verdict.requester, None);
}

/// The admission policies that stamp jobs are ordinary objects. While they are missing or changed,
/// any user may write any stamp.
#[tokio::test]
async fn requester_is_unknown_without_intact_stamping_policies() {
    let control_plane = operator::start_control_plane().await.unwrap();
    let kubeconfig = operator::kubeconfig(&control_plane, operator::POD)
        .await
        .unwrap();
    let launch = LaunchOptions::with_name("operator");
    let launch = operator_webhook::stamp_jobs(&control_plane, launch)
        .await
        .unwrap();
    let mut operator =
        Operator::launch_with_options(&control_plane, operator_program(), &kubeconfig, &launch)
            .unwrap();
    operator::wait_until_jobs_stamped(&control_plane)
        .await
        .unwrap();
    let site = TestSite::new(&control_plane, "who", NodeTemplate::new(1).gpus(8)).await;
    users::grant_user_rights(&control_plane).await;
    apply_only_ml_policy(&control_plane, &site).await;
    let ada = jobs_as(&site, &user_client(&control_plane, "ada", &["ml"]));
    let bob = jobs_as(&site, &user_client(&control_plane, "bob", &["ops"]));
    let forged = |name: &str| {
        let mut job = site.job(name, 1, 1);
        job["metadata"]["annotations"] = json!({REQUESTED_BY: ADA_STAMP});
        job
    };
    wait_for_stamping(&control_plane).await;
    submit_job(&ada, site.job("early", 1, 1)).await;
    site.wait_for_phase("early", JobPhase::Running).await;
    let wait_for_log = async |operator: &Operator, words: &str| {
        eventually(SOON, || {
            let log = operator.read_log();
            async move {
                let log = log?;
                anyhow::ensure!(log.contains(words), "not said: {words}");
                Ok(())
            }
        })
        .await
        .unwrap();
    };
    wait_for_log(&operator, "who asks is known").await;

    // No admission policy refuses a forged stamp any more.
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(control_plane.client());
    let name = "trellis-requested-by";
    bindings
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    let missing_binding =
        "the ValidatingAdmissionPolicyBinding \"trellis-requested-by\" is not there";
    wait_for_log(&operator, missing_binding).await;
    // The running job keeps running, although its requester is no longer known.
    site.wait_for_status("early", |status| {
        let policy = status.policy.as_ref();
        policy.is_some_and(|policy| policy.requester.is_none())
    })
    .await;
    assert_eq!(site.wait_for_whole_gang("early", 1).await.len(), 1);
    eventually(SOON, || async {
        let job = serde_json::from_value(forged("forged"))?;
        bob.create(&PostParams::default(), &job).await?;
        Ok(())
    })
    .await
    .unwrap();
    wait_until_denied(&site, "forged", Some(missing_binding)).await;

    // The admission policies are back. The forged job stays untrusted.
    operator::install_chart_objects(&control_plane)
        .await
        .unwrap();
    wait_for_stamping(&control_plane).await;
    submit_job(&ada, site.job("late", 1, 1)).await;
    site.wait_for_phase("late", JobPhase::Running).await;
    wait_until_denied(&site, "forged", Some("the job is from before")).await;

    // The policy is changed for a moment and then restored.
    for actions in [json!(["Audit"]), json!(["Deny"])] {
        let patch = json!({"spec": {"validationActions": actions}});
        let params = PatchParams::default();
        bindings
            .patch(name, &params, &Patch::Merge(&patch))
            .await
            .unwrap();
    }
    wait_for_log(
        &operator,
        "\"trellis-requested-by\" was changed after it was created",
    )
    .await;
    submit_job(&ada, site.job("later", 1, 1)).await;
    wait_until_denied(&site, "later", Some("was changed after it was created")).await;
    operator.kill().unwrap();
    operator::release_lease(&control_plane).await.unwrap();

    // A second operator that starts now does not trust the stamps either. An operator that is
    // configured to trust them does.
    let mut operator = Operator::launch_with_options(
        &control_plane,
        operator_program(),
        &kubeconfig,
        &LaunchOptions::with_name("second"),
    )
    .unwrap();
    wait_for_log(&operator, "who asks is not known").await;
    operator.kill().unwrap();
    operator::release_lease(&control_plane).await.unwrap();
    let trusting = LaunchOptions::with_name("trusting").argument("--trust-requested-by");
    let _operator =
        Operator::launch_with_options(&control_plane, operator_program(), &kubeconfig, &trusting)
            .unwrap();
    site.wait_for_phase("later", JobPhase::Running).await;
}
