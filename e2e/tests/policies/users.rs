//! Users who may submit jobs in the whole cluster.

pub(super) mod attacks;
pub(super) mod binding_race;
pub(super) mod reserved_keys;

use kube::{Api, Client};
use serde::Deserialize;
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::names::REQUESTED_BY;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::rights;
use trellis_e2e::site::TestSite;

/// Members of this group may write jobs and pods, and bind pods.
const SUBMITTERS_GROUP: &str = "people";

/// Grants the rights to the group, and waits until its members have them.
pub(crate) async fn grant_user_rights(control_plane: &ControlPlane) {
    let rights = json!([
        {"apiGroups": ["trellis.dev"], "resources": ["trainingjobs", "trainingjobs/status", "podgroups"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods", "pods/status", "pods/binding",
            "pods/resize", "pods/ephemeralcontainers"], "verbs": ["*"]},
        {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["*"]},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["*"]},
    ]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": SUBMITTERS_GROUP}, "rules": rights});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding", "metadata": {"name": SUBMITTERS_GROUP},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": SUBMITTERS_GROUP},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": SUBMITTERS_GROUP}]});
    for object in [role, binding] {
        control_plane.apply_yaml(&object.to_string()).await.unwrap();
    }
    let anyone = user_client(control_plane, "anyone", &[]);
    let jobs = ("trellis.dev", "trainingjobs");
    rights::wait_until_allowed(&anyone, "create", jobs, None)
        .await
        .unwrap();
}

/// Returns a client of a user in these groups, and in the group of all authenticated users.
pub(crate) fn user_client(control_plane: &ControlPlane, name: &str, groups: &[&str]) -> Client {
    let groups: Vec<&str> = [SUBMITTERS_GROUP].iter().chain(groups).copied().collect();
    control_plane.client_for_user(name, &groups).unwrap()
}

/// Returns the jobs of the site with the rights of a user.
pub(crate) fn jobs_as(site: &TestSite, person: &Client) -> Api<TrainingJob> {
    Api::namespaced(person.clone(), site.name())
}

/// Returns the requester in the stamp of a job.
#[derive(Deserialize, Debug, PartialEq, Eq)]
pub(crate) struct ParsedStamp {
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
}

/// Returns the stamp of a job as text.
pub(crate) fn stamp_text(job: &TrainingJob) -> Option<&str> {
    let annotations = job.metadata.annotations.as_ref()?;
    annotations.get(REQUESTED_BY).map(String::as_str)
}

pub(crate) fn parse_stamp(job: &TrainingJob) -> ParsedStamp {
    let stamp = stamp_text(job).unwrap_or_else(|| panic!("no stamp: {job:?}"));
    serde_json::from_str(stamp).unwrap()
}
