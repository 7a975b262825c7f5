//! Pods and quota in a dump of a cluster reduce the free capacity.

use super::{Run, file, plan_with};

/// The dump of a cluster comes from standard input.
pub(super) const WITH_DUMP: [&str; 4] = ["--nodes", "nodes.yaml", "--nodes", "-"];

/// Plans jobs together with a dump.
pub(super) fn plan_with_dump(dump: &str, jobs: &[&str]) -> Run {
    let mut arguments = WITH_DUMP.to_vec();
    for job in jobs {
        arguments.extend(["-f", job]);
    }
    plan_with(&arguments, dump)
}

/// A pod in the format of the API server. `job` owns it, if any.
fn pod(name: &str, node: &str, gpus: u32, phase: &str, job: Option<&str>) -> String {
    let owner = job.map_or(String::new(), |job| {
        format!(
            "  ownerReferences: [{{apiVersion: trellis.dev/v1alpha1, kind: TrainingJob, name: {job}, uid: u-{job}, controller: true}}]\n"
        )
    });
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: team-a\n  uid: u-{name}\n{owner}spec:\n  nodeName: {node}\n  containers: [{{name: main, image: x, resources: {{requests: {{nvidia.com/gpu: '{gpus}'}}}}}}]\nstatus: {{phase: {phase}}}\n"
    )
}

/// A gang of `count` pods of 8 GPUs, placed on gpu-00 and the following nodes.
pub(super) fn placed(job: &str, queue: &str, count: u32) -> String {
    let runs: Vec<_> = (0..count)
        .map(|i| format!("{{group: worker, node: gpu-0{i}, count: 1}}"))
        .collect();
    let mut out = format!(
        "---\napiVersion: trellis.dev/v1alpha1\nkind: PodGroup\nmetadata: {{name: {job}, namespace: team-a, ownerReferences: [{{apiVersion: trellis.dev/v1alpha1, kind: TrainingJob, name: {job}, uid: u-{job}, controller: true}}]}}\nspec:\n  minMember: {count}\n  queueName: {queue}\n  priority: 0\n  groups: [{{name: worker, count: {count}, resources: {{nvidia.com/gpu: '8'}}}}]\nstatus:\n  phase: Placed\n  plan: {{hash: h, attempt: 1, generation: 1, compiled: c, assignments: [{}]}}\n",
        runs.join(", ")
    );
    for i in 0..count {
        let name = format!("{job}-worker-{i}");
        out.push_str(&pod(&name, &format!("gpu-0{i}"), 8, "Running", Some(job)));
    }
    out
}

#[test]
fn external_pods_use_their_nodes() {
    let dump: String = (0..5)
        .map(|i| pod(&format!("p-{i}"), &format!("gpu-0{i}"), 1, "Running", None))
        .collect();
    let run = plan_with_dump(&dump, &["job.yaml"]);
    assert_eq!(run.code, 1, "{run:?}");
    insta::assert_snapshot!("cluster-pods", run.golden());
    let over = dump.replace("Running", "Succeeded");
    assert_eq!(plan_with_dump(&over, &["job.yaml"]).code, 0);
    let elsewhere = dump.replace("gpu-0", "not-there-");
    assert_eq!(plan_with_dump(&elsewhere, &["job.yaml"]).code, 0);
}

