//! A kubelet that refuses a pod, on a cluster that has no other node for it.

use std::time::Duration;

use anyhow::ensure;
use kube::api::{ApiResource, DeleteParams, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::jobs::phase;
use trellis_e2e::kubelet;
use trellis_e2e::operator::{self, Launch, Operator};
use trellis_e2e::site::Site;
use trellis_e2e::wait::eventually;

use super::program;

/// A node that refused is kept away from for a minute; then the gang is placed at once.
const TRIED_AGAIN: Duration = Duration::from_secs(90);

/// Until [`let_in`], the kubelet of `node` refuses every pod. The annotation is not the user's to
/// give: admission gives it.
async fn refuse(control_plane: &ControlPlane, node: &str) {
    let policy = format!(
        "
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: refuse}}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >
        Object{{metadata: Object.metadata{{annotations: {{
          '{}': 'OutOfnvidia.com/gpu', '{}': '{node}'}}}}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: refuse}}
spec: {{policyName: refuse}}
",
        kubelet::REFUSE,
        kubelet::REFUSE_ON
    );
    control_plane.apply_yaml(&policy).await.unwrap();
    // A new policy takes a moment until every request sees it.
    tokio::time::sleep(Duration::from_secs(2)).await;
}

async fn let_in(client: Client) {
    let kind = GroupVersionKind::gvk(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingAdmissionPolicyBinding",
    );
    let resource = ApiResource::from_gvk_with_plural(&kind, "mutatingadmissionpolicybindings");
    let bindings: Api<DynamicObject> = Api::all_with(client, &resource);
    bindings
        .delete("refuse", &DeleteParams::default())
        .await
        .unwrap();
}

/// Nothing else happens on this control plane: nobody but the operator itself looks again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gang_that_has_no_other_node_is_tried_again() {
    let control_plane = operator::control_plane().await.unwrap();
    let site = Site::new(&control_plane, "refused", Nodes::new(2).gpus(8)).await;
    let launch = Launch::named("operator").lease_seconds(60);
    let (_operator, _proxy) = Operator::behind_proxy(&control_plane, program(), &launch)
        .await
        .unwrap();
    refuse(&control_plane, &format!("{}-0", site.name())).await;
    site.submit("j", 2, 8).await;
    let queued = site
        .becomes("j", |s| {
            s.phase == Some(JobPhase::Queued) && s.attempt == Some(2)
        })
        .await;
    let failure = queued.status.unwrap().last_failure.unwrap();
    assert_eq!(failure.reason, "OutOfnvidia.com/gpu");
    let_in(control_plane.client()).await;
    let jobs = site.api::<TrainingJob>();
    eventually(TRIED_AGAIN, || async {
        let now = jobs.get("j").await?;
        ensure!(phase(&now) == Some(JobPhase::Running), "{:?}", now.status);
        Ok(())
    })
    .await
    .unwrap();
    let status = jobs.get("j").await.unwrap().status.unwrap();
    assert_eq!((status.attempt, status.disruptions), (Some(2), Some(1)));
}
