//! Where the API server has no policy that writes requester stamps, the operator's webhook does.
//! Nothing trusts the webhook: an admission policy refuses each wrong stamp, and a job without a
//! stamp has an unknown requester. These tests run on each version of Kubernetes.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration,
};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_api::names::REQUESTED_BY;
use trellis_e2e::admission::operator_webhook::{self, WEBHOOK_NAME};
use trellis_e2e::admission::wait_for_stamping;
use trellis_e2e::binaries::KubernetesVersion;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::{ControlPlane, free_port};
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use super::{ADA_STAMP, apply_only_ml_policy, submit_job, wait_until_denied};
use crate::fixtures::{condition_of, wait_for_policy_status};
use crate::operator_program;
use crate::users::{self, jobs_as, parse_stamp, stamp_text, user_client};

const POLICY_NAME: &str = "trellis-requested-by";

/// A control plane without a MutatingAdmissionPolicy, and an operator that writes stamps.
struct StampingFixture {
    control_plane: ControlPlane,
    operator: Operator,
    site: TestSite,
    port: u16,
    ada: Api<TrainingJob>,
    bob: Api<TrainingJob>,
}

impl StampingFixture {
    async fn start() -> Self {
        let control_plane = operator::start_control_plane().await.unwrap();
        if KubernetesVersion::chosen().unwrap().has_mutating_policies() {
            let bindings: Api<MutatingAdmissionPolicyBinding> = Api::all(control_plane.client());
            let params = DeleteParams::default();
            bindings.delete(POLICY_NAME, &params).await.unwrap();
        }
        let port = free_port().unwrap();
        operator_webhook::install_stamping(&control_plane, port)
            .await
            .unwrap();
        let operator = start_operator(&control_plane, port).await;
        operator::wait_until_jobs_stamped(&control_plane)
            .await
            .unwrap();
        let site = TestSite::new(&control_plane, "hook", NodeTemplate::new(1).gpus(8)).await;
        users::grant_user_rights(&control_plane).await;
        apply_only_ml_policy(&control_plane, &site).await;
        wait_for_stamping(&control_plane).await;
        let client = |user, group| jobs_as(&site, &user_client(&control_plane, user, &[group]));
        let (ada, bob) = (client("ada", "ml"), client("bob", "ops"));
        Self {
            control_plane,
            operator,
            site,
            port,
            ada,
            bob,
        }
    }

    /// Returns a job that is never placed.
    fn suspended_job(&self, name: &str) -> Value {
        let mut job = self.site.job(name, 1, 1);
        job["spec"]["suspend"] = json!(true);
        job
    }
}

async fn start_operator(control_plane: &ControlPlane, port: u16) -> Operator {
    let kubeconfig = operator::kubeconfig(control_plane, operator::POD)
        .await
        .unwrap();
    let launch = operator_webhook::launch_options("operator", port);
    Operator::launch_with_options(control_plane, operator_program(), &kubeconfig, &launch).unwrap()
}

async fn merge_patch(
    api: &Api<TrainingJob>,
    name: &str,
    patch: Value,
) -> kube::Result<TrainingJob> {
    let params = PatchParams::default();
    api.patch(name, &params, &Patch::Merge(&patch)).await
}

fn restart_limit_patch(limit: u32) -> Value {
    json!({"spec": {"restart": {"limit": limit}}})
}

fn assert_refused(answer: kube::Result<TrainingJob>) {
    let kube::Error::Api(status) = answer.unwrap_err() else {
        panic!("no answer of the API server");
    };
    let words = "only Trellis may write the annotation trellis.dev/requested-by";
    assert!(status.message.contains(words), "{}", status.message);
}

