//! Field validation of jobs: the API server and the library refuse invalid jobs with the same
//! message.

use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::{TrainingJob, ValidatedJob};
use trellis_e2e::binaries::KubernetesVersion;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::message;

use crate::{create_site, shared_control_plane};

/// Returns the message by which the API server refuses the job `bad`. The API server of 1.33 stores
/// a job with a wrong amount, and the operator refuses it.
async fn refusal(site: &TestSite, job: Value) -> String {
    let Err(error) = site.create(job.clone()).await else {
        let version = KubernetesVersion::chosen().unwrap();
        assert_eq!(version, KubernetesVersion::V1_33, "{job} is stored");
        let refused = site.wait_for_phase("bad", JobPhase::Refused).await;
        site.delete::<TrainingJob>("bad").await;
        return message(&refused);
    };
    error.to_string()
}

#[tokio::test]
async fn api_server_refuses_invalid_fields_with_rule_and_fix() {
    let site = create_site("input", 0).await;
    let cases: [(&str, serde_json::Value, &str); 13] = [
        ("/spec/taskGroups/0/replicas", json!(0), "must be 1 to 4096"),
        (
            "/spec/taskGroups/0/replicas",
            json!(-1),
            "must be 1 to 4096",
        ),
        (
            "/spec/taskGroups/0/replicas",
            json!(1_000_000),
            "must be 1 to 4096",
        ),
        (
            "/spec/taskGroups/0/gpus",
            json!(65),
            "must be 0 to 64 whole devices",
        ),
        (
            "/spec/taskGroups/0/resources/limits/cpu",
            json!("-1"),
            "must be an amount of CPU above 0",
        ),
        (
            "/spec/taskGroups/0/resources/limits/cpu",
            json!("9e99"),
            "must be an amount of CPU above 0",
        ),
        (
            "/spec/taskGroups/0/resources/limits/memory",
            json!("1E"),
            "must be an amount of bytes of at least 1Mi",
        ),
        (
            "/spec/taskGroups/0/resources/limits/memory",
            json!(""),
            "must be an amount of bytes of at least 1Mi",
        ),
        (
            "/spec/taskGroups/0/resources/limits/memory",
            json!(64),
            "must be an amount of bytes of at least 1Mi",
        ),
        (
            "/spec/taskGroups/0/name",
            json!("Worker"),
            "must be a DNS label",
        ),
        ("/metadata/name", json!("1job"), "must be a DNS-1035 label"),
        (
            "/spec/restart/backoffSeconds",
            json!(400),
            "must be at most maxBackoffSeconds",
        ),
        (
            "/spec/taskGroups/0/image",
            json!(""),
            "must be the name of an image",
        ),
    ];
    for (path, value, words) in cases {
        let mut spec = site.job("bad", 1, 1);
        *spec.pointer_mut(path).unwrap() = value.clone();
        let error = refusal(&site, spec.clone()).await;
        assert!(error.contains(words), "{path} = {value}: {error}");
        // A rule about several fields names their parent field.
        let (outer, _) = path.rsplit_once('/').unwrap();
        let outer = outer.replace("/0", "[0]").replace('/', ".");
        assert!(error.contains(&outer[1..]), "{path}: {error}");
        assert!(!error.contains("<nil>"), "{path}: {error}");
        // The library has the same message.
        let object: TrainingJob = serde_json::from_value(spec).unwrap();
        let library_error = ValidatedJob::try_from(object).expect_err(path).to_string();
        assert!(
            library_error.contains(words),
            "{path} = {value}: {library_error}"
        );
    }
}

