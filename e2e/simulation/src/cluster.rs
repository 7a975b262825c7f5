//! The cluster before the first act: an API server with the kinds of Trellis, nodes, queues, a
//! PriorityClass and the policies of a fresh install.

use jiff::Timestamp;
use serde_json::{Value, json};
use trellis_api_server::{ApiServer, Kind, KindRef};

use crate::access::{Access, Target};
use crate::admission;
use crate::script::{AutoscalerScript, QueueScript, Script};

pub(crate) static NODES: KindRef = KindRef::new("", "nodes");
pub(crate) static PODS: KindRef = KindRef::new("", "pods");
pub(crate) static TRAINING_JOBS: KindRef = KindRef::new("trellis.dev", "trainingjobs");
pub(crate) static POD_GROUPS: KindRef = KindRef::new("trellis.dev", "podgroups");
pub(crate) static LEASES: KindRef = KindRef::new("coordination.k8s.io", "leases");
pub(crate) static LEADER_TERMS: KindRef = KindRef::new("trellis.dev", "leaderterms");

pub(crate) static TRAINING_QUEUES: KindRef = KindRef::new("trellis.dev", "trainingqueues");

/// The label by which NVSentinel marks a node as broken.
pub const HEALTH_LABEL: &str = "dgxc.nvidia.com/nvsentinel-state";
/// Name of the PriorityClass above normal.
pub(crate) const HIGH_PRIORITY: &str = "high";
/// The level of racks, and the label of nodes for it.
pub(crate) const RACK: &str = "rack";
/// The queue above all others, if there are several.
const PARENT_QUEUE: &str = "all";
/// The queue that [`Act::AddQueue`](crate::script::Act::AddQueue) adds.
const UNUSED_QUEUE: &str = "unused";
/// The flavor of all quota.
const FLAVOR: &str = "default";
/// The resource of GPUs.
pub(crate) const GPUS: &str = "nvidia.com/gpu";
/// Namespace of the operator.
pub(crate) const OPERATOR_NAMESPACE: &str = "trellis-system";
/// Namespace of the pods that ask an autoscaler for nodes.
pub(crate) const PLACEHOLDER_NAMESPACE: &str = "trellis-capacity";
/// Namespace of the jobs.
pub(crate) const JOB_NAMESPACE: &str = "team-a";

/// The time of day at the begin of a run.
pub(crate) fn start_time() -> Timestamp {
    Timestamp::from_second(1_767_600_000).expect("a time in January 2026")
}

pub(crate) fn node_name(index: usize) -> String {
    format!("node-{index}")
}

pub(crate) fn queue_name(index: usize) -> String {
    format!("queue-{index}")
}

/// Starts an API server, and creates the objects.
pub(crate) fn new_server(script: &Script, now: Timestamp) -> ApiServer {
    let kinds = Kind::with_crds(trellis_api::crds::all()).expect("valid CRDs");
    let mut server = ApiServer::new(kinds);
    if !script.lacks_leader_policy {
        server.add_admission(admission::refuse_stale_leaders);
    }
    server.add_admission(admission::refuse_lower_epochs);
    let mut access = Access::new(&mut server, "admin", now);
    for namespace in [OPERATOR_NAMESPACE, JOB_NAMESPACE, "default"] {
        create(&mut access, &namespace_object(namespace));
    }
    for (index, gpus) in script.nodes.iter().enumerate() {
        let name = node_name(index);
        let mut node = node(&name, *gpus);
        if let Some(rack) = index.checked_div(script.rack_nodes) {
            node["metadata"]["labels"][RACK] = json!(format!("rack-{rack}"));
        }
        create(&mut access, &node);
        // The node lifecycle controller removes the taint of a new node when it is ready.
        let target = Target::cluster_wide("api/v1", "nodes", &name);
        let ready = access.patch(&target, &json!({"spec": {"taints": null}}));
        ready.expect("the node exists");
    }
    if script.rack_nodes > 0 {
        create(&mut access, &topology());
    }
    // The operator checks that the policies are there. The API server does not evaluate them.
    let policies = [
        include_str!("../../../charts/trellis/files/admission.yaml"),
        include_str!("../../../charts/trellis/files/requester-policy.yaml"),
        include_str!("../../../charts/trellis/files/admission-leader.yaml"),
    ];
    let installed = match script.lacks_leader_policy {
        true => &policies[..2],
        false => &policies,
    };
    let placeholders = include_str!("../../../charts/trellis/files/placeholders.yaml");
    let placeholders = script.autoscaler.is_some().then_some(placeholders);
    for text in installed.iter().copied().chain(placeholders) {
        let objects: Vec<Value> = serde_saphyr::from_multiple(text).expect("valid YAML");
        for object in &objects {
            create(&mut access, object);
        }
    }
    if let Some(autoscaler) = &script.autoscaler {
        create(&mut access, &flavor(autoscaler));
    }
    let has_parent = script.queues.len() > 1;
    if has_parent {
        create(&mut access, &queue_object(PARENT_QUEUE, json!({})));
    }
    for (index, queue) in script.queues.iter().enumerate() {
        let parent = has_parent.then_some(PARENT_QUEUE);
        let mut spec = queue_spec(queue, parent, quota);
        spec["namespaceSelector"] = json!({});
        if let Some(autoscaler) = &script.autoscaler {
            spec["provisioning"] = queue_provisioning(autoscaler, has_parent);
        }
        if index == 0 {
            spec["defaultFor"] = json!({});
        }
        create(&mut access, &queue_object(&queue_name(index), spec));
    }
    create(
        &mut access,
        &json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": HIGH_PRIORITY}, "value": 100,
        }),
    );
    create(&mut access, &permissive_policy());
    server
}

