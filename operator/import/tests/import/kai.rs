//! Queues, topologies and jobs of KAI.

use serde_json::{Value, json};

use super::queues::{queue, queue_parents};
use super::{import_notes, import_text};

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
        let has_note = |note: &String| note.starts_with(&path) && note.contains("count in full");
        assert!(notes.iter().any(has_note), "{notes:?}");
    }
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
