//! Validation of queues, flavors, topologies and policies by the API server.

use std::fmt::Debug;

use garde::Validate;
use kube::api::PostParams;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use trellis_api::{ClusterJobPolicy, ResourceFlavor, Topology, TrainingQueue};

use crate::shared_control_plane;

/// The table of kubectl shows the labels of the first and the last level instead of a JSON list.
#[tokio::test]
async fn topology_table_shows_the_coarsest_and_finest_level() {
    let control_plane = shared_control_plane().await;
    let site = crate::create_site("columns", 0).await;
    let name = site.name();
    let label = |level: &str| format!("{name}.example/{level}");
    let levels = json!([
        {"name": "block", "nodeLabel": label("block")},
        {"nodeLabel": label("row")},
        {"nodeLabel": label("rack")},
    ]);
    let mut topology: Topology = object_with_spec(&json!({"levels": levels}));
    topology.metadata.name = Some(name.to_owned());
    let api: Api<Topology> = Api::all(control_plane.client());
    api.create(&PostParams::default(), &topology).await.unwrap();
    let table = control_plane.kubectl_ok(&["get", "ttopo", name]).await;
    let table = table.unwrap();
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["NAME", "COARSEST", "FINEST", "AGE"], "{table}");
    assert_eq!(
        lines[1][..3],
        [name, &label("block"), &label("rack")],
        "{table}"
    );
}

/// Creates an object of this spec without storing it.
async fn dry_run_create<K>(spec: &Value) -> Result<(), String>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let api: Api<K> = Api::all(shared_control_plane().await.client());
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let created = api.create(&dry_run, &object_with_spec(spec)).await;
    created.map(drop).map_err(|error| error.to_string())
}

