//! Policies may depend on the requester of a job, and see only a requester that cannot be forged.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_api::names::REQUESTED_BY;
use trellis_e2e::admission::stamping_is_in_force;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::jobs::{SOON, reason};
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::site::Site;
use trellis_e2e::wait::eventually;

use super::people::{self, jobs_of, person};
use super::scene::{about, active, apply, policy};
use super::{program, shared, site};

/// Only requesters known to be in `ml` may submit.
const ONLY_ML: &str = "forbid(principal, action == Trellis::Action::\"Submit\", resource) \
    unless { context has requester && context.requester.groups.contains(\"ml\") };";
const ADA: &str = r#"{"user": "ada", "groups": ["ml", "all"]}"#;

async fn only_ml(control_plane: &ControlPlane, site: &Site) {
    // A job is not evicted because its requester is no longer known.
    let evicts = json!({"onViolation": "Evict"});
    apply(control_plane, &about(site, ONLY_ML, evicts)).await;
    active(control_plane, site.name()).await;
}

async fn submit(api: &Api<TrainingJob>, job: Value) {
    let job = serde_json::from_value(job).unwrap();
    api.create(&PostParams::default(), &job).await.unwrap();
}

/// Denied, with why its stamp is not believed, if it is not.
async fn is_denied(site: &Site, name: &str, doubt: Option<&str>) {
    let says = |status: &TrainingJobStatus| {
        let told = status.policy.as_ref();
        match (told.and_then(|p| p.requester_unknown.as_deref()), doubt) {
            (Some(said), Some(doubt)) => said.contains(doubt),
            (said, doubt) => said.is_none() && doubt.is_none(),
        }
    };
    let denied = |s: &TrainingJobStatus| s.phase == Some(JobPhase::Refused) && says(s);
    let job = site.becomes(name, denied).await;
    assert_eq!(reason(&job), "PolicyDenied", "{name}");
    assert_eq!(site.pods(name).await.len(), 0);
}

#[tokio::test]
async fn a_policy_allows_by_who_asks() {
    let control_plane = shared().await;
    let site = site("asks", 1).await;
    people::allow(control_plane).await;
    stamping_is_in_force(control_plane).await;
    only_ml(control_plane, &site).await;
    let ada = jobs_of(&site, &person(control_plane, "ada", &["ml"]));
    let bob = jobs_of(&site, &person(control_plane, "bob", &["ops"]));
    let groups: Vec<String> = (0..2_500).map(|i| format!("group-number-{i:04}")).collect();
    let groups: Vec<&str> = groups.iter().map(String::as_str).chain(["ml"]).collect();
    let nobody = jobs_of(&site, &person(control_plane, "many", &groups));

    submit(&ada, site.job("of-ada", 1, 1)).await;
    site.reaches("of-ada", JobPhase::Running).await;
    submit(&bob, site.job("of-bob", 1, 1)).await;
    is_denied(&site, "of-bob", None).await;
    submit(&nobody, site.job("of-nobody", 1, 1)).await;
    is_denied(&site, "of-nobody", None).await;

    // The requester is the user who changed the spec last.
    let patch = json!({"spec": {"restart": {"limit": 4}}});
    let params = PatchParams::default();
    ada.patch("of-bob", &params, &Patch::Merge(&patch))
        .await
        .unwrap();
    let taken = site.reaches("of-bob", JobPhase::Running).await;
    assert_eq!(policy(&taken).requester.as_deref(), Some("ada"));
    let told = policy(&site.reaches("of-nobody", JobPhase::Refused).await);
    assert_eq!(told.requester, None);
}

/// The admission policies that stamp jobs are ordinary objects. While they are missing or changed,
/// any user may write any stamp.
#[tokio::test]
async fn nobody_is_known_where_stamps_may_be_forged() {
    let control_plane = operator::control_plane().await.unwrap();
    let kubeconfig = control_plane
        .service_account_kubeconfig(operator::NAMESPACE, operator::ACCOUNT)
        .await
        .unwrap();
    let mut operator = Operator::launch(
        &control_plane,
        program(),
        &kubeconfig,
        &Launch::named("operator"),
    )
    .unwrap();
    let site = Site::new(&control_plane, "who", Nodes::new(1).gpus(8)).await;
    people::allow(&control_plane).await;
    only_ml(&control_plane, &site).await;
    let ada = jobs_of(&site, &person(&control_plane, "ada", &["ml"]));
    let bob = jobs_of(&site, &person(&control_plane, "bob", &["ops"]));
    let forged = |name: &str| {
        let mut job = site.job(name, 1, 1);
        job["metadata"]["annotations"] = json!({REQUESTED_BY: ADA});
        job
    };
    stamping_is_in_force(&control_plane).await;
    submit(&ada, site.job("early", 1, 1)).await;
    site.reaches("early", JobPhase::Running).await;
    let says = async |operator: &Operator, words: &str| {
        eventually(SOON, || {
            let log = operator.log();
            async move {
                let log = log?;
                anyhow::ensure!(log.contains(words), "not said: {words}");
                Ok(())
            }
        })
        .await
        .unwrap();
    };
    says(&operator, "who asks is known").await;

    // Nothing refuses a forged one any more.
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(control_plane.client());
    let name = "trellis-requested-by";
    bindings
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    let gone = "the ValidatingAdmissionPolicyBinding \"trellis-requested-by\" is not there";
    says(&operator, gone).await;
    // The running job goes on, although its requester is no longer known.
    site.becomes("early", |status| {
        let told = status.policy.as_ref();
        told.is_some_and(|told| told.requester.is_none())
    })
    .await;
    assert_eq!(site.whole("early", 1).await.len(), 1);
    eventually(SOON, || async {
        let job = serde_json::from_value(forged("forged"))?;
        bob.create(&PostParams::default(), &job).await?;
        Ok(())
    })
    .await
    .unwrap();
    is_denied(&site, "forged", Some(gone)).await;

    // The admission policies are back. The forged job stays untrusted.
    operator::install(&control_plane).await.unwrap();
    stamping_is_in_force(&control_plane).await;
    submit(&ada, site.job("late", 1, 1)).await;
    site.reaches("late", JobPhase::Running).await;
    is_denied(&site, "forged", Some("the job is from before")).await;

    // Changed for a moment, and as it should be again.
    for actions in [json!(["Audit"]), json!(["Deny"])] {
        let patch = json!({"spec": {"validationActions": actions}});
        let params = PatchParams::default();
        bindings
            .patch(name, &params, &Patch::Merge(&patch))
            .await
            .unwrap();
    }
    says(
        &operator,
        "\"trellis-requested-by\" was changed after it was created",
    )
    .await;
    submit(&ada, site.job("later", 1, 1)).await;
    is_denied(&site, "later", Some("was changed after it was created")).await;
    operator.kill().unwrap();
    operator::give_lease_back(&control_plane).await.unwrap();

    // A second operator that starts now does not trust the stamps either. An operator that is
    // configured to trust them does.
    let mut operator = Operator::launch(
        &control_plane,
        program(),
        &kubeconfig,
        &Launch::named("second"),
    )
    .unwrap();
    says(&operator, "who asks is not known").await;
    operator.kill().unwrap();
    operator::give_lease_back(&control_plane).await.unwrap();
    let trusting = Launch::named("trusting").argument("--trust-requested-by");
    let _operator = Operator::launch(&control_plane, program(), &kubeconfig, &trusting).unwrap();
    site.reaches("later", JobPhase::Running).await;
}
