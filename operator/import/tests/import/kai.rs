//! Queues, topologies and jobs of KAI.

use serde_json::{Value, json};

use trellis_import::{becomes_job, is_importable};

use super::documents::{CONTAINER, group};
use super::queues::{queue, queue_parents};
use super::{documents, import_notes, import_object, import_text};

fn kai(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n---\n"
    )
}

/// Returns the quota of the first resource of each created queue, from coarse to fine.
fn first_quotas(text: &str) -> Vec<Value> {
    let imported = import_text(text);
    let objects = imported.iter().flat_map(|document| &document.objects);
    let quotas = objects.map(|object| {
        let queue = serde_json::to_value(object).unwrap();
        queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0].clone()
    });
    quotas.filter(|quota| !quota.is_null()).collect()
}

#[test]
fn quota_of_a_kai_parent_excludes_those_of_its_children() {
    let quota = |nominal: &str, borrowing: &str| json!({"name": "nvidia.com/gpu", "nominalQuota": nominal, "borrowingLimit": borrowing});
    let parent = |gpu: &str| {
        kai(
            "p",
            &format!("parentQueue: top, resources: {{gpu: {{{gpu}}}}}"),
        )
    };
    let child = |name: &str, gpu: &str| {
        kai(
            name,
            &format!("parentQueue: p, resources: {{gpu: {{{gpu}}}}}"),
        )
    };
    let children = child("a", "quota: 4, limit: 6") + &child("b", "quota: 3, limit: 3");
    let of_children = [quota("4", "2"), quota("3", "0")];
    for (gpu, expected) in [
        ("quota: 10, limit: 16", quota("3", "6")),
        ("quota: 5, limit: 8", quota("0", "1")),
        // The limit bounds the quota.
        ("quota: 20, limit: 8", quota("1", "0")),
        ("quota: -1, limit: 9", quota("2", "0")),
    ] {
        let text = parent(gpu) + &children;
        let mut all = vec![expected];
        all.extend(of_children.clone());
        assert_eq!(first_quotas(&text), all, "{gpu}");
    }
    for (gpu, key) in [
        ("quota: 5, limit: 8", "quota"),
        ("quota: 9, limit: 6", "limit"),
    ] {
        let notes = import_notes(&(parent(gpu) + &children));
        let path = format!("spec.resources.gpu.{key}: ");
        let has_note = |note: &String| note.starts_with(&path) && note.contains("its full quota");
        assert!(notes.iter().any(has_note), "{notes:?}");
    }
    // A quota below an unlimited child counts too.
    let text = parent("quota: 10, limit: 10")
        + &child("m", "quota: -1, limit: -1")
        + &child("c", "quota: 4, limit: 4").replace("parentQueue: p", "parentQueue: m");
    let unlimited = json!({"name": "nvidia.com/gpu", "nominalQuota": "0"});
    assert_eq!(
        first_quotas(&text),
        [quota("6", "0"), unlimited, quota("4", "0")]
    );
    // Queues that are below each other have an end.
    let text = parent("quota: 1, limit: 1").replace("top", "a") + &child("a", "quota: 2, limit: 2");
    assert_eq!(first_quotas(&text).len(), 2);
    // A child without a limit shares the amount of its parent.
    let text = parent("quota: 10, limit: 10") + &child("a", "quota: -1, limit: -1");
    let shared = json!({"name": "nvidia.com/gpu", "nominalQuota": "0"});
    assert_eq!(first_quotas(&text), [quota("10", "0"), shared]);
}

#[test]
fn kai_queues_without_a_limit_get_no_quota() {
    let all = "resources: {gpu: {quota: -1, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}";
    let text = kai("default-parent-queue", all)
        + &kai(
            "default-queue",
            &format!("parentQueue: default-parent-queue, {all}"),
        );
    let imported = import_text(&text);
    assert_eq!(first_quotas(&text), Vec::<Value>::new());
    assert_eq!(
        queue_parents(&imported),
        [
            queue("default-parent-queue", Value::Null),
            queue("default-queue", "default-parent-queue")
        ]
    );
    // Queues without a parent share the cluster.
    let imported = import_text(&(kai("a", all) + &kai("b", all)));
    let below_root = [
        queue("root", Value::Null),
        queue("a", "root"),
        queue("b", "root"),
    ];
    assert_eq!(queue_parents(&imported), below_root);
}

