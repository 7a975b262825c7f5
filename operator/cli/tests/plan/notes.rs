//! Notes on objects, names and labels of the input that have no effect on the plan.

use super::cluster::plan_with_dump;
use super::{file, plan_with};

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
        (0, "note: <stdin>: Deployment is ignored\n")
    );
}

/// The plan notes objects of Kueue that it does not read.
/// Kueue's kinds resemble our kinds, so a user may expect that they affect the plan.
#[test]
fn foreign_object_is_noted_with_the_import_command() {
    let foreign = "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: x}\n---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\n---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: y, labels: {kueue.x-k8s.io/queue-name: q}}\n";
    let note = |file: &str, subject: &str| {
        format!("note: {file}: {subject} is ignored: convert it with `trellis import`\n")
    };
    let flavor = "ResourceFlavor of kueue.x-k8s.io/v1beta2";
    let job = "Job of batch/v1";
    let dump = plan_with_dump(foreign, &["job.yaml"]);
    let notes = [note("<stdin>", flavor), note("<stdin>", job)].concat();
    assert_eq!((dump.code, dump.err), (0, notes));
    // The importer refuses Jobs that Kueue does not queue.
    let input = format!("{}{foreign}", file("job.yaml"));
    let run = plan_with(&["--nodes", "nodes.yaml", "-f", "-"], &input);
    let all = [
        note("<stdin>", flavor),
        "note: <stdin>: Job is ignored\n".to_owned(),
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
            "error: <stdin>: contains no TrainingJob: convert PyTorchJob of kubeflow.org/v1 with `trellis import`\n"
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
    let noted = |spec: &str, options: &str| {
        let input = [&file("job.yaml"), policy(spec).as_str(), options].concat();
        let run = plan_with(&["--nodes", "nodes.yaml", "-f", "-"], &input);
        run.err
    };
    let namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a, labels: {trellis.dev/team: vision}}\n";
    let queue = "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingQueue\nmetadata: {name: default}\nspec: {namespaceSelector: {}, defaultFor: {}}\n";
    let resource = |limit: &str| format!("{{subject: {{}}, limits: {{resources: [{limit}]}}}}");
    for (spec, options, note) in [
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
        let err = noted(&spec, options);
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
