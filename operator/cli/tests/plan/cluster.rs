//! Pods and quota in a dump of a cluster reduce the free capacity.

use super::{Run, file, plan_with};

/// The dump of a cluster comes from standard input.
const WITH_DUMP: [&str; 4] = ["--nodes", "nodes.yaml", "--nodes", "-"];

/// Plans jobs together with a dump.
fn plan_with_dump(dump: &str, jobs: &[&str]) -> Run {
    let mut arguments = WITH_DUMP.to_vec();
    for job in jobs {
        arguments.extend(["-f", job]);
    }
    plan_with(&arguments, dump)
}

/// Renders the objects of the job together with a dump, in this format.
fn render_with_dump(dump: &str, format: &str) -> Run {
    let job = ["-f", "job.yaml", "-o", format];
    plan_with(&[&WITH_DUMP[..], &job].concat(), dump)
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
fn placed(job: &str, queue: &str, count: u32) -> String {
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
    let queue = |name: &str, more: &str| {
        format!(
            "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingQueue\nmetadata: {{name: {name}}}\nspec: {{{more}, resourceGroups: [{{coveredResources: [cpu, memory, nvidia.com/gpu], flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: 1k}}, {{name: memory, nominalQuota: 10Ti}}, {{name: nvidia.com/gpu, nominalQuota: 32}}]}}]}}]}}\n"
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
    let asked = |at: &str| {
        format!(
            "{young}---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingJob\nmetadata: {{name: asked, namespace: team-a, creationTimestamp: '{at}'}}\nspec: {{taskGroups: [{{name: worker, image: i, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}]}}\n"
        )
    };
    let run = plan_with_dump(&asked("2026-11-23T04:00:09Z"), &["job.yaml"]);
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(!run.out.contains("preempts"), "{}", run.out);
    let run = plan_with_dump(&asked("2026-11-23T04:59:59Z"), &["job.yaml"]);
    assert_eq!(run.code, 0, "{}", run.out);
    let lost = format!("(work lost: {} device-seconds)", 48 * 3600);
    assert!(run.out.contains(&lost), "{}", run.out);
    let never = dump.replace("reclaimWithinCohort: Any", "reclaimWithinCohort: Never");
    let run = plan_with_dump(&never, &["job.yaml"]);
    assert_eq!(run.code, 1);
    insta::assert_snapshot!("cluster-lent", run.golden());
}

/// A core ResourceQuota of namespace team-a.
fn quota(hard: &str, used: &str) -> String {
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
fn jobs(named: &[(&str, u32)]) -> String {
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
    let words = "allows 7 pods, of which 1 are used and 3 are promised to gangs that are starting; the whole gang needs 4";
    assert!(run.out.contains(words), "{}", run.out);
}

#[test]
fn own_pods_of_a_job_do_not_block_it() {
    let there = "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: llm, namespace: team-a, uid: u-llm, generation: 3, creationTimestamp: '2026-11-01T10:00:00Z'}\nspec: {taskGroups: [{name: worker, image: x, resources: {limits: {cpu: 1, memory: 1Gi}}}]}\nstatus: {attempt: 2}\n";
    let dump = format!("{there}{}", placed("llm", "default", 8));
    let run = plan_with_dump(&dump, &["job.yaml"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains("gpu-00..gpu-03"), "{}", run.out);
    // The eight existing pods of the job do not count against the namespace's quota either.
    let full = quota("{pods: '9'}", "{pods: '9'}");
    let run = plan_with_dump(&format!("{dump}{full}"), &["job.yaml"]);
    assert_eq!(run.code, 0, "{run:?}");
    let fuller = quota("{pods: '9'}", "{pods: '14'}");
    let run = plan_with_dump(&format!("{dump}{fuller}"), &["job.yaml"]);
    assert!(run.out.contains("of which 6 are used; "), "{}", run.out);
    let objects = render_with_dump(&dump, "yaml").out;
    assert!(objects.contains("uid: u-llm"), "{objects}");
    assert!(objects.contains("trellis.dev/attempt: \"2\""), "{objects}");
    // A job in a terminal phase never runs again.
    let ended = there.replace(
        "{attempt: 2}",
        "{attempt: 2, phase: Complete, reason: Complete}",
    );
    let run = plan_with_dump(&ended, &["job.yaml"]);
    assert_eq!(run.code, 1);
    assert!(
        run.out.contains("team-a/llm would not run\n"),
        "{}",
        run.out
    );
    assert!(run.out.contains("has ended"), "{}", run.out);
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.yaml");
    std::fs::write(&other, jobs(&[("other", 1)])).unwrap();
    let run = plan_with_dump(&ended, &["job.yaml", other.to_str().unwrap()]);
    assert!(
        run.out
            .ends_with("\n2 jobs: 1 would run, 0 would wait, 1 would not run\n"),
        "{}",
        run.out
    );
}

/// A pod that `kubectl delete --cascade=orphan` leaves behind belongs to no gang.
#[test]
fn orphaned_pods_count_as_external_pods() {
    let run = plan_with_dump(&placed("other", "default", 5), &["job.yaml"]);
    let words = |gangs: u32, others: u32| format!("gangs hold {gangs}, other pods {others}");
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

#[test]
fn unused_kinds_of_a_dump_are_ignored() {
    let other = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n";
    assert_eq!(
        plan_with_dump(other, &["job.yaml"]).golden(),
        plan_with_dump("", &["job.yaml"]).golden()
    );
    // Next to a job the object may be a mistake, so a note names it.
    let input = format!("{}{other}", file("job.yaml"));
    let run = plan_with(&["--nodes", "nodes.yaml", "-f", "-"], &input);
    assert_eq!(
        (run.code, run.err.as_str()),
        (0, "note: <stdin>: Deployment is not looked at\n")
    );
}

/// The plan notes objects of Kueue that it does not read.
/// Kueue's kinds resemble our kinds, so a user may expect that they affect the plan.
#[test]
fn foreign_object_is_noted_with_the_import_command() {
    let foreign = "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: x}\n---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\n---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: y, labels: {kueue.x-k8s.io/queue-name: q}}\n";
    let note = |file: &str, what: &str| {
        format!(
            "note: {file}: {what} is not read: turn it into an object of Trellis with `trellis import`\n"
        )
    };
    let flavor = "ResourceFlavor of kueue.x-k8s.io/v1beta2";
    let job = "Job of batch/v1";
    let dump = plan_with_dump(foreign, &["job.yaml"]);
    let both = [note("<stdin>", flavor), note("<stdin>", job)].concat();
    assert_eq!((dump.code, dump.err), (0, both));
    // The importer refuses Jobs that Kueue does not queue.
    let input = format!("{}{foreign}", file("job.yaml"));
    let run = plan_with(&["--nodes", "nodes.yaml", "-f", "-"], &input);
    let all = [
        note("<stdin>", flavor),
        "note: <stdin>: Job is not looked at\n".to_owned(),
        note("<stdin>", job),
    ];
    assert_eq!((run.code, run.err), (0, all.concat()));

    let queue =
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: x}\n---\n";
    let job = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: x}\n";
    let run = plan_with(
        &["--nodes", "nodes.yaml", "-f", "-"],
        &[queue, job].concat(),
    );
    assert_eq!(
        (run.code, run.err.as_str()),
        (
            2,
            "error: <stdin>: holds no TrainingJob: turn PyTorchJob of kubeflow.org/v1 into one with `trellis import`\n"
        )
    );
}

/// A QuotaPolicy that refers to an unknown name does not limit any job.
/// The plan notes each such name.
#[test]
fn limit_on_an_unknown_name_is_noted() {
    let policy = |spec: &str| {
        format!(
            "\n---\napiVersion: trellis.dev/v1alpha1\nkind: QuotaPolicy\nmetadata: {{name: q}}\nspec: {spec}\n"
        )
    };
    let noted = |spec: &str, more: &str| {
        let input = [&file("job.yaml"), policy(spec).as_str(), more].concat();
        let run = plan_with(&["--nodes", "nodes.yaml", "-f", "-"], &input);
        run.err
    };
    let namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a, labels: {trellis.dev/team: vision}}\n";
    let queue = "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingQueue\nmetadata: {name: default}\nspec: {namespaceSelector: {}, defaultFor: {}}\n";
    let resource = |limit: &str| format!("{{subject: {{}}, limits: {{resources: [{limit}]}}}}");
    for (spec, more, note) in [
        (
            "{subject: {team: visoin}, limits: {runningJobs: 1}}".to_owned(),
            namespace,
            "spec.subject.team: no namespace has the label trellis.dev/team: visoin, so it limits no job",
        ),
        (
            "{subject: {queueName: nosuch}, limits: {runningJobs: 1}}".to_owned(),
            queue,
            "spec.subject.queueName: there is no TrainingQueue \"nosuch\", so it limits no job",
        ),
        (
            resource("{resource: nvidia.com/gpus, max: 8}"),
            "",
            "spec.limits.resources[0].resource: no node has \"nvidia.com/gpus\", so it limits nothing",
        ),
        (
            resource("{resource: cpu, flavor: h100, max: 8}"),
            "",
            "spec.limits.resources[0].flavor: there is no ResourceFlavor \"h100\", so it limits nothing",
        ),
    ] {
        let err = noted(&spec, more);
        let line = format!("note: QuotaPolicy \"q\": {note}\n");
        assert!(err.contains(&line), "{err}");
    }
    let right = noted(
        "{subject: {team: vision, queueName: default}, limits: {resources: [{resource: cpu, max: 100000}]}}",
        &[namespace, queue].concat(),
    );
    assert!(!right.contains("QuotaPolicy"), "{right}");
}

#[test]
fn foreign_queue_label_is_noted() {
    let job = file("job.yaml").replacen(
        "metadata: {",
        "metadata: {labels: {kueue.x-k8s.io/queue-name: research}, annotations: {kueue.x-k8s.io/podset-required-topology: rack}, ",
        1,
    );
    let run = plan_with(&["--nodes", "nodes.yaml", "-f", "-"], &job);
    for note in [
        "metadata.labels[\"kueue.x-k8s.io/queue-name\"] has no effect: write spec.queueName\n",
        "metadata.annotations[\"kueue.x-k8s.io/podset-required-topology\"] has no effect: write spec.topology.required\n",
    ] {
        assert!(run.err.contains(note), "{run:?}");
    }
}

/// A running job keeps its nodes.
/// The plan does not place it anew, even if another job would then come first.
#[test]
fn running_job_keeps_its_place() {
    let given = file("job.yaml").replace(", memory: 1000Gi", ", memory: 1Gi");
    let runs = "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: llm, namespace: team-a, uid: u-llm, generation: 1, creationTimestamp: '2026-11-01T10:00:00Z'}\nspec: {taskGroups: [{name: worker, image: x, resources: {limits: {cpu: 1, memory: 1Gi}}}]}\nstatus: {attempt: 1, phase: Running}\n";
    // The PodGroup matches the compiled spec of the job.
    let resources =
        "gpuResource: nvidia.com/gpu, resources: {cpu: '96', memory: 1Gi, nvidia.com/gpu: '8'}";
    let held = placed("llm", "default", 4).replace("resources: {nvidia.com/gpu: '8'}", resources);
    let dump = format!("{}{runs}{held}", file("nodes.yaml"));
    let high = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 100\n";
    let newer = given
        .replace("name: llm", "name: newer")
        .replace("replicas: 4", "replicas: 5")
        .replace("spec:\n", "spec:\n  priorityClassName: high\n");
    let folder = tempfile::tempdir().unwrap();
    let cluster = folder.path().join("cluster.yaml");
    std::fs::write(&cluster, format!("{dump}{high}")).unwrap();
    let cluster = cluster.to_str().unwrap();
    let input = format!("{newer}---\n{given}");
    let run = plan_with(&["--nodes", cluster, "-f", "-"], &input);
    assert!(run.out.contains("team-a/llm would run"), "{}", run.out);
    assert!(run.out.contains("team-a/newer would wait"), "{}", run.out);
    assert!(run.out.contains("gangs hold 32"), "{}", run.out);
}

/// In a strict queue the pending head comes first, and it cannot start either.
#[test]
fn job_waits_behind_the_head_of_a_strict_queue() {
    let strict = "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingQueue\nmetadata: {name: default}\nspec: {namespaceSelector: {}, defaultFor: {}, queueingStrategy: StrictFIFO}\n";
    let job = |phase: &str| {
        format!(
            "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingJob\nmetadata: {{name: big, namespace: team-a, uid: u-big, generation: 1, creationTimestamp: '2026-11-01T10:00:00Z'}}\nspec: {{taskGroups: [{{name: worker, image: x, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}]}}\nstatus: {{attempt: 1, phase: {phase}}}\n"
        )
    };
    let waits = placed("big", "default", 99);
    let waits = waits.split("status:").next().unwrap();
    let run = plan_with_dump(&format!("{strict}{}{waits}", job("Queued")), &["job.yaml"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.out.contains("BehindHead: "), "{}", run.out);
    assert!(
        run.out.contains("\"team-a/big\" is at its head"),
        "{}",
        run.out
    );
    let suspended = format!("{strict}{}{waits}", job("Suspended"));
    assert_eq!(plan_with_dump(&suspended, &["job.yaml"]).code, 0);
    // In another queue the job may pass the head, or may have to wait for it later. The plan notes
    // this.
    let passed = plan_with_dump(&format!("{}{waits}", job("Queued")), &["job.yaml"]);
    assert_eq!(passed.code, 0, "{passed:?}");
    let note = "1 job that waits before it in queue \"default\" is not counted in";
    assert!(passed.out.contains(note), "{}", passed.out);
    let lower = format!("{}{waits}", job("Queued")).replace("priority: 0", "priority: -1");
    let first = plan_with_dump(&lower, &["job.yaml"]);
    assert!(!first.out.contains("not counted in"), "{}", first.out);
    let objects = render_with_dump(&format!("{}{waits}", job("Queued")), "json");
    let note = format!("note: TrainingJob team-a/llm: {note}");
    assert!(objects.err.starts_with(&note), "{}", objects.err);
}

/// A head with `preemptionPolicy: Never` waits behind jobs of lower priority.
/// Its PriorityClass sets this policy.
#[test]
fn job_waits_behind_a_head_that_never_preempts() {
    // The PodGroup of an existing job tolerates no taint.
    let taints = "    taints:\n    - effect: NoSchedule\n      key: nvidia.com/gpu\n";
    let nodes = file("nodes.yaml").replace(taints, "");
    let queue = "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingQueue\nmetadata: {name: default}\nspec: {namespaceSelector: {}, defaultFor: {}, queueingStrategy: StrictFIFO, preemption: {withinClusterQueue: LowerPriority}}\n";
    let job = "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: big, namespace: team-a, uid: u-big, generation: 1, creationTimestamp: '2026-11-01T10:00:00Z'}\nspec: {priorityClassName: high, taskGroups: [{name: worker, image: x, resources: {limits: {cpu: 1, memory: 1Gi}}}]}\nstatus: {attempt: 1, phase: Queued}\n";
    let waits = placed("big", "default", 5).replace("priority: 0", "priority: 100");
    let waits = waits.split("status:").next().unwrap();
    let runs = placed("small", "default", 4);
    let told = |policy: &str| {
        let class = format!(
            "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: high}}\nvalue: 100\npreemptionPolicy: {policy}\n"
        );
        let dump = format!("{nodes}{queue}{job}{waits}{runs}{class}");
        plan_with(&["--nodes", "-", "-f", "job.yaml"], &dump).out
    };
    let never = told("Never");
    assert!(never.contains("BehindHead: "), "{never}");
    // A head that preempts other jobs gives no job the reason BehindHead.
    let most = told("PreemptLowerPriority");
    assert!(!most.contains("BehindHead: "), "{most}");
}
