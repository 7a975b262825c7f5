//! Common mistakes, and mistakes that Kubernetes would refuse only in the pods.

use kube::Resource;
use serde::{Serialize, de::DeserializeOwned};

use super::*;
use crate::{QuotaPolicy, ResourceFlavor, Topology};

/// Habits from other job kinds, each with the fix.
#[test]
fn common_mistake_in_a_job_is_refused_with_the_fix() {
    let says = |from: &str, to: &str| {
        let message = single_problem(from, to);
        format!("{}:{} {}: {}", message.0, message.1, message.2, message.3)
    };
    assert_eq!(
        says("replicas: 1", "replicas: \"2\""),
        "6:25 spec.taskGroups[0].replicas: must be a whole number, not the text \"2\": remove the quotes"
    );
    let cpu = says("cpu: 1", "cpu: 0.5");
    assert!(
        cpu.ends_with("not the number 0.5: write 500m or \"0.5\""),
        "{cpu}"
    );
    let memory = says("memory: 1Gi", "memory: 1.5");
    assert!(
        memory.ends_with("not the number 1.5: write \"1.5\", in quotes"),
        "{memory}"
    );
    let gpus = says("cpu: 1,", "cpu: 1, nvidia.com/gpu: 8,");
    assert!(gpus.contains("resources: must not limit a GPU"), "{gpus}");
    assert!(gpus.contains("set gpus of the task group"), "{gpus}");
    let bare = &problem_rows(&JOB.replace(
        "limits: {cpu: 1, memory: 1Gi}",
        "cpu: 1, limits: {memory: 1Gi}",
    ))[0];
    let bare = format!("{}: {}", bare.2, bare.3);
    assert!(
        bare.ends_with("resources.cpu: is no known field: write resources.limits.cpu"),
        "{bare}"
    );
    let limits = "limits: {cpu: 1, memory: 1Gi}";
    for requests in ["{cpu: \"1\"}", "{cpu: 1000m, memory: 1024Mi}", "{}"] {
        let with = format!("{limits}, requests: {requests}");
        assert_eq!(problem_rows(&JOB.replace(limits, &with)), [], "{requests}");
    }
    for requests in ["{cpu: 500m}", "{rdma/hca: 1}"] {
        let message = says(limits, &format!("{limits}, requests: {requests}"));
        assert!(
            message.contains("resources.requests: every request must"),
            "{message}"
        );
        assert!(message.contains("write it below limits"), "{message}");
    }
    let claims = says(limits, &format!("{limits}, claims: [{{name: a}}]"));
    assert!(
        claims.contains("resources.claims: must be empty"),
        "{claims}"
    );
    assert_eq!(
        says(
            "metadata: {name: a}",
            "metadata: {name: a, creationTimestamp: yesterday}"
        ),
        "3:40 metadata.creationTimestamp: must be a time, such as \"2026-01-31T12:00:00Z\""
    );
    assert_eq!(
        says("metadata: {name: a}", "metadata: {}"),
        "3:1 metadata.name: is required: add it"
    );
    let generated = "metadata: {generateName: train-}";
    assert!(problem_rows(&JOB.replace("metadata: {name: a}", generated)).is_empty());
    assert_eq!(
        says("metadata: {name: a}", "metadata: {generateName: Train-}")
            .split(" must")
            .next(),
        Some("3:26 metadata.generateName:")
    );
    let group = JOB.split("spec:\n").nth(1).unwrap();
    for spec in ["spec: []\n", "spec: [PyTorch]\n"] {
        let (line, _, field, message) =
            problem_rows(&JOB.replace(&format!("spec:\n{group}"), spec)).remove(0);
        assert_eq!((line, field.as_str()), (4, "spec"));
        assert!(
            message.starts_with("must be a mapping, not a list: "),
            "{message}"
        );
    }
}

