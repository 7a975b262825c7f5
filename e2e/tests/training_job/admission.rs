//! Admission changes pods: the gang is placed by what the API server stores.

use kube::ResourceExt as _;
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_e2e::jobs::message;

use super::{shared, site};

/// A policy that patches the pods of one namespace.
fn mutating(scope: &str, patches: &str) -> String {
    format!(
        "
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: {scope}}}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {scope}}}}}
    resourceRules:
    - {{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}}
  mutations:
  - patchType: JSONPatch
    jsonPatch: {{expression: '{patches}'}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: {scope}}}
spec: {{policyName: {scope}}}
"
    )
}

#[tokio::test]
async fn a_gang_goes_where_the_constraints_that_admission_adds_let_it() {
    let site = site("mutated", 3).await;
    let pool = "[JSONPatch{op: \"add\", path: \"/spec/nodeSelector/pool\", value: \"b\"}]";
    let policy = mutating(site.name(), pool);
    shared().await.apply_yaml(&policy).await.unwrap();
    // A new policy takes a moment until every request sees it.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    // Names decide between equal nodes, so that the last is the one that is not taken by chance.
    let last = site.nodes().names()[2].clone();

    // No node will do, and it says so before anything is created.
    site.submit("j", 1, 8).await;
    let waits = site
        .becomes("j", |s| s.reason == Some(Reason::NoMatchingNodes))
        .await;
    assert_eq!(waits.status.unwrap().phase, Some(JobPhase::Queued));
    assert_eq!(site.pods("j").await.len(), 0);

    site.nodes().label(&last, "pool", Some("b")).await.unwrap();
    site.reaches("j", JobPhase::Running).await;
    let pods = site.whole("j", 1).await;
    let spec = pods[0].spec.as_ref().unwrap();
    assert_eq!(
        spec.node_name.as_ref(),
        Some(&last),
        "{}",
        pods[0].name_any()
    );
    let selector = spec.node_selector.as_ref().unwrap();
    assert_eq!(selector.get("pool").map(String::as_str), Some("b"));
}

#[tokio::test]
async fn a_constraint_that_admission_adds_and_nobody_evaluates_is_not_ignored() {
    let site = site("spread", 1).await;
    let spread = "[JSONPatch{op: \"add\", path: \"/spec/topologySpreadConstraints\", value: [\
        Object.spec.topologySpreadConstraints{maxSkew: 1, topologyKey: \"zone\", \
        whenUnsatisfiable: \"DoNotSchedule\"}]}]";
    let policy = mutating(site.name(), spread);
    shared().await.apply_yaml(&policy).await.unwrap();
    // A new policy takes a moment until every request sees it.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    site.submit("j", 1, 8).await;
    let waits = site
        .becomes("j", |s| s.reason == Some(Reason::ConstraintNotSupported))
        .await;
    assert!(message(&waits).contains("a topology spread constraint"));
    assert_eq!(waits.status.unwrap().phase, Some(JobPhase::Queued));
    assert_eq!(site.pods("j").await.len(), 0);
}
