use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;
use trellis_api::pod_group::FlavorNodes;

use super::request::FlavorRequest;
use super::*;
use crate::fixtures::desired_run;
use crate::journal;

const ATOMIC: &str = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";

/// Returns the flavors "h100", by placeholders, and "b200", by ProvisioningRequest.
fn flavors() -> FlavorSpecs {
    let flavor = |pool: &str, by: serde_json::Value| {
        let mut provisioning = json!({"maxNodes": 8, "node": {"allocatable": {"cpu": 8}}});
        let by = by.as_object().unwrap().clone();
        provisioning.as_object_mut().unwrap().extend(by);
        let spec = json!({"nodeLabels": {"pool": pool}, "provisioning": provisioning});
        (pool.to_owned(), serde_json::from_value(spec).unwrap())
    };
    let request = json!({"provisioningClassName": ATOMIC, "parameters": {"a": "b"}});
    [
        flavor("h100", json!({"by": "Placeholders"})),
        flavor(
            "b200",
            json!({"by": "ProvisioningRequest", "provisioningRequest": request}),
        ),
    ]
    .into()
}

/// Returns the objects of an order for the gang of one group "worker" with this flavor.
fn order_objects(flavor: &str) -> (Vec<Job>, Vec<FlavorRequest>) {
    order_objects_of(flavor, flavor)
}

/// Like [`order_objects`], for an order of nodes of the flavor `ordered`.
fn order_objects_of(flavor: &str, ordered: &str) -> (Vec<Job>, Vec<FlavorRequest>) {
    let toleration = json!({"key": "gpu", "operator": "Exists"});
    let planned = PlannedGroup {
        name: "worker".to_owned(),
        flavors: BTreeMap::from([("nvidia.com/gpu".to_owned(), flavor.to_owned())]),
        tolerations: vec![serde_json::from_value(toleration).unwrap()],
        ..PlannedGroup::default()
    };
    let desired = desired_run(1);
    let run = desired.attempt().unwrap();
    let since = k8s_openapi::jiff::Timestamp::UNIX_EPOCH;
    let nodes = vec![FlavorNodes {
        flavor: ordered.to_owned(),
        count: 1,
    }];
    let nodes = journal::build_provisioning(run, vec![planned], nodes, (since, since));
    let objects = OrderObjectBuilder {
        run,
        nodes: &nodes,
        admitted: &BTreeMap::new(),
        flavors: &flavors(),
    };
    let jobs = objects.placeholder_jobs("trellis-capacity", 1_800);
    let requests = objects.requests(&OwnerReference::default());
    assert_eq!(has_placeholders(&nodes, &flavors()), !jobs.is_empty());
    let expected = request_flavors(&nodes, &flavors());
    assert_eq!(expected.len(), requests.len());
    (jobs, requests)
}

#[test]
fn placeholder_asks_for_what_the_pods_of_its_group_ask_for() {
    let (jobs, requests) = order_objects("h100");
    assert!(requests.is_empty());
    let [job] = jobs.as_slice() else {
        panic!("{jobs:?}");
    };
    let spec = job.spec.as_ref().unwrap();
    assert_eq!(spec.parallelism, spec.completions);
    assert_eq!(spec.active_deadline_seconds, Some(1_800));
    let pod = spec.template.spec.as_ref().unwrap();
    assert_eq!(pod.node_selector.as_ref().unwrap()["pool"], "h100");
    let tolerations = pod.tolerations.as_ref().unwrap();
    assert!(tolerations.iter().any(|t| t.key.as_deref() == Some("gpu")));
    let resources = pod.containers[0].resources.as_ref().unwrap();
    assert_eq!(resources.limits, resources.requests);
    assert!(resources.requests.as_ref().unwrap().contains_key("cpu"));
    assert!(!resources.requests.as_ref().unwrap().contains_key("pods"));
    assert_eq!(pod.node_name, None);
    assert_eq!(
        pod.scheduler_name.as_deref(),
        Some(names::PLACEHOLDER_SCHEDULER)
    );
}

#[test]
fn request_of_a_flavor_has_the_pods_of_its_groups_in_the_namespace_of_the_job() {
    let (jobs, requests) = order_objects("b200");
    assert!(jobs.is_empty());
    let [FlavorRequest { templates, request }] = requests.as_slice() else {
        panic!("{requests:?}");
    };
    let [template] = templates.as_slice() else {
        panic!("{templates:?}");
    };
    assert_eq!(request.spec.provisioning_class_name, ATOMIC);
    assert_eq!(request.spec.parameters["a"], "b");
    let [pods] = request.spec.pod_sets.as_slice() else {
        panic!("{request:?}");
    };
    assert_eq!(
        Some(&pods.pod_template_ref.name),
        template.metadata.name.as_ref()
    );
    assert_eq!(pods.count, 1);
    assert_eq!(request.metadata.namespace.as_deref(), Some("team-a"));
    assert_eq!(
        request.metadata.labels.as_ref().unwrap()[names::ORDERED_FLAVOR],
        "b200"
    );
    let pod = template.template.as_ref().unwrap().spec.as_ref().unwrap();
    assert_eq!(pod.node_selector.as_ref().unwrap()["pool"], "b200");
    assert_eq!(
        (&pod.scheduler_name, &pod.priority_class_name),
        (&None, &None)
    );
}

#[test]
fn flavor_with_enough_free_nodes_has_no_request() {
    let (_, requests) = order_objects_of("b200", "h100");
    assert!(requests.is_empty(), "{requests:?}");
}

#[test]
fn names_of_the_objects_are_valid_label_values() {
    let (jobs, _) = order_objects("h100");
    let (_, requests) = order_objects("b200");
    let names = jobs.iter().map(|job| &job.metadata.name);
    for name in names.chain(requests.iter().map(|r| &r.request.metadata.name)) {
        let name = name.as_deref().unwrap();
        assert!(name.len() <= 63, "{name}");
    }
}