#[tokio::test]
async fn api_server_refuses_contradictory_fields() {
    let site = create_site("whole", 0).await;
    let base = || site.job("bad", 1, 1);
    let group = |name: &str, replicas: u32| {
        let mut group = base()["spec"]["taskGroups"][0].clone();
        group["name"] = json!(name);
        group["replicas"] = json!(replicas);
        group
    };
    let spec_with = |pointer: &str, value: serde_json::Value| {
        let mut spec = base();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        spec.pointer_mut(parent).unwrap()[key] = value;
        spec
    };
    let split_group = |field: &str, value: serde_json::Value| {
        let mut worker = group("worker", 12);
        worker["topology"] = json!({"slices": [{"level": "rack", "pods": 6}]});
        worker[field] = value;
        spec_with("/spec/taskGroups", json!([worker]))
    };
    let sliced = |slices: serde_json::Value| split_group("topology", json!({"slices": slices}));
    let env = |name: &str| {
        spec_with(
            "/spec/taskGroups/0/env",
            json!([{"name": name, "value": "x"}]),
        )
    };
    let restart_rule =
        |rule: serde_json::Value| spec_with("/spec/restart", json!({"rules": [rule]}));
    let cases = [
        (
            spec_with(
                "/spec/taskGroups",
                json!([group("a", 4096), group("b", 4096), group("c", 4096)]),
            ),
            "together must be at most 10000",
        ),
        (
            spec_with("/metadata/name", json!("a".repeat(60))),
            "at most 63 characters",
        ),
        (
            restart_rule(json!({"groups": ["other"], "action": "Fail"})),
            "groups of restart.rules must be names of task groups",
        ),
        (
            restart_rule(json!({"onExitCodes": [1, 0], "action": "Fail"})),
            "must be an exit code of a failure, 1 to 255",
        ),
        (
            restart_rule(json!({"onReasons": ["out of memory"], "action": "Fail"})),
            "must be a reason, one word",
        ),
        (env("PET_NNODES"), "what Trellis sets for PyTorch and"),
        (env("TRELLIS_RANK"), "TRELLIS_* is what Trellis sets"),
        (env("RANK"), "what Trellis sets for PyTorch and"),
        (
            spec_with(
                "/spec/taskGroups/0/mounts",
                json!([{"path": "/etc/trellis/x", "claimName": "c"}]),
            ),
            "/etc/trellis is where",
        ),
        (
            spec_with("/spec/priorityClassName", json!("system-node-critical")),
            "are for the cluster's own parts",
        ),
        (
            spec_with(
                "/spec/podMetadata",
                json!({"labels": {"trellis.dev/job": "other"}}),
            ),
            "are reserved",
        ),
        (
            spec_with(
                "/spec/podMetadata",
                json!({"labels": {"x.kubernetes.io/y": "z"}}),
            ),
            "are reserved",
        ),
        (
            spec_with(
                "/spec/taskGroups/0/resources/limits",
                json!({"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 1}),
            ),
            "set gpus",
        ),
        (
            spec_with(
                "/spec/taskGroups/0/resources/limits",
                json!({"cpu": 1, "memory": "1Gi", "rdma/hca": "0.5"}),
            ),
            "a whole number of 0 to 1024",
        ),
        (
            spec_with("/spec/taskGroups/0/mounts", json!([{"path": "/data"}])),
            "exactly one of claim",
        ),
        (
            spec_with(
                "/spec/taskGroups/0/mounts",
                json!([{"path": "/a/../b", "claimName": "c"}]),
            ),
            "without .. in it",
        ),
        (
            spec_with(
                "/spec/taskGroups/0/mounts",
                json!([{"path": "/d", "claimName": "c"}, {"path": "/d", "claimName": "e"}]),
            ),
            "mounts must have different paths",
        ),
        (
            spec_with(
                "/spec/network",
                json!({"egress": [{"cidr": "10.0.0.0/33"}]}),
            ),
            "CIDR notation",
        ),
        (
            spec_with(
                "/spec/network",
                json!({"egress": [{"ports": [{"port": 443}]}]}),
            ),
            "exactly one of cidr, namespace and service",
        ),
        (
            spec_with("/spec/deadlines", json!({"activeSeconds": 999_999_999_i64})),
            "a year",
        ),
        (
            spec_with("/spec/taskGroups/0/tolerations", json!([{"value": "x"}])),
            "without key, operator must be Exists",
        ),
        (
            spec_with("/spec/minRuntimeSeconds", json!(-1)),
            "must be 0 to 604800 seconds",
        ),
        (
            spec_with("/spec/minRuntimeSeconds", json!(604_801)),
            "must be 0 to 604800 seconds",
        ),
        (
            spec_with("/spec/topology", json!({})),
            "must have required, preferred or slices",
        ),
        (
            spec_with("/spec/topology", json!({"required": "rack/"})),
            "must name a level of a Topology",
        ),
        (
            spec_with(
                "/spec/taskGroups/0/topology",
                json!({"preferred": "Example.com/rack"}),
            ),
            "must name a level of a Topology",
        ),
        (
            spec_with("/spec/taskGroups/0/topology", json!({"slices": []})),
            "must have required, preferred or slices",
        ),
        (
            spec_with(
                "/spec/taskGroups/0/topology",
                json!({"required": "rack", "balanced": true}),
            ),
            "balanced needs preferred",
        ),
        (
            sliced(json!([{"level": "rack", "pods": 2, "atMost": 2}])),
            "must set either pods or atMost",
        ),
        (
            sliced(json!([{"level": "rack", "pods": 0}])),
            "must be 1 to 4096 pods",
        ),
        (
            sliced(json!([{"level": "rack/", "pods": 1}])),
            "must name a level of a Topology",
        ),
        (
            sliced(json!([{"level": "rack", "pods": 5}])),
            "replicas must be a multiple of topology.slices[0].pods",
        ),
        (
            sliced(json!([{"level": "block", "pods": 6}, {"level": "rack", "pods": 4}])),
            "must set pods to a multiple of pods in the next layer",
        ),
        (
            sliced(json!([{"level": "block", "atMost": 6}, {"level": "rack", "pods": 2}])),
            "each layer except the last must set pods",
        ),
        (
            sliced(json!([{"level": "rack", "pods": 6}, {"level": "rack", "pods": 2}])),
            "must name each level once",
        ),
        (
            split_group("minReplicas", json!(5)),
            "minReplicas must be a multiple of topology.slices[0].pods",
        ),
        (
            split_group("membership", json!("BestEffort")),
            "a group with slices is part of the gang",
        ),
    ];
    for (spec, words) in cases {
        let error = refusal(&site, spec.clone()).await;
        assert!(error.contains(words), "{words}: {error}");
        let object: TrainingJob = serde_json::from_value(spec).unwrap();
        let library_error = ValidatedJob::try_from(object).expect_err(words).to_string();
        assert!(library_error.contains(words), "{words}: {library_error}");
    }
    // Unknown fields are refused by kubectl, Argo CD and our own reader.
    let mut unknown = base();
    unknown["spec"]["taskGroups"][0]["gpu"] = json!(8);
    unknown["metadata"]["namespace"] = json!(site.name());
    let applied = shared_control_plane()
        .await
        .apply_yaml(&unknown.to_string())
        .await;
    let error = format!("{:#}", applied.unwrap_err());
    assert!(error.contains("gpu"), "{error}");
    assert!(serde_json::from_value::<TrainingJob>(unknown).is_err());
}
