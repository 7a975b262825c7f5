//! WorkloadPriorityClasses, and the order of the output.

use trellis_api::document;
use trellis_import::yaml;

use super::{notes, object, of};

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
    let class = object(CLASS);
    assert_eq!(class["kind"], "PriorityClass");
    assert_eq!(class["apiVersion"], "scheduling.k8s.io/v1");
    assert_eq!(
        (&class["value"], &class["description"]),
        (&1000.into(), &"first".into())
    );
    assert_eq!(notes(CLASS).len(), 1);
}

#[test]
fn workload_priority_class_that_no_priority_class_can_be_is_refused() {
    for (from, to, wanted) in [
        ("value: 1000\n", "", "is required: add it"),
        ("value: 1000", "value: 2000000000", "lower it"),
        ("value: 1000", "value: high", "must be"),
    ] {
        let imported = of(&CLASS.replace(from, to));
        let [problem] = imported[0].problems.as_slice() else {
            panic!("{imported:?}")
        };
        assert_eq!(problem.field, "value");
        assert!(problem.message.contains(wanted), "{problem}");
    }
}

#[test]
fn what_a_job_names_is_printed_before_it() {
    let kinds = |text: &str| {
        let printed = document::split(&yaml(&of(text))).unwrap();
        printed.into_iter().map(|d| d.kind).collect::<Vec<_>>()
    };
    let text = format!("{JOB}---\n{QUEUE}---\n{CLASS}");
    assert_eq!(
        kinds(&text),
        ["PriorityClass", "TrainingQueue", "TrainingJob"]
    );
}

#[test]
fn priority_class_that_is_made_need_not_be_made_by_hand() {
    let by_hand = |text: &str| notes(text).iter().any(|n| n.contains("make one"));
    assert!(by_hand(JOB));
    assert!(!by_hand(&format!("{JOB}---\n{CLASS}")));
}