#[test]
fn invalid_fields_of_kai_queues_are_errors() {
    for (spec, expected) in [
        (
            "resources: {}",
            "spec.resources: names none of gpu, cpu and memory, so KAI starts no job: add them, with quota -1 for no limit",
        ),
        (
            "priority: 1",
            "spec.resources: is required, as in KAI: add gpu, cpu and memory, with quota -1 for no limit",
        ),
        (
            "resources: {gpu: {quota: -2}}",
            "spec.resources.gpu.quota: must be a number of 0 or more, or -1 for no limit: correct it",
        ),
        (
            "resources: {gpu: {limit: many}}",
            "spec.resources.gpu.limit: must be a number of 0 or more, or -1 for no limit: correct it",
        ),
        (
            "resources: {gpu: {overQuotaWeight: 2000}}",
            "spec.resources.gpu.overQuotaWeight: becomes a TrainingQueue that Trellis would refuse: spec.weight: must be a weight of 0 to 1000, such as 2 or \"0.5\": a queue that names none has 1",
        ),
        (
            "resources: {gpu: {quota: 1}}, preemptMinRuntime: soon",
            "spec.preemptMinRuntime: must be a duration such as 10m: correct it",
        ),
    ] {
        let imported = import_text(&kai("a", spec));
        assert_eq!(imported[0].objects, [], "{spec}");
        let problems = imported[0].problems.iter();
        let problems: Vec<_> = problems
            .map(|p| format!("{}: {}", p.field, p.message))
            .collect();
        assert_eq!(problems, [expected]);
    }
}

#[test]
fn kai_queue_without_a_weight_borrows_last() {
    for (gpu, expected) in [
        ("quota: 4, limit: 4", Value::Null),
        ("quota: 4, limit: 8", json!("0")),
        ("quota: 4, limit: 8, overQuotaWeight: 1", Value::Null),
        ("quota: 4, limit: 8, overQuotaWeight: 0.5", json!("0.5")),
    ] {
        let text = kai(
            "a",
            &format!("parentQueue: p, resources: {{gpu: {{{gpu}}}}}"),
        );
        let imported = import_text(&text);
        let queue = serde_json::to_value(imported[0].objects.last().unwrap()).unwrap();
        assert_eq!(queue["spec"]["weight"], expected, "{gpu}");
    }
}

/// A Job with these labels and annotations of the Job, and this metadata of its pods.
fn job(labels: &str, annotations: &str, pods: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: a, labels: {{{labels}}}, annotations: {{{annotations}}}}}\nspec:\n  completions: 8\n  parallelism: 8\n  template:\n    metadata: {{{pods}}}\n    spec: {{schedulerName: kai-scheduler, containers: [{{{CONTAINER}}}]}}\n"
    )
}

/// A PyTorchJob of 8 workers with these labels and annotations of its pods.
fn workers(labels: &str, annotations: &str, pods: &str) -> String {
    format!(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: a}}\nspec: {{pytorchReplicaSpecs: {{Worker: {{replicas: 8, template: {{metadata: {{labels: {{{labels}}}, annotations: {{{annotations}}}}}, spec: {{{pods} containers: [{{{CONTAINER}}}]}}}}}}}}}}\n"
    )
}

#[test]
fn job_in_a_queue_of_kai_starts_with_its_smallest_number_of_pods() {
    let queued = "kai.scheduler/queue: q";
    let minimum = |text: &str| group(&import_object(text), 0)["minReplicas"].clone();
    // KAI starts each pod by itself.
    assert_eq!(minimum(&job(queued, "", "")), 1);
    let annotation = "kai.scheduler/batch-min-member: \"4\"";
    assert_eq!(minimum(&job(queued, annotation, "")), 4);
    let single = job(queued, "", "").replace(": 8\n", ": 1\n");
    assert_eq!(minimum(&single), Value::Null);
    // Kueue admits all pods together.
    let both = job(
        "kueue.x-k8s.io/queue-name: k, kai.scheduler/queue: q",
        "",
        "",
    );
    assert_eq!(minimum(&both), Value::Null);
    assert_eq!(import_object(&both)["spec"]["queueName"], "k");
    let note = "metadata.labels.kai.scheduler/queue: \"q\" differs from the queue in Kueue's label; write the queue that you want into spec.queueName";
    assert!(import_notes(&both).contains(&note.to_owned()));
    let [document] = &documents(&job(queued, "", ""))[..] else {
        panic!()
    };
    assert!(is_importable(document) && becomes_job(document));
}

