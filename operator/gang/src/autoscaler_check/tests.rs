use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::observed::SlimNode;

/// A flavor with a taint and at most 16 nodes of 8 GPUs each.
fn flavor(labels: &Value) -> ResourceFlavorSpec {
    serde_json::from_value(json!({
        "nodeLabels": labels,
        "nodeTaints": [{"key": "team", "value": "a", "effect": "NoSchedule"}],
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "provisioning": {
            "by": "Placeholders", "maxNodes": 16,
            "node": {"allocatable": {"cpu": "96", "nvidia.com/gpu": "8"}},
        },
    }))
    .unwrap()
}

fn flavor_of_pool() -> ResourceFlavorSpec {
    flavor(&json!({NODE_POOL_LABEL: "h100"}))
}

fn requested(mut flavor: ResourceFlavorSpec) -> ResourceFlavorSpec {
    let class =
        json!({"provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io"});
    let mut provisioning = serde_json::to_value(&flavor.provisioning).unwrap();
    provisioning["by"] = json!("ProvisioningRequest");
    provisioning["provisioningRequest"] = class;
    flavor.provisioning = serde_json::from_value(provisioning).unwrap();
    flavor
}

/// A NodePool without problems.
fn suitable_pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "h100"},
        "spec": {
            "template": {
                "metadata": {"labels": {"pool": "train"}},
                "spec": {
                    "expireAfter": "720h",
                    "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}],
                    "startupTaints": [{"key": "gpu-driver", "effect": "NoSchedule"}],
                    "requirements": [{"key": "tier", "operator": "In", "values": ["gold", "silver"]}],
                },
            },
            "disruption": {"consolidateAfter": "1m"},
            "limits": {"nvidia.com/gpu": "128"},
        },
        "status": {"conditions": []},
    })
}

fn with_pools(pools: &[Value]) -> Autoscalers {
    let pools = pools.iter();
    Autoscalers {
        node_pools: pools
            .map(|pool| serde_json::from_value(pool.clone()).unwrap())
            .collect(),
        ..Autoscalers::default()
    }
}

fn with_flags(flags: &[&str]) -> Autoscalers {
    let pod =
        json!({"containers": [{"name": "ca", "command": ["./cluster-autoscaler"], "args": flags}]});
    let flags = ClusterAutoscalerFlags::read(&serde_json::from_value(pod).unwrap());
    Autoscalers {
        cluster_autoscaler: ClusterAutoscaler::Visible(flags),
        ..Autoscalers::default()
    }
}

fn verdict(flavor: &ResourceFlavorSpec, autoscalers: &Autoscalers) -> AutoscalerVerdict {
    check_flavor(flavor, autoscalers, &TaintsOfNewNodes::default()).unwrap()
}

#[track_caller]
fn assert_problem(flavor: &ResourceFlavorSpec, autoscalers: &Autoscalers, expected: &str) {
    let verdict = verdict(flavor, autoscalers);
    assert_eq!(
        verdict,
        AutoscalerVerdict::Unsuitable(vec![expected.to_owned()])
    );
}

/// Asserts that the NodePool has one problem after a change of the field below `spec`.
#[track_caller]
fn assert_pool_problem(object: &str, field: &str, value: Value, expected: &str) {
    let mut pool = suitable_pool();
    pool["spec"].pointer_mut(object).unwrap()[field] = value;
    assert_problem(&flavor_of_pool(), &with_pools(&[pool]), expected);
}

#[test]
fn suitable_pool_has_no_problem() {
    let verdict = verdict(&flavor_of_pool(), &with_pools(&[suitable_pool()]));
    assert_eq!(verdict, AutoscalerVerdict::Suitable);
}

#[test]
fn flavor_without_new_nodes_is_not_checked() {
    let mut flavor = flavor_of_pool();
    flavor.provisioning = None;
    let checked = check_flavor(&flavor, &with_pools(&[]), &TaintsOfNewNodes::default());
    assert_eq!(checked, None);
}

#[test]
fn flavor_with_provisioning_requests_is_unsuitable_without_their_kind() {
    let autoscalers = Autoscalers {
        lacks_requests: true,
        ..with_flags(&["--enable-provisioning-requests"])
    };
    let mut flavor = flavor(&json!({"pool": "train"}));
    assert_eq!(verdict(&flavor, &autoscalers), AutoscalerVerdict::Suitable);
    flavor.provisioning.as_mut().unwrap().by = ProvisioningMethod::ProvisioningRequest;
    let problem = "the cluster has no kind ProvisioningRequest: install its CRD, and use a Cluster \
                   Autoscaler that reads it";
    assert_problem(&flavor, &autoscalers, problem);

    // A NodePool of Karpenter has another problem.
    let mut pooled = flavor_of_pool();
    pooled.provisioning.as_mut().unwrap().by = ProvisioningMethod::ProvisioningRequest;
    let autoscalers = Autoscalers {
        lacks_requests: true,
        ..with_pools(&[suitable_pool()])
    };
    let AutoscalerVerdict::Unsuitable(problems) = verdict(&pooled, &autoscalers) else {
        panic!()
    };
    assert!(problems[0].contains("Placeholders"), "{problems:?}");
}

