mod common_mistakes;
mod short_jobs;
mod yaml;

use super::*;
use crate::{TrainingJob, TrainingQueue};
use serde_json::{Value, json};

const JOB: &str = "apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata: {name: a}
spec:
  taskGroups:
  - {name: w, replicas: 1, image: x, resources: {limits: {cpu: 1, memory: 1Gi}}}
";

fn problems(text: &str) -> Vec<Problem> {
    read(text)
        .into_iter()
        .flat_map(|document| match document {
            Err(problem) => vec![problem],
            Ok(document) => match document.decode_valid::<TrainingJob>() {
                Ok(_) => vec![],
                Err(problems) => problems.into_iter().collect(),
            },
        })
        .collect()
}

/// Returns line, column, field and message of all problems.
fn problem_rows(text: &str) -> Vec<(usize, usize, String, String)> {
    problems(text)
        .into_iter()
        .map(|p| (p.line, p.column, p.field, p.message))
        .collect()
}

fn single_problem(from: &str, to: &str) -> (usize, usize, String, String) {
    let text = JOB.replace(from, to);
    assert_ne!(text, JOB);
    let all = problem_rows(&text);
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_iter().next().unwrap()
}

#[test]
fn violation_has_position_field_rule_and_fix() {
    let (line, column, field, message) = single_problem("replicas: 1", "replicas: 0");
    assert_eq!((line, column), (6, 25));
    assert_eq!(field, "spec.taskGroups[0].replicas");
    assert!(message.starts_with("must be 1 to 4096: "), "{message}");
    let problem = &problems(&JOB.replace("replicas: 1", "replicas: 0"))[0];
    let lines: Vec<&str> = problem.snippet.lines().collect();
    assert_eq!(lines[0], "  |");
    assert!(lines[1].starts_with("6 |   - {name: w, replicas: 0"));
    assert_eq!(lines[2].find('^'), lines[1].find(": 0").map(|i| i + 2));
}

/// The API server refuses these lists because the CRD declares them as maps.
#[test]
fn name_that_a_list_has_twice_is_refused() {
    let (_, _, field, message) = single_problem(
        "image: x",
        "image: x, imagePullSecrets: [{name: a}, {name: b}, {name: a}]",
    );
    assert_eq!(field, "spec.taskGroups[0].imagePullSecrets");
    assert_eq!(
        message,
        "must name each Secret once: remove the repeated name"
    );

    let flavor = "{name: spot, resources: [{name: cpu, nominalQuota: 1}]}";
    let queue = format!(
        "apiVersion: trellis.dev/v1alpha1
kind: TrainingQueue
metadata: {{name: a}}
spec: {{resourceGroups: [{{coveredResources: [cpu], flavors: [{flavor}, {flavor}]}}]}}
"
    );
    let documents = split(&queue).unwrap();
    let problems = documents[0].decode_valid::<TrainingQueue>().unwrap_err();
    let [problem] = problems.as_slice() else {
        panic!("{problems}");
    };
    assert_eq!(problem.field, "spec.resourceGroups[0].flavors");
    assert_eq!(
        problem.message,
        "must name each flavor once: put its resources into one entry"
    );
}

#[test]
fn violations_are_listed_in_file_order() {
    let text = JOB
        .replace("memory: 1Gi", "memory: -1Gi")
        .replace("replicas: 1", "replicas: 0");
    let two = format!("{text}---\n{text}");
    let fields: Vec<_> = problem_rows(&two).into_iter().map(|s| (s.0, s.2)).collect();
    let replicas = "spec.taskGroups[0].replicas".to_owned();
    let memory = "spec.taskGroups[0].resources.limits.memory".to_owned();
    assert_eq!(
        fields,
        [
            (6, replicas.clone()),
            (6, memory.clone()),
            (13, replicas),
            (13, memory)
        ]
    );
}