#[test]
fn placed_gang_counts_once() {
    let run = plan_with_dump(&placed("other", "default", 4), &["job.yaml"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.out.contains("1 on each of gpu-04..gpu-07"),
        "{}",
        run.out
    );
    let run = plan_with_dump(&placed("other", "default", 5), &["job.yaml"]);
    assert_eq!(run.code, 1, "{run:?}");
    // The pods have ended, so the gang holds no node any more.
    let ended = placed("other", "default", 5).replace("Running", "Succeeded");
    assert_eq!(plan_with_dump(&ended, &["job.yaml"]).code, 0);
}

#[test]
fn plan_in_progress_uses_its_nodes() {
    let open = placed("other", "default", 5).replace("phase: Placed", "phase: Committing");
    let without_pods = open.split("---\napiVersion: v1\n").next().unwrap();
    assert_eq!(plan_with_dump(without_pods, &["job.yaml"]).code, 1);
    let finished = without_pods.replace("Committing", "Finished");
    assert_eq!(plan_with_dump(&finished, &["job.yaml"]).code, 0);
}

#[test]
fn placed_gangs_use_the_quota_of_their_queue() {
    let queue = "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingQueue\nmetadata: {name: default}\nspec: {namespaceSelector: {}, defaultFor: {}, resourceGroups: [{coveredResources: [cpu, memory, nvidia.com/gpu], flavors: [{name: default, resources: [{name: cpu, nominalQuota: 1k}, {name: memory, nominalQuota: 10Ti}, {name: nvidia.com/gpu, nominalQuota: 48}]}]}]}\n";
    assert_eq!(plan_with_dump(queue, &["job.yaml"]).code, 0);
    let run = plan_with_dump(
        &format!("{queue}{}", placed("other", "default", 4)),
        &["job.yaml"],
    );
    assert_eq!(run.code, 1);
    assert!(run.out.contains("QuotaExceeded: "), "{}", run.out);
    insta::assert_snapshot!("cluster-quota", run.golden());
}

/// The plan names the borrowers that would be preempted to reclaim quota.
/// The page docs/plan.md shows the line.
#[test]
fn plan_lists_the_victims() {
    let queue = |name: &str, fields: &str| {
        format!(
            "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingQueue\nmetadata: {{name: {name}}}\nspec: {{{fields}, resourceGroups: [{{coveredResources: [cpu, memory, nvidia.com/gpu], flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: 1k}}, {{name: memory, nominalQuota: 10Ti}}, {{name: nvidia.com/gpu, nominalQuota: 32}}]}}]}}]}}\n"
        )
    };
    let dump = [
        "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingQueue\nmetadata: {name: all}\nspec: {}\n"
            .to_owned(),
        queue("speech", "parentName: all, namespaceSelector: {}"),
        queue(
            "vision",
            "parentName: all, namespaceSelector: {}, defaultFor: {}, preemption: {reclaimWithinCohort: Any}",
        ),
        placed("sweep", "speech", 6),
    ]
    .concat();
    let run = plan_with_dump(&dump, &["job.yaml"]);
    assert_eq!(run.code, 0, "{}", run.out);
    let line = "  preempts team-a/sweep: its queue holds more than its quota, which the other asks back (work lost: 48 device-seconds)\n";
    assert!(run.out.contains(line), "{}", run.out);
    assert!(include_str!("../../../../docs/plan.md").contains(line));
    // The time since placement is counted until the latest submission in the files.
    let young = dump
        .replace(
            "compiled: c,",
            "compiled: c, deadline: '2026-11-23T04:02:00Z',",
        )
        .replace("  groups: [", "  minRuntimeSeconds: 900\n  groups: [");
    let plan_at = |at: &str| {
        format!(
            "{young}---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingJob\nmetadata: {{name: asked, namespace: team-a, creationTimestamp: '{at}'}}\nspec: {{taskGroups: [{{name: worker, image: i, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}]}}\n"
        )
    };
    let run = plan_with_dump(&plan_at("2026-11-23T04:00:09Z"), &["job.yaml"]);
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(!run.out.contains("preempts"), "{}", run.out);
    let run = plan_with_dump(&plan_at("2026-11-23T04:59:59Z"), &["job.yaml"]);
    assert_eq!(run.code, 0, "{}", run.out);
    let lost = format!("(work lost: {} device-seconds)", 48 * 3600);
    assert!(run.out.contains(&lost), "{}", run.out);
    let changed = dump.replace("reclaimWithinCohort: Any", "reclaimWithinCohort: Never");
    let run = plan_with_dump(&changed, &["job.yaml"]);
    assert_eq!(run.code, 1);
    insta::assert_snapshot!("cluster-lent", run.golden());
}

/// A core ResourceQuota of namespace team-a.
pub(super) fn quota(hard: &str, used: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: small, namespace: team-a}}\nspec: {{hard: {hard}}}\nstatus: {{used: {used}}}\n"
    )
}

#[test]
fn namespace_quota_admits_the_whole_gang_or_nothing() {
    let run = plan_with_dump(&quota("{pods: '5'}", "{pods: '2'}"), &["job.yaml"]);
    assert_eq!(run.code, 1, "{run:?}");
    insta::assert_snapshot!("cluster-namespace-quota", run.golden());
    for enough in [
        quota("{pods: '6'}", "{pods: '2'}"),
        quota("{pods: '5'}", "{pods: '2'}").replace("team-a", "team-b"),
        quota("{requests.nvidia.com/gpu: '32'}", "{}"),
    ] {
        assert_eq!(plan_with_dump(&enough, &["job.yaml"]).code, 0, "{enough}");
    }
    let gpus = plan_with_dump(
        &quota("{requests.nvidia.com/gpu: '31'}", "{}"),
        &["job.yaml"],
    );
    assert!(gpus.out.contains("ResourceQuotaExceeded: "), "{}", gpus.out);
}

