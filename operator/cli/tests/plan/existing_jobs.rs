//! Existing jobs of a dump: each keeps its place, and the head of a strict queue blocks others.

use super::cluster::{WITH_DUMP, jobs, placed, plan_with_dump, quota};
use super::{Run, file, plan_with};

/// Renders the objects of the job together with a dump, in this format.
fn render_with_dump(dump: &str, format: &str) -> Run {
    let job = ["-f", "job.yaml", "-o", format];
    plan_with(&[&WITH_DUMP[..], &job].concat(), dump)
}

#[test]
fn own_pods_of_a_job_do_not_block_it() {
    let existing = "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: llm, namespace: team-a, uid: u-llm, generation: 3, creationTimestamp: '2026-11-01T10:00:00Z'}\nspec: {taskGroups: [{name: worker, image: x, resources: {limits: {cpu: 1, memory: 1Gi}}}]}\nstatus: {attempt: 2}\n";
    let dump = format!("{existing}{}", placed("llm", "default", 8));
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
    let ended = existing.replace(
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

/// A running job keeps its nodes.
/// The plan does not place it again, even if another job would then come first.
#[test]
fn running_job_keeps_its_place() {
    let given = file("job.yaml").replace(", memory: 1000Gi", ", memory: 1Gi");
    let running = "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: llm, namespace: team-a, uid: u-llm, generation: 1, creationTimestamp: '2026-11-01T10:00:00Z'}\nspec: {taskGroups: [{name: worker, image: x, resources: {limits: {cpu: 1, memory: 1Gi}}}]}\nstatus: {attempt: 1, phase: Running}\n";
    // The PodGroup matches the compiled spec of the job.
    let resources =
        "gpuResource: nvidia.com/gpu, resources: {cpu: '96', memory: 1Gi, nvidia.com/gpu: '8'}";
    let placed_group =
        placed("llm", "default", 4).replace("resources: {nvidia.com/gpu: '8'}", resources);
    let dump = format!("{}{running}{placed_group}", file("nodes.yaml"));
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
    let pending = placed("big", "default", 99);
    let pending = pending.split("status:").next().unwrap();
    let run = plan_with_dump(
        &format!("{strict}{}{pending}", job("Queued")),
        &["job.yaml"],
    );
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.out.contains("BehindHead: "), "{}", run.out);
    assert!(
        run.out.contains("\"team-a/big\" is at its head"),
        "{}",
        run.out
    );
    let suspended = format!("{strict}{}{pending}", job("Suspended"));
    assert_eq!(plan_with_dump(&suspended, &["job.yaml"]).code, 0);
    // In another queue the job may pass the head, or may have to wait for it later. The plan notes
    // this.
    let passed = plan_with_dump(&format!("{}{pending}", job("Queued")), &["job.yaml"]);
    assert_eq!(passed.code, 0, "{passed:?}");
    let note = "1 pending job before it in queue \"default\" is not in the plan";
    assert!(passed.out.contains(note), "{}", passed.out);
    let lower = format!("{}{pending}", job("Queued")).replace("priority: 0", "priority: -1");
    let first = plan_with_dump(&lower, &["job.yaml"]);
    assert!(!first.out.contains("not in the plan"), "{}", first.out);
    let objects = render_with_dump(&format!("{}{pending}", job("Queued")), "json");
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
    let pending = placed("big", "default", 5).replace("priority: 0", "priority: 100");
    let pending = pending.split("status:").next().unwrap();
    let running = placed("small", "default", 4);
    let plan_with = |policy: &str| {
        let class = format!(
            "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: high}}\nvalue: 100\npreemptionPolicy: {policy}\n"
        );
        let dump = format!("{nodes}{queue}{job}{pending}{running}{class}");
        plan_with(&["--nodes", "-", "-f", "job.yaml"], &dump).out
    };
    let without_preemption = plan_with("Never");
    assert!(
        without_preemption.contains("BehindHead: "),
        "{without_preemption}"
    );
    // A head that preempts other jobs gives no job the reason BehindHead.
    let with_preemption = plan_with("PreemptLowerPriority");
    assert!(
        !with_preemption.contains("BehindHead: "),
        "{with_preemption}"
    );
}