fn object_with_spec<K: Resource<DynamicType = ()> + DeserializeOwned>(spec: &Value) -> K {
    let object = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": {"name": "tried"}, "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

/// Checks that the API server and the library refuse each spec with this message.
async fn check_refused<K>(cases: &[(Value, &str)])
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    K: Validate<Context = ()>,
{
    for (spec, words) in cases {
        let error = dry_run_create::<K>(spec)
            .await
            .expect_err(&spec.to_string());
        assert!(error.contains(words), "{spec}: {error}");
        let library_error = object_with_spec::<K>(spec)
            .validate()
            .expect_err(words)
            .to_string();
        assert!(library_error.contains(words), "{spec}: {library_error}");
    }
}

/// Checks that the API server and the library accept each spec.
async fn check_accepted<K>(specs: &[Value])
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    K: Validate<Context = ()>,
{
    for spec in specs {
        dry_run_create::<K>(spec).await.unwrap();
        object_with_spec::<K>(spec).validate().unwrap();
    }
}

#[tokio::test]
async fn queue_with_invalid_preemption_or_backfill_is_refused() {
    let preemption = |policy: Value| json!({"preemption": policy});
    let year = "must be 1 to 31536000 seconds (a year)";
    let week = "must be 0 to 604800 seconds (a week)";
    let needs_reclaim = "needs reclaimWithinCohort LowerPriority or Any";
    check_refused::<TrainingQueue>(&[
        (json!({"defaultRuntimeSeconds": 0}), year),
        (json!({"defaultRuntimeSeconds": 31_536_001}), year),
        (json!({"maxMinRuntimeSeconds": -1}), week),
        (json!({"maxMinRuntimeSeconds": 604_801}), week),
        (
            preemption(json!({"borrowWithinCohort": {"policy": "LowerPriority"}})),
            needs_reclaim,
        ),
        (
            preemption(json!({"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}})),
            needs_reclaim,
        ),
        (
            preemption(json!({"reclaimWithinCohort": "Any", "borrowWithinCohort": {"maxPriorityThreshold": 1}})),
            "maxPriorityThreshold needs policy LowerPriority",
        ),
        (
            preemption(json!({"borrowWithinCohort": {"policy": "Never", "maxPriorityThreshold": 1}})),
            "maxPriorityThreshold needs policy LowerPriority",
        ),
        (
            preemption(json!({
                "reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"},
                "fairShare": "Any",
            })),
            "fairShare and borrowWithinCohort exclude each other",
        ),
    ])
    .await;
    check_accepted::<TrainingQueue>(&[
        json!({"preemption": {}, "backfillPolicy": "Never", "stopPolicy": "HoldAndDrain"}),
        json!({"defaultRuntimeSeconds": 1, "maxMinRuntimeSeconds": 0}),
        preemption(json!({
            "withinClusterQueue": "LowerOrNewerEqualPriority", "reclaimWithinCohort": "LowerPriority",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": -5},
        })),
        preemption(json!({"borrowWithinCohort": {"policy": "Never"}})),
        preemption(json!({"borrowWithinCohort": {"policy": "Never"}, "fairShare": "LowerOrEqualPriority"})),
        preemption(json!({
            "reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"},
            "fairShare": "Never",
        })),
        json!({"priority": -3, "flavorPolicy": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "Preempt"}}),
    ])
    .await;
}

#[tokio::test]
async fn fair_sharing_weight_is_a_quantity_as_in_kueue() {
    let with_weight = |weight: Value| json!({"weight": weight});
    let words = "must be a weight of 0 to 1000";
    check_refused::<TrainingQueue>(&[
        (with_weight(json!(-1)), words),
        (with_weight(json!(1001)), words),
        (with_weight(json!("2k")), words),
    ])
    .await;
    let weights = [json!(0), json!(2), json!("0.5"), json!("1k")];
    check_accepted::<TrainingQueue>(&weights.map(with_weight)).await;
}

/// The blocks come from Kueue's documentation, with all their fields.
#[tokio::test]
async fn queue_accepts_unchanged_blocks_of_a_kueue_cluster_queue() {
    let blocks: Value = serde_saphyr::from_str(include_str!("cluster-queue-blocks.yaml")).unwrap();
    check_accepted::<TrainingQueue>(&[blocks]).await;
}

#[tokio::test]
async fn flavor_with_an_invalid_toleration_is_refused() {
    let toleration = |of: Value| json!({"tolerations": [of]});
    let words = "without key, operator must be Exists";
    check_refused::<ResourceFlavor>(&[
        (toleration(json!({"value": "x"})), words),
        (
            toleration(json!({"key": "spot", "operator": "Exists", "value": "x"})),
            words,
        ),
        (
            toleration(json!({"key": "spot", "tolerationSeconds": 5})),
            words,
        ),
    ])
    .await;
    let spot_toleration = json!({"key": "spot", "operator": "Exists"});
    check_accepted::<ResourceFlavor>(&[toleration(spot_toleration.clone())]).await;
    let nine = json!({"tolerations": vec![spot_toleration; 9]});
    let error = dry_run_create::<ResourceFlavor>(&nine).await.unwrap_err();
    assert!(error.contains("at most 8 items"), "{error}");
    assert!(
        object_with_spec::<ResourceFlavor>(&nine)
            .validate()
            .is_err()
    );
}

#[tokio::test]
async fn flavor_needs_the_fields_of_its_provisioning_method_alone() {
    let with = |by: &str, fields: Value| {
        let node = json!({"allocatable": {"nvidia.com/gpu": 8}});
        let mut provisioning = json!({"by": by, "node": node, "maxNodes": 4});
        let fields = fields.as_object().unwrap().clone();
        provisioning.as_object_mut().unwrap().extend(fields);
        json!({"provisioning": provisioning})
    };
    let class = |name: &str| json!({"provisioningRequest": {"provisioningClassName": name}});
    let atomic = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
    let words = "by ProvisioningRequest needs provisioningRequest";
    let name = "must be the name of a class";
    check_refused::<ResourceFlavor>(&[
        (with("ProvisioningRequest", json!({})), words),
        (with("Placeholders", class(atomic)), words),
        (with("ProvisioningRequest", class("Atomic")), name),
        (with("ProvisioningRequest", class("a..b")), name),
    ])
    .await;
    check_accepted::<ResourceFlavor>(&[
        with("Placeholders", json!({})),
        with("ProvisioningRequest", class(atomic)),
        with(
            "ProvisioningRequest",
            json!({"provisioningRequest": {
                "provisioningClassName": "queued-provisioning.gke.io",
                "parameters": {"maxRunDurationSeconds": "604800"},
            }}),
        ),
    ])
    .await;
}

#[tokio::test]
async fn topology_levels_need_unique_valid_names_and_labels() {
    let levels = |keys: &[&str]| {
        let keys: Vec<Value> = keys.iter().map(|key| json!({"nodeLabel": key})).collect();
        json!({"levels": keys})
    };
    let named = |keys: &[(&str, &str)]| {
        let level = |(name, key): &(&str, &str)| json!({"name": name, "nodeLabel": key});
        json!({"levels": keys.iter().map(level).collect::<Vec<Value>>()})
    };
    let long = "x".repeat(64);
    check_refused::<Topology>(&[
        (levels(&["rack/"]), "must be the key of a node label"),
        (
            levels(&["zone", "-rack"]),
            "must be the key of a node label",
        ),
        (levels(&[&long]), "must be the key of a node label"),
        (
            named(&[("rack/", "rack")]),
            "must name a level of a Topology",
        ),
        (
            levels(&["zone", "rack", "zone"]),
            "two levels must not have the same nodeLabel: remove one",
        ),
        (
            named(&[("rack", "a"), ("rack", "b")]),
            "two levels must not have the same name (nodeLabel where name is absent)",
        ),
        (
            named(&[("block", "a"), ("rack", "a")]),
            "two levels must not have the same nodeLabel: remove one",
        ),
    ])
    .await;
    let eight = ["a", "b", "c", "d", "e", "f", "g", "h"];
    check_accepted::<Topology>(&[
        levels(&["kubernetes.io/hostname"]),
        levels(&["topology.kubernetes.io/zone", "example.com/Rack_1"]),
        named(&[("block", "example.com/block"), ("rack", "example.com/rack")]),
        levels(&eight),
    ])
    .await;
    // The schema limits the number of items.
    for (wrong, words) in [
        (levels(&[]), "at least 1 item"),
        (
            levels(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]),
            "at most 8 items",
        ),
    ] {
        let error = dry_run_create::<Topology>(&wrong).await.unwrap_err();
        assert!(error.contains(words), "{error}");
        assert!(object_with_spec::<Topology>(&wrong).validate().is_err());
    }
}