/// Jobs of the input, each with its name and its number of pods with 8 GPUs.
pub(super) fn jobs(named: &[(&str, u32)]) -> String {
    named
        .iter()
        .map(|(name, pods)| {
            file("job.yaml")
                .replace("name: llm", &format!("name: {name}"))
                .replace("replicas: 4", &format!("replicas: {pods}"))
        })
        .collect::<Vec<_>>()
        .join("---\n")
}

#[test]
fn gang_blocked_by_a_namespace_quota_frees_its_nodes() {
    // There are eight nodes. The third job can be placed after the second job has released its
    // nodes.
    let input = jobs(&[("first", 4), ("second", 4), ("third", 2)]);
    let quota = quota("{pods: '6'}", "{}");
    let run = plan_with(
        &["--nodes", "nodes.yaml", "-f", "-"],
        &format!("{input}{quota}"),
    );
    assert_eq!(run.code, 1, "{run:?}");
    insta::assert_snapshot!("cluster-namespace-quota-three", run.golden());
}

#[test]
fn missing_pods_of_a_starting_gang_count_against_the_quota() {
    let open = placed("other", "default", 4).replace("phase: Placed", "phase: Committing");
    let mut parts = open.split("---\napiVersion: v1\n");
    let (group, first) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let dump = |pods: u32| {
        let quota = quota(&format!("{{pods: '{pods}'}}"), "{pods: '1'}");
        format!("{group}---\napiVersion: v1\n{first}{quota}")
    };
    assert_eq!(plan_with_dump(&dump(8), &["job.yaml"]).code, 0);
    let run = plan_with_dump(&dump(7), &["job.yaml"]);
    let words = "allows 7 pods, of which 1 are used and 3 are promised to other gangs; the whole gang needs 4";
    assert!(run.out.contains(words), "{}", run.out);
}

/// A pod that `kubectl delete --cascade=orphan` leaves behind belongs to no gang.
#[test]
fn orphaned_pods_count_as_external_pods() {
    let run = plan_with_dump(&placed("other", "default", 5), &["job.yaml"]);
    let words = |gangs: u32, external: u32| format!("gangs hold {gangs}, other pods {external}");
    assert!(run.out.contains(&words(40, 0)), "{}", run.out);
    let orphans = placed("other", "default", 5).replace("ownerReferences", "formerOwners");
    let run = plan_with_dump(&orphans, &["job.yaml"]);
    assert!(run.out.contains(&words(0, 40)), "{}", run.out);
}

#[test]
fn dump_is_read_in_every_kubectl_format() {
    let expected = plan_with_dump("", &["job.yaml"]);
    let list: serde_json::Value = trellis_api::document::split(&file("nodes.yaml"))
        .unwrap()
        .iter()
        .map(|d| d.decode::<serde_json::Value>().unwrap())
        .collect();
    let items = list.as_array().unwrap();
    let documents: Vec<_> = items.iter().map(ToString::to_string).collect();
    let bare: Vec<_> = items
        .iter()
        .map(|n| serde_json::json!({"metadata": n["metadata"], "spec": n["spec"], "status": n["status"]}))
        .collect();
    let json = |kind: &str, items: &[serde_json::Value]| {
        serde_json::to_string_pretty(
            &serde_json::json!({"apiVersion": "v1", "kind": kind, "items": items, "metadata": {}}),
        )
        .unwrap()
    };
    for nodes in [
        documents.join("\n---\n"),
        json("List", items),
        json("NodeList", items),
        json("NodeList", &bare),
    ] {
        let run = plan_with(&["--nodes", "-", "-f", "job.yaml"], &nodes);
        assert_eq!(run.golden(), expected.golden(), "{nodes}");
        // Nodes in the jobs' file work the same way.
        let run = plan_with(&["-f", "-", "-f", "job.yaml"], &nodes);
        assert_eq!(run.golden(), expected.golden(), "{nodes}");
    }
}