fn create(access: &mut Access<'_>, object: &Value) {
    let created = access.create(object);
    created.unwrap_or_else(|status| panic!("{object} is refused: {status}"));
}

fn topology() -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "Topology",
        "metadata": {"name": "network"},
        "spec": {"levels": [{"name": RACK, "nodeLabel": RACK}]},
    })
}

pub(crate) fn node(name: &str, gpus: u32) -> Value {
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

/// Returns the flavor whose nodes the autoscaler adds. It contains all nodes.
fn flavor(autoscaler: &AutoscalerScript) -> Value {
    let allocatable = json!({"cpu": 96, "memory": "1Ti", GPUS: autoscaler.gpus});
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "ResourceFlavor",
        "metadata": {"name": FLAVOR},
        "spec": {"provisioning": {
            "by": "Placeholders",
            "node": {"allocatable": allocatable},
            "maxNodes": autoscaler.max_nodes,
            "timeoutSeconds": autoscaler.timeout_seconds,
            "idleSeconds": autoscaler.idle_seconds,
        }},
    })
}

fn queue_provisioning(autoscaler: &AutoscalerScript, lends: bool) -> Value {
    json!({
        "order": if lends { "Borrowing" } else { "Nominal" },
        "afterSeconds": autoscaler.after_seconds,
        "when": if autoscaler.preempts_first { "AfterPreemption" } else { "BeforePreemption" },
    })
}

/// Returns a queue that no job uses.
pub(crate) fn unused_queue() -> Value {
    queue_object(UNUSED_QUEUE, json!({"resourceGroups": quota(0)}))
}

fn queue_object(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// Returns the spec of a queue below a parent, without its namespaces. `quota` makes the resource
/// groups of a number of GPUs.
pub fn queue_spec(
    queue: &QueueScript,
    parent: Option<&str>,
    quota: impl Fn(u32) -> Value,
) -> Value {
    let mut spec = json!({});
    if let Some(parent) = parent {
        spec["parentName"] = json!(parent);
    }
    if queue.preempts {
        spec["preemption"] = json!({
            "withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any",
        });
    }
    if let Some(gpus) = queue.gpus {
        spec["resourceGroups"] = quota(gpus);
    }
    spec
}

/// Returns the quota of a queue.
pub(crate) fn quota(gpus: u32) -> Value {
    let flavor = json!({"name": FLAVOR, "resources": [
        {"name": "cpu", "nominalQuota": 1000},
        {"name": "memory", "nominalQuota": "1000Gi"},
        {"name": GPUS, "nominalQuota": gpus},
    ]});
    json!([{"coveredResources": ["cpu", "memory", GPUS], "flavors": [flavor]}])
}

/// Returns the GPUs of the quotas of all queues for jobs together. None: none has quota.
pub(crate) fn total_quota(server: &ApiServer) -> Option<u64> {
    let queues = server.list(&TRAINING_QUEUES);
    let queues = queues.filter(|queue| queue.name() != UNUSED_QUEUE);
    let quotas = queues.filter_map(|queue| {
        let resources = &queue.value()["spec"]["resourceGroups"][0]["flavors"][0]["resources"];
        let mut resources = resources.as_array()?.iter();
        let gpus = resources.find(|resource| resource["name"] == GPUS)?;
        gpus["nominalQuota"].as_u64()
    });
    quotas.reduce(|sum, quota| sum + quota)
}

/// Writes that a node answers, or that it does not.
pub(crate) fn set_node_ready(node: usize, is_ready: bool, access: &mut Access<'_>) {
    let target = Target::cluster_wide("api/v1", "nodes", &node_name(node));
    let (status, reason) = match is_ready {
        true => ("True", "KubeletReady"),
        false => ("Unknown", "NodeStatusUnknown"),
    };
    let now = access.now().to_string();
    let conditions = json!([{"type": "Ready", "status": status, "reason": reason,
        "lastHeartbeatTime": now, "lastTransitionTime": now}]);
    access.patch_status(&target, &json!({"conditions": conditions}));
    let taint = |effect: &str| json!({"key": "node.kubernetes.io/unreachable", "effect": effect});
    let taints = match is_ready {
        true => Value::Null,
        false => json!([taint("NoSchedule"), taint("NoExecute")]),
    };
    let patched = access.patch(&target, &json!({"spec": {"taints": taints}}));
    patched.expect("the node exists");
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