/// Fields of other job kinds, each with the replacement.
#[test]
fn field_of_another_job_kind_is_refused_with_the_replacement() {
    let says = |from: &str, to: &str, field: &str, instead: &str| {
        let found = problem_rows(&JOB.replace(from, to));
        let expected = format!("is no known field: {instead}");
        let hit = found.iter().find(|s| s.2 == field);
        assert_eq!(
            hit.map(|s| s.3.as_str()),
            Some(expected.as_str()),
            "{found:?}"
        );
    };
    let group = |to: &str, field: &str, instead: &str| {
        let field = format!("spec.taskGroups[0].{field}");
        says("image: x", &format!("image: x, {to}"), &field, instead);
    };
    says(
        "spec:\n",
        "spec:\n  backoffLimit: 3\n",
        "spec.backoffLimit",
        "write restart.limit, which counts restarts of the whole gang",
    );
    says(
        "spec:\n",
        "spec:\n  activeDeadlineSeconds: 3\n",
        "spec.activeDeadlineSeconds",
        "write deadlines.activeSeconds, which counts while the job runs and not while it waits",
    );
    says(
        "spec:\n",
        "spec:\n  parallelism: 3\n",
        "spec.parallelism",
        "write replicas of a task group",
    );
    group(
        "volumeMounts: [{name: a, mountPath: /a}]",
        "volumeMounts",
        "write mounts, each with its path and claimName, configMapName, secretName or emptyDir",
    );
    group(
        "restartPolicy: Never",
        "restartPolicy",
        "leave it out: spec.restart says what becomes of failed pods",
    );
    group(
        "mounts: [{mountPath: /a, path: /a, emptyDir: {}}]",
        "mounts[0].mountPath",
        "write path",
    );
    group(
        "ports: [{containerPort: 80, port: 80, name: a}]",
        "ports[0].containerPort",
        "write port",
    );
    group(
        "topology: {requiredTopologyLevel: rack}",
        "topology.requiredTopologyLevel",
        "write required",
    );
    says(
        "spec:\n",
        "spec:\n  networkTopology: {mode: hard, highestTierAllowed: 1}\n",
        "spec.networkTopology",
        "write topology, with the name of a level of a Topology as required or preferred",
    );
}

/// Trellis refuses a job at once if Kubernetes would refuse its pods later.
#[test]
fn job_is_refused_when_kubernetes_would_refuse_its_pods() {
    let field = |from: &str, to: &str| single_problem(from, to).2;
    let group = "spec.taskGroups[0]";
    for (to, path) in [
        ("image: x, nodeSelector: {\"a b\": c}", "nodeSelector"),
        ("image: x, nodeSelector: {a: \"b c\"}", "nodeSelector"),
        (
            "image: x, tolerations: [{key: \"a b\", operator: Exists}]",
            "tolerations[0].key",
        ),
        (
            "image: x, env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.nope}}}]",
            "env[0].valueFrom.fieldRef.fieldPath",
        ),
        (
            "image: x, env: [{name: TRELLIS_RANK, value: \"1\"}]",
            "env[0].name",
        ),
        (
            "image: x, env: [{name: A, value: a, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
            "env[0]",
        ),
        ("image: x, mounts: [{path: /a}]", "mounts[0]"),
    ] {
        assert_eq!(field("image: x", to), format!("{group}.{path}"), "{to}");
    }
    for field in ["status.podIP", "metadata.name", "metadata.labels['team']"] {
        let to = format!(
            "image: x, env: [{{name: A, valueFrom: {{fieldRef: {{fieldPath: \"{field}\"}}}}}}]"
        );
        assert_eq!(problem_rows(&JOB.replace("image: x", &to)), [], "{field}");
    }
    let network = |peers: &str| {
        let to = format!("spec:\n  network: {{egress: [{peers}]}}\n");
        single_problem("spec:\n", &to).2
    };
    assert_eq!(network("{service: a}, {}"), "spec.network.egress[1]");
    assert_eq!(
        network("{service: a, ports: [{port: 9, endPort: 8}]}"),
        "spec.network.egress[0].ports[0]"
    );
    let metadata = |to: &str| field("{name: a}", to);
    assert_eq!(
        metadata("{name: a, labels: {\"a b\": c}}"),
        "metadata.labels"
    );
    assert_eq!(
        metadata("{name: a, labels: {a: \"b c\"}}"),
        "metadata.labels"
    );
    assert_eq!(
        metadata("{name: a, annotations: {\"a b\": c}}"),
        "metadata.annotations"
    );
    assert_eq!(
        metadata("{name: a, namespace: Bad_NS}"),
        "metadata.namespace"
    );
    let (.., name) = single_problem("{name: a}", "{name: A_b}");
    assert!(name.starts_with("must be a DNS-1035 label"), "{name}");
}