#[test]
fn termination_grace_period_is_a_problem_for_running_gangs() {
    assert_pool_problem(
        "/template/spec",
        "terminationGracePeriod",
        json!("1h"),
        "NodePool \"h100\" has terminationGracePeriod 1h: Karpenter removes nodes that are 720h old \
         (expireAfter) or drift even if a gang runs on them; unset terminationGracePeriod",
    );
    let mut pool = suitable_pool();
    pool["spec"]["template"]["spec"]["terminationGracePeriod"] = json!("1h");
    pool["spec"]["template"]["spec"]["expireAfter"] = json!("Never");
    assert_problem(
        &flavor_of_pool(),
        &with_pools(&[pool]),
        "NodePool \"h100\" has terminationGracePeriod 1h: Karpenter removes nodes that drift even \
         if a gang runs on them; unset terminationGracePeriod",
    );
}

#[test]
fn early_consolidation_is_a_problem() {
    assert_pool_problem(
        "/disruption",
        "consolidateAfter",
        json!("29s"),
        "NodePool \"h100\" has consolidateAfter 29s: Karpenter may remove new nodes just before \
         the gang starts; set it to 1m or more",
    );
    // The default.
    assert_pool_problem(
        "",
        "disruption",
        json!({}),
        "NodePool \"h100\" has consolidateAfter 0s: Karpenter may remove new nodes just before \
         the gang starts; set it to 1m or more",
    );
    for safe in ["30s", "1h30m", "Never"] {
        let mut pool = suitable_pool();
        pool["spec"]["disruption"]["consolidateAfter"] = json!(safe);
        let verdict = verdict(&flavor_of_pool(), &with_pools(&[pool]));
        assert_eq!(verdict, AutoscalerVerdict::Suitable, "{safe}");
    }
}

#[test]
fn limit_below_max_nodes_is_a_problem() {
    assert_pool_problem(
        "",
        "limits",
        json!({"nvidia.com/gpu": "100", "cpu": "10k", "pods": "1"}),
        "NodePool \"h100\" has limit nvidia.com/gpu=100, enough for 12 nodes: a larger gang gets \
         only some of its nodes; lower maxNodes of the flavor from 16 to 12",
    );
}

#[test]
fn taint_that_the_flavor_lacks_is_a_problem() {
    let own = json!({"key": "team", "value": "a", "effect": "NoSchedule"});
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    assert_pool_problem(
        "/template/spec",
        "taints",
        json!([own, taint("other", "NoExecute")]),
        "NodePool \"h100\" has the taint \"other:NoExecute\": Karpenter adds no nodes for jobs \
         that do not tolerate it; add it to nodeTaints of the flavor",
    );
    for tolerated in [
        taint("spot", "NoExecute"),
        taint("trellis.dev/dedicated", "NoSchedule"),
        taint("nvidia.com/gpu", "NoSchedule"),
        taint("other", "PreferNoSchedule"),
    ] {
        let mut pool = suitable_pool();
        pool["spec"]["template"]["spec"]["taints"] = json!([own, tolerated]);
        let verdict = verdict(&flavor_of_pool(), &with_pools(&[pool]));
        assert_eq!(verdict, AutoscalerVerdict::Suitable, "{tolerated}");
    }
}

#[test]
fn taint_that_the_pool_lacks_is_a_problem() {
    assert_pool_problem(
        "/template/spec",
        "taints",
        json!([{"key": "team", "value": "b", "effect": "PreferNoSchedule"}]),
        "NodePool \"h100\" lacks the taint \"team=a:NoSchedule\" of the flavor: other pods may take \
         the new nodes; add it to the NodePool",
    );
}