#[tokio::test]
async fn webhook_stamps_jobs_and_its_outage_lets_no_job_pass_a_policy() {
    let mut fixture = StampingFixture::start().await;
    let (site, ada, bob) = (&fixture.site, &fixture.ada, &fixture.bob);
    submit_job(ada, site.job("of-ada", 1, 1)).await;
    site.wait_for_phase("of-ada", JobPhase::Running).await;
    submit_job(bob, site.job("of-bob", 1, 1)).await;
    wait_until_denied(site, "of-bob", None).await;
    for name in ["j", "shared"] {
        submit_job(ada, fixture.suspended_job(name)).await;
    }
    let changed = merge_patch(bob, "shared", restart_limit_patch(5)).await;
    assert_eq!(parse_stamp(&changed.unwrap()).user, "bob");

    // Nothing answers the API server.
    fixture.operator.kill().unwrap();
    submit_job(bob, site.job("unknown", 1, 1)).await;
    assert_eq!(stamp_text(&bob.get("unknown").await.unwrap()), None);
    let mut forged = site.job("forged", 1, 1);
    forged["metadata"]["annotations"] = json!({REQUESTED_BY: ADA_STAMP});
    let forged = serde_json::from_value(forged).unwrap();
    assert_refused(bob.create(&PostParams::default(), &forged).await);
    // The stamp that the job keeps names ada, and bob changes the spec.
    assert_refused(merge_patch(bob, "j", restart_limit_patch(6)).await);
    let without_stamp = json!({"metadata": {"annotations": {REQUESTED_BY: null}}});
    assert_refused(merge_patch(bob, "j", without_stamp.clone()).await);
    let of_ada = merge_patch(ada, "j", restart_limit_patch(7)).await.unwrap();
    assert_eq!(parse_stamp(&of_ada).user, "ada");
    // A user may write the right stamp.
    let mut own = site.job("own", 1, 1);
    own["metadata"]["annotations"] = json!({REQUESTED_BY: stamp_text(&of_ada).unwrap()});
    submit_job(ada, own).await;
    let mut both = without_stamp;
    both["spec"] = restart_limit_patch(8)["spec"].clone();
    let unknown = merge_patch(bob, "j", both).await.unwrap();
    assert_eq!(stamp_text(&unknown), None);

    operator::release_lease(&fixture.control_plane)
        .await
        .unwrap();
    fixture.operator = start_operator(&fixture.control_plane, fixture.port).await;
    wait_until_denied(site, "unknown", None).await;
    site.wait_for_phase("own", JobPhase::Running).await;
    // A change of the spec makes the requester known.
    operator::wait_until_jobs_stamped(&fixture.control_plane)
        .await
        .unwrap();
    let known = merge_patch(ada, "unknown", restart_limit_patch(9)).await;
    assert_eq!(parse_stamp(&known.unwrap()).user, "ada");
    site.wait_for_phase("unknown", JobPhase::Running).await;
}

#[tokio::test]
async fn policy_reports_that_nothing_records_requesters() {
    let fixture = StampingFixture::start().await;
    let (control_plane, site) = (&fixture.control_plane, &fixture.site);
    let wait_for_degraded = async |expected: &str| {
        let status = wait_for_policy_status(control_plane, site.name(), |status| {
            let mut conditions = status.conditions.iter();
            conditions.any(|c| c.type_ == "Degraded" && c.status == expected)
        });
        condition_of(&status.await, "Degraded").1
    };
    wait_for_degraded("False").await;
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(control_plane.client());
    let params = DeleteParams::default();
    webhooks.delete(WEBHOOK_NAME, &params).await.unwrap();
    let message = wait_for_degraded("True").await;
    let start = "who requests a job is unknown, so policies that depend on it deny: nothing writes \
                 the annotation trellis.dev/requested-by";
    assert!(message.starts_with(start), "{message}");
    eventually(SOON, || async {
        let job = serde_json::from_value(fixture.suspended_job("after"))?;
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let job = fixture.ada.create(&params, &job).await?;
        anyhow::ensure!(
            stamp_text(&job).is_none(),
            "the API server still calls the webhook"
        );
        Ok(())
    })
    .await
    .unwrap();
    submit_job(&fixture.ada, site.job("after", 1, 1)).await;
    wait_until_denied(site, "after", None).await;

    // A cluster that gets the webhook, or a new version with the policy, knows requesters again.
    operator_webhook::install_stamping(control_plane, fixture.port)
        .await
        .unwrap();
    operator::install_chart_objects(control_plane)
        .await
        .unwrap();
    wait_for_degraded("False").await;
    operator::wait_until_jobs_stamped(control_plane)
        .await
        .unwrap();
    submit_job(&fixture.ada, site.job("both", 1, 1)).await;
    site.wait_for_phase("both", JobPhase::Running).await;
}
