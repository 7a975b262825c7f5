//! WorkloadPriorityClasses, and the order of the output.

use trellis_api::document;
use trellis_import::render_yaml;

use super::{import_notes, import_object, import_text};

const CLASS: &str = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: WorkloadPriorityClass\nmetadata: {name: urgent}\nvalue: 1000\ndescription: first\n";
const QUEUE: &str =
    "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: q}\nspec: {}\n";
const JOB: &str = r#"apiVersion: batch/v1
kind: Job
metadata:
  name: j
  labels: {kueue.x-k8s.io/queue-name: q, kueue.x-k8s.io/priority-class: urgent}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: x, resources: {limits: {cpu: 1, memory: 1Gi}}}
"#;

#[test]
fn workload_priority_class_becomes_a_priority_class() {
    let class = import_object(CLASS);
    assert_eq!(class["kind"], "PriorityClass");
    assert_eq!(class["apiVersion"], "scheduling.k8s.io/v1");
    assert_eq!(
        (&class["value"], &class["description"]),
        (&1000.into(), &"first".into())
    );
    assert_eq!(import_notes(CLASS).len(), 1);
}

#[test]
fn workload_priority_class_above_the_maximum_is_refused() {
    for (from, to, expected) in [
        ("value: 1000\n", "", "is required: add it"),
        ("value: 1000", "value: 2000000000", "lower it"),
        ("value: 1000", "value: high", "must be"),
    ] {
        let imported = import_text(&CLASS.replace(from, to));
        let [problem] = imported[0].problems.as_slice() else {
            panic!("{imported:?}")
        };
        assert_eq!(problem.field, "value");
        assert!(problem.message.contains(expected), "{problem}");
    }
}

#[test]
fn referenced_objects_are_printed_before_the_job() {
    let kinds = |text: &str| {
        let printed = document::split(&render_yaml(&import_text(text))).unwrap();
        printed.into_iter().map(|d| d.kind).collect::<Vec<_>>()
    };
    let text = format!("{JOB}---\n{QUEUE}---\n{CLASS}");
    assert_eq!(
        kinds(&text),
        ["PriorityClass", "TrainingQueue", "TrainingJob"]
    );
}

#[test]
fn imported_priority_class_needs_no_note() {
    let by_hand = |text: &str| {
        import_notes(text)
            .iter()
            .any(|n| n.contains("create a PriorityClass"))
    };
    assert!(by_hand(JOB));
    assert!(!by_hand(&format!("{JOB}---\n{CLASS}")));
}