#[test]
fn pool_that_is_not_ready_is_a_problem() {
    let mut pool = suitable_pool();
    let mut condition = json!({"type": "Ready", "status": "False", "reason": "R", "message": "no NodeClass",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    pool["status"]["conditions"] = json!([condition]);
    assert_problem(
        &flavor_of_pool(),
        &with_pools(&[pool.clone()]),
        "NodePool \"h100\" is not ready, and gets no nodes: no NodeClass",
    );
    condition["status"] = json!("Unknown");
    pool["status"]["conditions"] = json!([condition]);
    let verdict = verdict(&flavor_of_pool(), &with_pools(&[pool]));
    assert_eq!(verdict, AutoscalerVerdict::Suitable);
}

#[test]
fn provisioning_request_for_a_node_pool_is_a_problem() {
    assert_problem(
        &requested(flavor_of_pool()),
        &with_pools(&[suitable_pool()]),
        "NodePool \"h100\" gets no nodes: Karpenter reads no ProvisioningRequests; use by: Placeholders",
    );
}

#[test]
fn missing_node_pool_is_a_problem() {
    let missing = "NodePool \"h100\" does not exist, or lacks a label of the flavor";
    assert_problem(&flavor_of_pool(), &with_pools(&[]), missing);
    let other_label = flavor(&json!({NODE_POOL_LABEL: "h100", "pool": "serve"}));
    assert_problem(&other_label, &with_pools(&[suitable_pool()]), missing);
}

#[test]
fn pool_is_found_by_labels_and_requirements() {
    for (labels, is_found) in [
        (json!({"pool": "train"}), true),
        (json!({"pool": "train", "tier": "gold"}), true),
        (json!({"tier": "bronze"}), false),
        (json!({"unknown": "a"}), false),
        // The NodePool does not restrict the instances.
        (json!({"node.kubernetes.io/instance-type": "large"}), true),
        (json!({}), true),
    ] {
        let verdict = verdict(&flavor(&labels), &with_pools(&[suitable_pool()]));
        let suitable = verdict == AutoscalerVerdict::Suitable;
        assert_eq!(suitable, is_found, "{labels}: {verdict:?}");
    }
    let mut pool = suitable_pool();
    pool["spec"]["template"]["spec"]["requirements"] = json!([
        {"key": "tier", "operator": "Exists"},
        {"key": "tier", "operator": "NotIn", "values": ["bronze"]},
    ]);
    let pools = with_pools(&[pool]);
    for (tier, is_found) in [("gold", true), ("bronze", false)] {
        let verdict = verdict(&flavor(&json!({"tier": tier})), &pools);
        assert_eq!(verdict == AutoscalerVerdict::Suitable, is_found, "{tier}");
    }
}

#[test]
fn flags_that_hide_placeholders_are_problems() {
    let flavor = flavor(&json!({"pool": "train"}));
    assert_problem(
        &flavor,
        &with_flags(&["--allowed-scheduler-names=default-scheduler,other"]),
        "Cluster Autoscaler ignores placeholders: add trellis.dev-placeholder to \
         --allowed-scheduler-names",
    );
    assert_problem(
        &flavor,
        &with_flags(&["--expendable-pods-priority-cutoff", "1"]),
        "Cluster Autoscaler has --expendable-pods-priority-cutoff=1: it ignores placeholders, whose \
         priority is 0; set it to 0 or less",
    );
    for flags in [
        &[][..],
        &[
            "--allowed-scheduler-names=a",
            "--allowed-scheduler-names=b,trellis.dev-placeholder",
        ],
        &[
            "--expendable-pods-priority-cutoff=-10",
            "--expendable-pods-priority-cutoff-x=1",
        ],
    ] {
        let verdict = verdict(&flavor, &with_flags(flags));
        assert_eq!(verdict, AutoscalerVerdict::Suitable, "{flags:?}");
    }
}

#[test]
fn requests_without_their_flag_are_a_problem() {
    let flavor = requested(flavor(&json!({"pool": "train"})));
    let problem = "Cluster Autoscaler reads no ProvisioningRequests: start it with \
                   --enable-provisioning-requests";
    for flags in [&[][..], &["--enable-provisioning-requests=false"]] {
        assert_problem(&flavor, &with_flags(flags), problem);
    }
    for flags in [
        &["--enable-provisioning-requests=true"][..],
        &["-enable-provisioning-requests", "--v=4"],
        // Flags that matter to placeholders alone.
        &[
            "--enable-provisioning-requests",
            "--expendable-pods-priority-cutoff=1",
        ],
    ] {
        let verdict = verdict(&flavor, &with_flags(flags));
        assert_eq!(verdict, AutoscalerVerdict::Suitable, "{flags:?}");
    }
}

#[test]
fn early_removal_is_a_problem_if_both_times_are_short() {
    let flavor = flavor(&json!({"pool": "train"}));
    let short = [
        "--scale-down-unneeded-time=20s",
        "--scale-down-delay-after-add=0s",
    ];
    assert_problem(
        &flavor,
        &with_flags(&short),
        "Cluster Autoscaler has --scale-down-unneeded-time=20s and --scale-down-delay-after-add=0s: \
         it may remove new nodes just before the gang starts; set one of them to 1m or more",
    );
    for flag in short {
        let verdict = verdict(&flavor, &with_flags(&[flag]));
        assert_eq!(verdict, AutoscalerVerdict::Suitable, "{flag}");
    }
}

#[test]
fn autoscaler_without_visible_settings_is_unknown() {
    let flavor = flavor(&json!({"pool": "train"}));
    let mut autoscalers = Autoscalers::default();
    for cluster_autoscaler in [ClusterAutoscaler::Absent, ClusterAutoscaler::Hidden] {
        autoscalers.cluster_autoscaler = cluster_autoscaler;
        let verdict = verdict(&flavor, &autoscalers);
        assert!(
            matches!(verdict, AutoscalerVerdict::Unknown(_)),
            "{verdict:?}"
        );
    }
}

/// A node of NodePool `h100`, or of a node group, that is 60 s old at [`now`].
fn node(name: &str, labels: Value, taint: &str) -> SlimNode {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"taints": [{"key": taint, "value": "x", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }))
    .unwrap()
}

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().unwrap()
}