/// A number without a unit counts bytes, and 64 bytes are never intended.
#[test]
fn memory_without_unit_is_refused_with_a_suggestion() {
    let says = |memory: &str| single_problem("memory: 1Gi", &format!("memory: {memory}")).3;
    assert!(
        says("64").ends_with(": did you mean 64Gi?"),
        "{}",
        says("64")
    );
    assert!(
        says("64m").ends_with(": did you mean 64M or 64Mi?"),
        "{}",
        says("64m")
    );
    assert!(
        says("1GB").ends_with(": write 1G or 1Gi"),
        "{}",
        says("1GB")
    );
    assert!(says("1gi").ends_with(": write 1Gi"), "{}", says("1gi"));
    assert!(
        says("1023Ki").contains("at least 1Mi"),
        "{}",
        says("1023Ki")
    );
    for valid in ["1Mi", "1048576", "1.5Gi", "\"1e9\""] {
        assert_eq!(problem_rows(&JOB.replace("1Gi", valid)), [], "{valid}");
    }
}

const JOB_SPEC: &str = "{topology: TOPOLOGY, taskGroups: [{name: w, image: x, resources: {limits: {cpu: 1, memory: 1Gi}}}]}";

/// Fields of the kinds for platform teams, each with the replacement.
#[test]
fn common_mistake_in_a_platform_kind_is_refused_with_the_fix() {
    fn problem_messages<K>(spec: &str) -> Vec<String>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Serialize,
        K: garde::Validate<Context = ()>,
    {
        let text = format!(
            "apiVersion: trellis.dev/v1alpha1\nkind: {}\nmetadata: {{name: x}}\nspec: {spec}\n",
            K::kind(&())
        );
        let document = split(&text).unwrap().remove(0);
        let problems = document.decode_valid::<K>().err().unwrap();
        problems.into_iter().map(|p| p.to_string()).collect()
    }
    let subject = |spec: &str| {
        problem_messages::<QuotaPolicy>(&format!("{{subject: {spec}, limits: {{runningJobs: 1}}}}"))
    };
    for (message, field, fix) in [
        (
            subject("{namespace: a}"),
            "spec.subject.namespace",
            "write namespaceSelector",
        ),
        (
            subject("{users: [a]}"),
            "spec.subject.users",
            "write requester",
        ),
        (
            subject("{queue: a}"),
            "spec.subject.queue",
            "write queueName",
        ),
        (
            problem_messages::<QuotaPolicy>("{subject: {}, limits: {gpuHours: 500}}"),
            "spec.limits.gpuHours",
            "must be a mapping, not the number 500: write {limit: 500, windowHours: 720} for 30 days",
        ),
        (
            problem_messages::<ResourceFlavor>("{nodeLabels: {a: b}, topologyName: t}"),
            "spec.topologyName",
            "leave it out",
        ),
        (
            problem_messages::<Topology>("{levels: [rack]}"),
            "spec.levels[0]",
            "must be a mapping, not the text \"rack\": write {nodeLabel: rack}",
        ),
        (
            problem_messages::<TrainingJob>(&JOB_SPEC.replace("TOPOLOGY", "rack")),
            "spec.topology",
            "must be a mapping, not the text \"rack\": write {required: rack} or {preferred: rack}",
        ),
        (
            problem_messages::<QuotaPolicy>("{subject: {}, limits: {runtimeSecondsPerJob: 24h}}"),
            "spec.limits.runtimeSecondsPerJob",
            "must be a whole number, not the text \"24h\": write 86400",
        ),
        (
            problem_messages::<QuotaPolicy>(
                "{subject: {}, limits: {gpuHours: {limit: 1, windowHours: 30d}}}",
            ),
            "spec.limits.gpuHours.windowHours",
            "must be a whole number, not the text \"30d\": write 720",
        ),
        (
            problem_messages::<QuotaPolicy>("{subject: {}, limits: {resources: {cpu: 8}}}"),
            "spec.limits.resources",
            "must be a list, not a mapping: write - {resource: NAME, max: AMOUNT}",
        ),
        (
            subject("{namespaceSelector: {team: vision}}"),
            "spec.subject.namespaceSelector.team",
            "write it into matchLabels",
        ),
    ] {
        assert_eq!(message.len(), 1, "{message:?}");
        assert!(
            message[0].contains(&format!("{field}: ")) && message[0].contains(fix),
            "{message:?}"
        );
    }
}
