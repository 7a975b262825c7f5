//! The cluster before the first act: an API server with the kinds of Trellis, nodes, a queue and the
//! policies of a fresh install.

use jiff::Timestamp;
use serde_json::{Value, json};
use trellis_api_server::{ApiServer, Kind, KindRef};

use crate::access::{Access, Target};
use crate::admission;
use crate::script::Script;

pub(crate) static NODES: KindRef = KindRef::new("", "nodes");
pub(crate) static PODS: KindRef = KindRef::new("", "pods");
pub(crate) static TRAINING_JOBS: KindRef = KindRef::new("trellis.dev", "trainingjobs");
pub(crate) static POD_GROUPS: KindRef = KindRef::new("trellis.dev", "podgroups");
pub(crate) static LEADER_TERMS: KindRef = KindRef::new("trellis.dev", "leaderterms");

/// Namespace of the operator.
pub(crate) const OPERATOR_NAMESPACE: &str = "trellis-system";
/// Namespace of the jobs.
pub(crate) const JOB_NAMESPACE: &str = "team-a";

/// The time of day at the begin of a run.
pub(crate) fn start_time() -> Timestamp {
    Timestamp::from_second(1_767_600_000).expect("a time in January 2026")
}

pub(crate) fn node_name(index: usize) -> String {
    format!("node-{index}")
}

/// Starts an API server, and creates the objects.
pub(crate) fn new_server(script: &Script, now: Timestamp) -> ApiServer {
    let crds = trellis_api::crds::all();
    let custom = crds.iter().map(|crd| {
        let crd = serde_json::to_value(crd).expect("a CRD is JSON");
        Kind::from_crd(&crd).expect("a valid CRD")
    });
    let mut server = ApiServer::new(Kind::built_in().into_iter().chain(custom));
    server.add_admission(admission::refuse_stale_leaders);
    server.add_admission(admission::refuse_lower_epochs);
    let mut access = Access::new(&mut server, "admin", now);
    for namespace in [OPERATOR_NAMESPACE, JOB_NAMESPACE, "default"] {
        create(&mut access, &namespace_object(namespace));
    }
    for (index, gpus) in script.nodes.iter().enumerate() {
        let name = node_name(index);
        create(&mut access, &node(&name, *gpus));
        // The node lifecycle controller removes the taint of a new node when it is ready.
        let target = Target::cluster_wide("api/v1", "nodes", &name);
        let ready = access.patch(&target, &json!({"spec": {"taints": null}}));
        ready.expect("the node exists");
    }
    // The operator checks that the policies are there. The API server does not evaluate them.
    for text in [
        include_str!("../../../charts/trellis/files/admission.yaml"),
        include_str!("../../../charts/trellis/files/admission-leader.yaml"),
    ] {
        let objects: Vec<Value> = serde_saphyr::from_multiple(text).expect("valid YAML");
        for object in &objects {
            create(&mut access, object);
        }
    }
    create(&mut access, &queue(script.queue_gpus));
    create(&mut access, &permissive_policy());
    server
}

fn create(access: &mut Access<'_>, object: &Value) {
    let created = access.create(object);
    created.unwrap_or_else(|status| panic!("{object} is refused: {status}"));
}

fn node(name: &str, gpus: u32) -> Value {
    let capacity = json!({"cpu": "96", "memory": "1Ti", "pods": "110",
        "ephemeral-storage": "1Ti", "nvidia.com/gpu": gpus.to_string()});
    let now = start_time().to_string();
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": capacity.clone(), "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
                "lastHeartbeatTime": now, "lastTransitionTime": now}],
        },
    })
}

fn queue(gpus: Option<u32>) -> Value {
    let mut queue = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": "default"},
        "spec": {"namespaceSelector": {}, "defaultFor": {}},
    });
    if let Some(gpus) = gpus {
        let flavor = json!({"name": "default", "resources": [
            {"name": "cpu", "nominalQuota": 1000},
            {"name": "memory", "nominalQuota": "1000Gi"},
            {"name": "nvidia.com/gpu", "nominalQuota": gpus},
        ]});
        queue["spec"]["resourceGroups"] = json!([{
            "coveredResources": ["cpu", "memory", "nvidia.com/gpu"], "flavors": [flavor],
        }]);
    }
    queue
}

fn namespace_object(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn permissive_policy() -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "ClusterJobPolicy",
        "metadata": {"name": "simulation"},
        "spec": {"cedar": "permit(principal, action, resource);"},
    })
}
