//! Policies for one namespace, and their status.

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use trellis_api::job::{PolicyDecision, PolicyVerdict};
use trellis_api::job_policy::JobPolicyStatus;
use trellis_api::{ClusterJobPolicy, JobPolicy, TrainingJob};
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::{eventually, wait_for};

/// Returns a policy that forbids images of this name.
pub(crate) const FORBID_NO_IMAGE: &str =
    "@id(\"no\") forbid(principal, action == Trellis::Action::\"UseImage\", resource);";

/// Returns a ClusterJobPolicy for one namespace. [`delete_policy`] deletes it.
pub(crate) fn cluster_policy_for(site: &TestSite, cedar: &str, fields: Value) -> Value {
    let labels = json!({"kubernetes.io/metadata.name": site.name()});
    let mut spec = json!({"cedar": cedar, "namespaceSelector": {"matchLabels": labels}});
    let fields = fields.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "ClusterJobPolicy",
        "metadata": {"name": site.name()}, "spec": spec,
    })
}

/// Returns a JobPolicy of the namespace.
pub(crate) fn namespace_policy(site: &TestSite, name: &str, cedar: &str) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "JobPolicy",
        "metadata": {"name": name, "namespace": site.name()}, "spec": {"cedar": cedar},
    })
}

pub(crate) async fn apply_policy(control_plane: &ControlPlane, policy: &Value) {
    control_plane.apply_yaml(&policy.to_string()).await.unwrap();
}

/// Deletes the ClusterJobPolicy of the site.
pub(crate) async fn delete_policy(control_plane: &ControlPlane, name: &str) {
    let api: Api<ClusterJobPolicy> = Api::all(control_plane.client());
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

/// Waits until the status of the policy satisfies the condition.
pub(crate) async fn wait_for_policy_status(
    control_plane: &ControlPlane,
    name: &str,
    condition: impl Fn(&JobPolicyStatus) -> bool,
) -> JobPolicyStatus {
    let api: Api<ClusterJobPolicy> = Api::all(control_plane.client());
    let reached = wait_for(&api, name, SOON, |policy: &ClusterJobPolicy| {
        let status = policy.status.as_ref();
        let status = status.filter(|s| s.observed_generation == policy.metadata.generation);
        status.is_some_and(&condition)
    });
    reached.await.unwrap().status.unwrap()
}

/// Returns status and message of a condition.
pub(crate) fn condition_of(status: &JobPolicyStatus, type_: &str) -> (String, String) {
    let found = status.conditions.iter().find(|c| c.type_ == type_);
    let found = found.unwrap_or_else(|| panic!("no {type_}: {status:?}"));
    (found.status.clone(), found.message.clone())
}

/// Waits until the current version of the policy takes effect.
pub(crate) async fn wait_until_active(control_plane: &ControlPlane, name: &str) -> JobPolicyStatus {
    wait_for_policy_status(control_plane, name, |s| {
        s.conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True")
    })
    .await
}

/// Waits until a policy of the namespace has the condition `type_` with this status.
pub(crate) async fn wait_for_own_condition(
    site: &TestSite,
    name: &str,
    type_: &str,
    expected_status: &str,
) -> JobPolicyStatus {
    let api: Api<JobPolicy> = site.api();
    let found = wait_for(&api, name, SOON, |policy: &JobPolicy| {
        let conditions = policy.status.iter().flat_map(|s| &s.conditions);
        conditions
            .into_iter()
            .any(|c| c.type_ == type_ && c.status == expected_status)
    });
    found.await.unwrap().status.unwrap()
}

/// Returns the policy decision in a job's status.
pub(crate) fn policy_verdict(job: &TrainingJob) -> PolicyVerdict {
    let status = job.status.clone().unwrap_or_default();
    status
        .policy
        .unwrap_or_else(|| panic!("no status.policy: {job:?}"))
}

pub(crate) fn policy_decision(job: &TrainingJob) -> Option<PolicyDecision> {
    policy_verdict(job).decision
}

/// Waits for an event of the job, and returns its note.
pub(crate) async fn wait_for_event(site: &TestSite, name: &str, reason: &str) -> String {
    let events: Api<Event> = site.api();
    let found = eventually(SOON, || async {
        let all = events.list(&ListParams::default()).await?;
        let about = |e: &&Event| e.regarding.as_ref().and_then(|r| r.name.as_deref()) == Some(name);
        let mut of_it = all.items.iter().filter(about);
        let found = of_it.find(|e| e.reason.as_deref() == Some(reason));
        found
            .and_then(|e| e.note.clone())
            .ok_or_else(|| anyhow::anyhow!("no event {reason} on {name}"))
    });
    found.await.unwrap()
}

/// Creates a job that the test does not change any more. Returns the version of its spec.
pub(crate) async fn create_job(site: &TestSite, job: Value) -> Option<i64> {
    let job: TrainingJob = serde_json::from_value(job).unwrap();
    let api: Api<TrainingJob> = site.api();
    let job = api.create(&PostParams::default(), &job).await.unwrap();
    job.metadata.generation
}