#[test]
fn decode_error_names_its_field() {
    let cases = [
        (
            ("replicas: 1", "replicaas: 1"),
            (6, 15, "spec.taskGroups[0].replicaas"),
            "is no known field: did you mean \"replicas\"?",
        ),
        (
            ("replicas: 1", "replicas: many"),
            (6, 25, "spec.taskGroups[0].replicas"),
            "must be a whole number, not the text \"many\"",
        ),
        (
            ("image: x, ", ""),
            (6, 5, "spec.taskGroups[0].image"),
            "is required: add it",
        ),
        (
            ("image: x", "image: 12"),
            (6, 35, "spec.taskGroups[0].image"),
            "must be a text, not the number 12: put it in quotes",
        ),
        (
            ("{name: a}", "{name: a, lables: {x: y}}"),
            (3, 21, "metadata.lables"),
            "is no known field: correct its name or remove it",
        ),
        (
            (
                "image: x",
                "image: x, affinity: {nodeAffinity: {requiredDuringScheduling: {}, x: {a: b}}}",
            ),
            (6, 94, "spec.taskGroups[0].affinity.nodeAffinity.x"),
            "is no known field: correct its name or remove it",
        ),
    ];
    for ((from, to), (line, column, field), message) in cases {
        let expected = (line, column, field.to_owned(), message.to_owned());
        assert_eq!(single_problem(from, to), expected);
    }
}

#[test]
fn unknown_field_does_not_hide_other_problems() {
    let text = JOB
        .replace("{name: a}", "{name: A, lables: {x: y}}")
        .replace("replicas: 1", "replcas: 1, gpu: 8")
        .replace("limits: {cpu: 1", "gpus: 8, limits: {cpu: 1");
    let fields: Vec<_> = problem_rows(&text).into_iter().map(|s| s.2).collect();
    assert_eq!(
        fields,
        [
            "metadata.name",
            "metadata.lables",
            "spec.taskGroups[0].replcas",
            "spec.taskGroups[0].gpu",
            "spec.taskGroups[0].resources.gpus",
        ]
    );
}

/// A wrong type or a missing field does not hide other problems.
#[test]
fn all_problems_are_listed_at_once() {
    let fields = |from: &str, to: &str| -> Vec<(usize, usize, String)> {
        let text = JOB.replace(from, to);
        assert_ne!(text, JOB);
        let all = problem_rows(&text).into_iter();
        all.map(|(line, column, field, _)| (line, column, field))
            .collect()
    };
    let group = |field: &str| format!("spec.taskGroups[0].{field}");
    let wrong = fields(
        "replicas: 1, image: x, resources: {limits: {cpu: 1, memory: 1Gi}}",
        "replicas: \"3\", gpus: 1.5, image: x, resources: {limits: {cpu: 4 cores, memory: 8GB}}",
    );
    let expected = [
        (6, 25, group("replicas")),
        (6, 36, group("gpus")),
        (6, 77, group("resources.limits.cpu")),
        (6, 94, group("resources.limits.memory")),
    ];
    assert_eq!(wrong, expected);
    // A missing required field is reported, whatever its type, but not the fields in it.
    let missing = fields(
        "image: x, resources: {limits: {cpu: 1, memory: 1Gi}}",
        "resources: {}",
    );
    let missing: Vec<_> = missing.into_iter().map(|m| m.2).collect();
    let mut expected = [
        group("image"),
        group("resources.limits.cpu"),
        group("resources.limits.memory"),
    ];
    let mut sorted = missing.clone();
    sorted.sort();
    expected.sort();
    assert_eq!(sorted, expected, "{missing:?}");
    // The group may have GPUs, and then needs no resources of its own.
    let gpus = fields("resources: {limits: {cpu: 1, memory: 1Gi}}", "gpus: \"8\"");
    let gpus: Vec<_> = gpus.into_iter().map(|m| m.2).collect();
    assert_eq!(gpus, [group("gpus")]);
    let outer = fields(
        "image: x, resources: {limits: {cpu: 1, memory: 1Gi}}",
        "image: [x]",
    );
    let outer: Vec<_> = outer.into_iter().map(|m| m.2).collect();
    let resources = [
        group("resources.limits.cpu"),
        group("resources.limits.memory"),
    ];
    let image = [group("image")];
    assert_eq!(outer, [&resources[..], &image[..]].concat());
    let spec = fields("spec:", "sepc:");
    assert_eq!(spec, [(1, 1, "spec".to_owned()), (4, 1, "sepc".to_owned())]);
    // Items of a list keep their index.
    let items = fields("image: x", "image: x, args: [a, 1, b, 2], ports: {name: a}");
    let items: Vec<_> = items.into_iter().map(|m| m.2).collect();
    assert_eq!(items, [group("args[1]"), group("args[3]"), group("ports")]);
    // A stand-in breaks no rule on several fields.
    let several = fields(
        "spec:\n",
        "spec:\n  framework: [PyTorch]\n  restart: {backoffSeconds: x, maxBackoffSeconds: 5}\n",
    );
    let several: Vec<_> = several.into_iter().map(|m| m.2).collect();
    assert_eq!(several, ["spec.framework", "spec.restart.backoffSeconds"]);
}

