//! New nodes for a job: a job runs without them if policies deny them.

use std::collections::BTreeMap;

use serde_json::{Value, from_value, json};
use trellis_api::QueueSpec;
use trellis_api::job::PolicyDecision;
use trellis_policies::cedar::{self, Policies, PolicyRequest, SubmissionFacts};
use trellis_policies::{AuthorizedJob, ClusterFacts};

use super::support::{ALLOW_ALL, cluster, cluster_with, set};
use crate::authorize::compile_yaml;

const JOB: &str = "\
apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata: {name: llm, namespace: team-a}
spec:
  taskGroups:
  - name: worker
    image: registry.example/train:1
    gpus: 8
    resources: {limits: {cpu: 1, memory: 1Gi}}
";
const NOT_H100: &str = "forbid(principal, action == Trellis::Action::\"ProvisionNodes\", \
     resource == Trellis::ResourceFlavor::\"h100\");";

/// Decides on the job in a queue with the flavors "a100" and "h100", which orders nodes so.
fn decide(policies: &Policies, order: Value) -> (cedar::JobDecision, AuthorizedJob) {
    let flavor =
        |name: &str| json!({"name": name, "resources": [{"name": "cpu", "nominalQuota": "1"}]});
    let queue = json!({
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor("a100"), flavor("h100")]}],
        "provisioning": {"order": order},
    });
    let queue: QueueSpec = from_value(queue).unwrap();
    let none = BTreeMap::new();
    let facts = ClusterFacts {
        queue: "default",
        queue_spec: &queue,
        namespace: "team-a",
        namespace_labels: &none,
        priority_class: None,
    };
    let submission = SubmissionFacts {
        labels: &none,
        requester: None,
        attempt: 1,
    };
    let job = compile_yaml(JOB, 0, false);
    let (decision, outcome) = cedar::authorize(Some(policies), job, &facts, &submission);
    let verdict = decision.to_policy_verdict(&outcome);
    assert_eq!(verdict.decision, Some(PolicyDecision::Allowed));
    assert!(verdict.missing_permits.is_empty(), "{verdict:?}");
    (decision, outcome.unwrap())
}

#[test]
fn job_requests_new_nodes_of_each_flavor_if_its_queue_orders_them() {
    let policies = set(vec![cluster("all", ALLOW_ALL)]);
    for (order, count) in [("Never", 0), ("Nominal", 2), ("Borrowing", 2)] {
        let (decision, job) = decide(&policies, json!(order));
        let requests = decision
            .decisions
            .iter()
            .map(|(demanded, _)| &demanded.request);
        let orders = requests.filter(|request| matches!(request, PolicyRequest::ProvisionNodes(_)));
        assert_eq!(orders.count(), count, "{order}");
        assert!(job.denied_node_orders().is_empty());
    }
}

#[test]
fn job_whose_new_nodes_are_forbidden_runs_without_them() {
    let policies = set(vec![
        cluster("all", ALLOW_ALL),
        cluster_with("no-h100", NOT_H100, json!({"onViolation": "Evict"})),
    ]);
    let (decision, job) = decide(&policies, json!("Nominal"));
    let denied: Vec<_> = job.denied_node_orders().iter().collect();
    let [(flavor, why)] = denied.as_slice() else {
        panic!("{denied:?}");
    };
    assert_eq!(*flavor, "h100");
    assert!(
        why.contains("the job may get new nodes of flavor \"h100\"") && why.contains("no-h100/0"),
        "{why}"
    );
    let all = decision.eviction_reasons(|_| true);
    assert_eq!(all.len(), 1);
    assert!(!PolicyRequest::UseFlavor("h100".to_owned()).is_optional());
}

#[test]
fn new_nodes_that_no_policy_permits_are_denied() {
    let but = "permit(principal, action, resource) \
         unless { action == Trellis::Action::\"ProvisionNodes\" };";
    let policies = set(vec![cluster("but", but)]);
    let (_, job) = decide(&policies, json!("Nominal"));
    let denied = job.denied_node_orders();
    assert_eq!(denied.keys().collect::<Vec<_>>(), ["a100", "h100"]);
    assert!(denied["a100"].contains("no policy permits"), "{denied:?}");
}