#[tokio::test]
async fn policy_needs_a_text_and_valid_test_requests() {
    let policy_with = |request: Value| {
        json!({"cedar": "permit(principal, action, resource);", "tests": [
            {"name": "t", "decision": "Allow", "request": request}]})
    };
    let request =
        |resource: Value| json!({"namespace": "ml", "action": "ConnectTo", "resource": resource});
    let cluster_policies: &[(Value, &str)] = &[
        (json!({"cedar": ""}), "must have 1 to 65536 characters"),
        (
            policy_with(request(json!({"cidr": "10.0.0.0/99"}))),
            "must be a network in CIDR notation",
        ),
        (
            policy_with(request(json!({"service": "s", "ports": [{"port": 0}]}))),
            "must be a port, 1 to 65535",
        ),
        (
            policy_with(request(
                json!({"service": "s", "ports": [{"port": 9, "endPort": 8}]}),
            )),
            "endPort must not be less than port",
        ),
        (
            policy_with(json!({"namespace": "ml", "action": "Submit", "context": {"gpus": -1}})),
            "must be a number from 0",
        ),
        (
            policy_with(json!({"namespace": "-", "action": "Submit"})),
            "must be the name of an object",
        ),
    ];
    check_refused::<ClusterJobPolicy>(cluster_policies).await;
    check_accepted::<ClusterJobPolicy>(&[
        // The API server does not parse Cedar.
        json!({"cedar": "x"}),
        json!({"cedar": "x".repeat(65_536), "enforcement": "Audit", "onViolation": "Evict", "namespaceSelector": {}}),
        policy_with(request(json!({"cidr": "fd00::/8", "ports": [{"port": 1}, {"port": 65_535, "protocol": "UDP"}]}))),
        policy_with(json!({"namespace": "ml", "action": "Submit", "context": {
            "gpus": 8, "requester": {"user": "ada", "groups": ["a"]}, "labels": {"a": "b"}}})),
    ])
    .await;
    let long = json!({"cedar": "x".repeat(65_537)});
    let error = dry_run_create::<ClusterJobPolicy>(&long).await.unwrap_err();
    assert!(error.contains("may not be more than 65536"), "{error}");
    assert!(
        object_with_spec::<ClusterJobPolicy>(&long)
            .validate()
            .is_err()
    );
}