#[test]
fn kai_queue_that_is_not_in_the_input_is_noted_once() {
    let queued = "kai.scheduler/queue: q";
    let pods = |labels: &str| workers(labels, "", "schedulerName: kai-scheduler,");
    let of_both = pods(queued).replace("{name: a}", &format!("{{name: a, labels: {{{queued}}}}}"));
    let of_kueue = job(&format!("kueue.x-k8s.io/queue-name: q, {queued}"), "", "");
    let own = "metadata.labels.kai.scheduler/queue: \"q\" names a queue that is not in the input";
    let of_pods = format!("spec.pytorchReplicaSpecs.Worker.template.{own}");
    for (text, expected) in [
        (job(queued, "", ""), Some(own)),
        (pods(queued), Some(of_pods.as_str())),
        (of_both, Some(own)),
        // The LocalQueue of Kueue is the queue.
        (of_kueue, None),
    ] {
        let notes = import_notes(&text);
        let missing = notes.iter().filter(|note| note.contains("names a queue"));
        let missing: Vec<_> = missing.collect();
        assert_eq!(missing.len(), usize::from(expected.is_some()), "{notes:?}");
        assert!(
            missing
                .iter()
                .all(|note| note.starts_with(expected.unwrap()))
        );
        let queue = kai("q", "resources: {gpu: {quota: 1, limit: 1}}");
        let notes = import_notes(&format!("{queue}{text}"));
        assert!(!notes.iter().any(|note| note.contains("names a queue")));
    }
}

#[test]
fn labels_of_kai_pods_count_for_the_job() {
    let spec = |text: &str| import_object(text)["spec"].clone();
    let labels = "kai.scheduler/queue: q, priorityClassName: high";
    let of_kai = spec(&workers(labels, "", "schedulerName: kai-scheduler,"));
    assert_eq!(of_kai["queueName"], "q");
    assert_eq!(of_kai["priorityClassName"], "high");
    // Another scheduler does not know the second label.
    let other = spec(&workers(labels, "", ""));
    assert_eq!(other["priorityClassName"], Value::Null);
    assert_eq!(
        other["podMetadata"]["labels"],
        json!({"priorityClassName": "high"})
    );
    let two = workers(
        labels,
        "",
        "schedulerName: kai-scheduler, priorityClassName: low,",
    );
    assert_eq!(spec(&two)["priorityClassName"], "high");
    let path = "spec.pytorchReplicaSpecs.Worker.template.spec.priorityClassName: \"low\" differs";
    assert!(import_notes(&two).iter().any(|note| note.starts_with(path)));
}

#[test]
fn classes_that_kai_never_preempts_are_protected() {
    for (scheduler, expected) in [
        ("kai-scheduler", json!("ProtectedWithinQuota")),
        ("default-scheduler", Value::Null),
    ] {
        let pods = format!("schedulerName: {scheduler}, priorityClassName: inference,");
        let job = import_object(&workers("", "", &pods));
        assert_eq!(job["spec"]["preemptibility"], expected);
    }
    for (labels, expected) in [
        ("priorityClassName: train", Value::Null),
        ("priorityClassName: build", json!("ProtectedWithinQuota")),
        (
            "priorityClassName: build, kai.scheduler/preemptibility: preemptible",
            json!("Preemptible"),
        ),
        (
            "kai.scheduler/preemptibility: non-preemptible",
            json!("ProtectedWithinQuota"),
        ),
    ] {
        let text = job(&format!("kai.scheduler/queue: q, {labels}"), "", "");
        assert_eq!(
            import_object(&text)["spec"]["preemptibility"],
            expected,
            "{labels}"
        );
    }
}

#[test]
fn segments_become_required_or_preferred_slices() {
    let size = "kai.scheduler/segment-size: \"4\"";
    let required = "kai.scheduler/segment-topology-required-placement: rack";
    let preferred = "kai.scheduler/segment-topology-preferred-placement: rack";
    let slices = json!({"slices": [{"level": "rack", "pods": 4}]});
    for (annotations, expected, count) in [
        (format!("{size}, {required}"), slices.clone(), 0),
        (format!("{size}, {required}, {preferred}"), slices, 1),
        (
            format!("{size}, {preferred}"),
            json!({"slices": [{"level": "rack", "pods": 4}], "slicePolicy": "Preferred"}),
            0,
        ),
        (size.to_owned(), Value::Null, 1),
        (format!("{required}, {preferred}"), Value::Null, 2),
        // Kueue's annotations come first.
        (
            format!("{size}, {required}, kueue.x-k8s.io/podset-required-topology: block"),
            json!({"required": "block"}),
            2,
        ),
    ] {
        let text = workers("", &annotations, "");
        assert_eq!(
            group(&import_object(&text), 0)["topology"],
            expected,
            "{annotations}"
        );
        let notes = import_notes(&text);
        let of_kai = notes.iter().filter(|note| note.contains("kai.scheduler"));
        assert_eq!(of_kai.count(), count, "{notes:?}");
    }
}