#[test]
fn taint_of_a_new_karpenter_node_must_be_listed() {
    let flavor = flavor_of_pool();
    let pools = with_pools(&[suitable_pool()]);
    let of_pool = json!({NODE_POOL_LABEL: "h100"});
    let initialized = json!({NODE_POOL_LABEL: "h100", "karpenter.sh/initialized": "true"});
    let mut taints = TaintsOfNewNodes::default();
    let nodes = [
        node("listed", of_pool.clone(), "gpu-driver"),
        node("expected", of_pool.clone(), "node.kubernetes.io/not-ready"),
        node("tolerated", of_pool.clone(), "spot"),
        node("old", initialized, "maintenance"),
        node("other", json!({NODE_POOL_LABEL: "a100"}), "maintenance"),
    ];
    taints.observe(&flavor, &nodes, now());
    let verdict = check_flavor(&flavor, &pools, &taints);
    assert_eq!(verdict, Some(AutoscalerVerdict::Suitable));

    taints.observe(&flavor, &[node("n-1", of_pool.clone(), "network")], now());
    taints.observe(&flavor, &[node("n-2", of_pool, "network")], now());
    let problem = "NodePool \"h100\" does not list the taint \"network=x:NoSchedule\" of new node \
                   \"n-1\": while the taint exists, Karpenter buys another node; add it to \
                   startupTaints";
    let expected = AutoscalerVerdict::Unsuitable(vec![problem.to_owned()]);
    assert_eq!(check_flavor(&flavor, &pools, &taints), Some(expected));

    // A week after the last node, the problem is forgotten.
    let mut forgotten = taints.clone();
    forgotten.observe(&flavor, &[], now() + SignedDuration::from_hours(7 * 24 - 1));
    assert_eq!(forgotten, taints);
    forgotten.observe(&flavor, &[], now() + SignedDuration::from_hours(7 * 24));
    assert_eq!(forgotten, TaintsOfNewNodes::default());

    // The NodePool lists the taint now.
    let mut pool = suitable_pool();
    let listed = pool["spec"]["template"]["spec"]["startupTaints"].as_array_mut();
    listed
        .unwrap()
        .push(json!({"key": "network", "effect": "NoSchedule"}));
    let verdict = check_flavor(&flavor, &with_pools(&[pool]), &taints);
    assert_eq!(verdict, Some(AutoscalerVerdict::Suitable));
}

#[test]
fn taint_of_a_new_node_must_be_a_flag_of_cluster_autoscaler() {
    let flavor = flavor(&json!({"pool": "train"}));
    let labels = json!({"pool": "train"});
    let late = now() + SignedDuration::from_mins(5);
    let mut taints = TaintsOfNewNodes::default();
    taints.observe(&flavor, &[node("old", labels.clone(), "network")], late);
    let mut unready = node("unready", labels.clone(), "network");
    unready.status.conditions.clear();
    taints.observe(&flavor, &[unready], now());
    assert_eq!(taints, TaintsOfNewNodes::default());

    taints.observe(&flavor, &[node("new", labels, "network")], now());
    let problem = "Cluster Autoscaler does not know the taint \"network=x:NoSchedule\" of new node \
                   \"new\": while the taint exists, Cluster Autoscaler buys another node; add \
                   --startup-taint=network";
    let expected = AutoscalerVerdict::Unsuitable(vec![problem.to_owned()]);
    let verdict = check_flavor(&flavor, &with_flags(&[]), &taints);
    assert_eq!(verdict, Some(expected));
    let verdict = check_flavor(&flavor, &with_flags(&["--startup-taint=network"]), &taints);
    assert_eq!(verdict, Some(AutoscalerVerdict::Suitable));
}