#[test]
fn snippet_is_bounded_and_has_no_control_characters() {
    let long = JOB.replace(
        "image: x",
        &format!("image: \"{}\", replcas: 1", "\u{202e}".repeat(500)),
    );
    let problem = &problems(&long)[0];
    assert_eq!(problem.field, "spec.taskGroups[0].replcas");
    let lines: Vec<&str> = problem.snippet.lines().collect();
    assert!(lines[1].chars().count() < 120, "{}", lines[1]);
    assert!(!problem.snippet.contains('\u{202e}'));
    let mark = lines[2].chars().count() - 1;
    let marked: String = lines[1].chars().skip(mark).take(7).collect();
    assert_eq!(marked, "replcas");
}

#[test]
fn embedded_object_keeps_its_position() {
    let text = "apiVersion: v1
kind: X
spec:
  list:
  - apply: {kind: TrainingQueue, metadata: {name: q}, spec: {wieght: 1}}
  - apply: {metadata: {name: q}}
  - apply: {kind: Z}
";
    let outer = split(text).unwrap().remove(0);
    let ours = |kind: &str| (kind == "TrainingQueue").then_some("trellis.dev/v1alpha1");
    let inner = outer.embedded_object("spec.list[0].apply", ours).unwrap();
    let known = (inner.api_version.as_str(), inner.kind.as_str());
    assert_eq!(known, ("trellis.dev/v1alpha1", "TrainingQueue"));
    let problems = inner.decode_valid::<TrainingQueue>().unwrap_err();
    let problem = &problems.as_slice()[0];
    let field = "spec.list[0].apply.spec.wieght";
    assert_eq!((problem.line, problem.field.as_str()), (5, field));
    for (field, line, says) in [
        ("spec.list[1].apply", 6, "has no kind"),
        ("spec.list[2].apply", 7, "has no apiVersion, and \"Z\""),
        ("spec.list[9].apply", 4, "has no kind"),
    ] {
        let problem = outer.embedded_object(field, ours).unwrap_err();
        assert!(problem.message.starts_with(says), "{}", problem.message);
        assert_eq!(problem.line, line, "{field}");
    }
}

proptest::proptest! {
    #[test]
    fn document_reader_never_panics(text in "\\PC{0,200}", cut in 0_usize..200) {
        let _ = problem_rows(&text);
        let mangled: String = JOB.chars().enumerate()
            .map(|(i, c)| if i == cut { text.chars().next().unwrap_or('\t') } else { c })
            .collect();
        let _ = problem_rows(&mangled);
    }
}

proptest::proptest! {
    #[test]
    fn yaml_round_trips(text in "[a-zA-Z0-9:#~!&*?|>@`%{}\\[\\], \\t\\n\"'.=+-]{0,12}", key in "[a-z./_-]{1,9}") {
        let object = json!({"apiVersion": "v1", "kind": "X", "v": [text, {key: text}]});
        let yaml = to_yaml(&object).unwrap();
        let read: Value = split(&yaml).unwrap()[0].decode().unwrap();
        proptest::prop_assert_eq!(read, object, "{}", yaml);
    }
}