#[test]
fn alias_with_two_node_labels_stays_as_it_is() {
    let topology = |name: &str, label: &str| {
        format!(
            "---\napiVersion: kai.scheduler/v1\nkind: Topology\nmetadata: {{name: {name}}}\nspec: {{levels: [{{nodeLabel: {label}, alias: rack}}]}}\n"
        )
    };
    let text = workers("", "kai.scheduler/topology-required-placement: rack", "");
    for (topologies, expected) in [
        (topology("t", "example.com/rack"), "example.com/rack"),
        (
            topology("t", "example.com/rack") + &topology("u", "other"),
            "rack",
        ),
    ] {
        let imported = import_text(&(text.clone() + &topologies));
        let job = serde_json::to_value(&imported[0].objects[0]).unwrap();
        assert_eq!(group(&job, 0)["topology"], json!({"required": expected}));
    }
}

#[test]
fn invalid_labels_and_annotations_of_kai_are_errors() {
    let queue = "kai.scheduler/queue: q";
    let template = "spec.pytorchReplicaSpecs.Worker.template.metadata.annotations.kai.scheduler";
    let segments = |size: &str| {
        format!(
            "kai.scheduler/segment-size: \"{size}\", kai.scheduler/segment-topology-required-placement: rack"
        )
    };
    for (text, expected) in [
        (
            job(queue, "kai.scheduler/batch-min-member: half", ""),
            "metadata.annotations.kai.scheduler/batch-min-member: must be a number of pods: write digits only".to_owned(),
        ),
        (
            job("kai.scheduler/queue: q, kai.scheduler/preemptibility: never", "", ""),
            "metadata.labels.kai.scheduler/preemptibility: must be preemptible, non-preemptible or semi-preemptible: write one of them".to_owned(),
        ),
        (
            workers("", &segments("four"), ""),
            format!("{template}/segment-size: must be the number of pods of a segment: write one, such as \"4\""),
        ),
        (
            workers("", &segments("3"), ""),
            format!("{template}/segment-size: becomes a TrainingJob that Trellis would refuse: spec.taskGroups[0].topology: replicas must be a multiple of topology.slices[0].pods, because all slices have the same size: change pods or replicas, or use atMost; replicas is 8 and pods is 3: change replicas to 6 or 9, or pods to a divisor of 8"),
        ),
        (
            job(queue, "kai.scheduler/batch-min-member: \"9\"", ""),
            "metadata.annotations.kai.scheduler/batch-min-member: becomes a TrainingJob that Trellis would refuse: spec.taskGroups[0].minReplicas: minReplicas must be 1 at least and replicas at most: the gang is minReplicas pods, and those above come and go with the room that there is".to_owned(),
        ),
    ] {
        let imported = import_text(&text);
        assert_eq!(imported[0].objects, [], "{text}");
        let problems = imported[0].problems.iter();
        let problems: Vec<_> = problems.map(|p| format!("{}: {}", p.field, p.message)).collect();
        assert_eq!(problems, [expected]);
    }
}

#[test]
fn pod_group_of_kai_names_the_fields_of_its_task_groups() {
    let pod_group = |spec: &str| {
        format!(
            "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {{name: a}}\nspec: {spec}\n"
        )
    };
    let text =
        pod_group("{topologyConstraint: {topology: t}, subGroups: [{name: b, minMember: 3}]}");
    let imported = import_text(&text);
    assert_eq!(
        (&imported[0].objects[..], &imported[0].problems[..]),
        (&[][..], &[][..])
    );
    assert_eq!(
        import_notes(&text),
        [
            "spec.topologyConstraint: {\"topology\":\"t\"} is about all pods, and a TrainingJob has its own topology; leave it out",
            "spec.subGroups[0]: {\"name\":\"b\",\"minMember\":3} is a sub-group of \"default/a\", and becomes a task group in Trellis; write minReplicas: 3 into the task group of its pods",
        ]
    );
    for (spec, expected) in [
        (
            "{subGroups: [{name: b, minMember: all}]}",
            "spec.subGroups[0].minMember: must be a whole number, not the text \"all\"",
        ),
        (
            "{subGroups: [b]}",
            "spec.subGroups[0]: must be a mapping, not the text \"b\"",
        ),
        (
            "null",
            "spec: is required: add it, or leave the PodGroup out",
        ),
    ] {
        let imported = import_text(&pod_group(spec));
        let problems = imported[0].problems.iter();
        let problems: Vec<_> = problems
            .map(|p| format!("{}: {}", p.field, p.message))
            .collect();
        assert_eq!(problems, [expected]);
    }
}
