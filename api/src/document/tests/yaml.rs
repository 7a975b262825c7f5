//! YAML syntax: documents, lists, scalars, anchors and quotes, as kubectl reads them.

use super::*;

#[test]
fn invalid_yaml_is_refused_with_its_position() {
    let (line, column, field, message) = single_problem("spec:\n  task", "spec:\n\ttask");
    assert_eq!((line, column, field.as_str()), (5, 1, ""));
    assert_eq!(message, "is indented with a tab: indent with spaces");
    let (line, _, _, message) = single_problem("{name: a}", "{name: a");
    assert!(line > 0 && message.starts_with("is no YAML: "), "{message}");
    let (line, _, _, message) = single_problem("kind: TrainingJob\n", "");
    assert_eq!(line, 1);
    assert!(message.starts_with("has no apiVersion and kind"));
    assert_eq!(problem_rows("just text\n")[0].0, 1);
    let (line, _, _, message) = single_problem("spec:", "metadata: {name: b}\nspec:");
    assert_eq!(line, 4);
    assert_eq!(message, "duplicate key \"metadata\": remove one of the two");
    // The parser reports the line before.
    let tab = "a:\n- name: worker\n\treplicas: 2\n";
    let (line, column, _, message) = problem_rows(tab).remove(0);
    assert_eq!((line, column), (3, 1));
    assert_eq!(message, "is indented with a tab: indent with spaces");
}

#[test]
fn line_ends_and_byte_order_marks_are_ignored() {
    let wrong = JOB.replace("replicas: 1", "replicas: 0");
    let plain = problem_rows(&wrong);
    assert_eq!(problem_rows(&wrong.replace('\n', "\r\n")), plain);
    assert_eq!(problem_rows(&format!("\u{feff}{wrong}")), plain);
    let snippet = &problems(&wrong.replace('\n', "\r\n"))[0].snippet;
    assert!(!snippet.contains(['\r', '\u{fffd}']), "{snippet}");
}

#[test]
fn documents_are_split_at_their_markers() {
    let count = |text: &str| split(text).unwrap().len();
    assert_eq!(count(""), 0);
    assert_eq!(count("# nothing\n---\n---\n"), 0);
    assert_eq!(count(&format!("%YAML 1.2\n---\n{JOB}...\n---\n{JOB}")), 2);
    assert_eq!(count("--- {apiVersion: v1, kind: Node}\n"), 1);
    assert_eq!(count("--- # a comment\napiVersion: v1\nkind: Node\n"), 1);
    assert!(split(&"x".repeat(MAX_FILE + 1)).is_err());
}

#[test]
fn list_is_split_into_its_items() {
    let list = "apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node}
- apiVersion: trellis.dev/v1alpha1
  kind: TrainingQueue
  metadata: {name: q}
  spec: {wieght: 1}
";
    let documents = split(list).unwrap();
    let kinds: Vec<_> = documents.iter().map(|d| d.kind.as_str()).collect();
    assert_eq!(kinds, ["Node", "TrainingQueue"]);
    let problems = documents[1].decode_valid::<TrainingQueue>().unwrap_err();
    let problem = &problems.as_slice()[0];
    assert_eq!(
        (problem.line, problem.field.as_str()),
        (8, "items[1].spec.wieght")
    );
    let nodes = "{apiVersion: v1, kind: NodeList, items: [{metadata: {name: a}}]}";
    let documents = split(nodes).unwrap();
    assert_eq!(
        (
            documents[0].api_version.as_str(),
            documents[0].kind.as_str()
        ),
        ("v1", "Node")
    );
    assert!(
        split("{apiVersion: v1, kind: List, items: []}")
            .unwrap()
            .is_empty()
    );
    // A list of lists is not a list of objects, and the reader does not recurse.
    let nested =
        split("{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: List, items: []}]}");
    assert_eq!(nested.unwrap()[0].kind, "List");
}

/// A thread of a server has two megabytes of stack.
#[test]
fn deep_nesting_is_an_error_on_a_small_stack() {
    let texts = [
        "- ".repeat(60_000),
        "[".repeat(60_000),
        "{a: ".repeat(60_000),
    ];
    let reader = std::thread::Builder::new().stack_size(2 << 20);
    let read = reader.spawn(move || texts.map(|text| split(&text).is_err()));
    assert_eq!(read.unwrap().join().unwrap(), [true, true, true]);
}

/// The expected values are those that kubectl reads from the same text.
#[test]
fn yaml_values_match_those_that_kubectl_sends() {
    let text = "{apiVersion: v1, kind: X, v: [no, y, on, Off, 0777, 0x1F, 1_000, 1e3, .5, 2001-01-01, ~, \"~\", TRUE, 1:30, Null, \"\", -3, '1', 18446744073709551615]}";
    let value: Value = split(text).unwrap()[0].decode().unwrap();
    assert_eq!(
        value["v"],
        json!([
            false,
            true,
            true,
            false,
            511,
            31,
            1000,
            1000,
            0.5,
            "2001-01-01",
            null,
            "~",
            true,
            "1:30",
            null,
            "",
            -3,
            "1",
            18446744073709551615_u64
        ])
    );
    assert!(split("{apiVersion: v1, kind: X, v: .inf}").is_err());
}

#[test]
fn anchors_are_expanded_within_a_budget() {
    let text = JOB.replace("replicas: 1", "replicas: &r 0").replace(
        "1Gi}}}\n",
        "1Gi}}}\n  - {name: v, replicas: *r, image: x, resources: {limits: {cpu: 1, memory: 1Gi}}}\n",
    );
    let lines: Vec<_> = problem_rows(&text)
        .into_iter()
        .map(|s| (s.0, s.2))
        .collect();
    assert_eq!(
        lines,
        [
            (6, "spec.taskGroups[0].replicas".to_owned()),
            (7, "spec.taskGroups[1].replicas".to_owned())
        ]
    );
    let mut bomb = String::from("apiVersion: v1\nkind: X\na: &a [x,x,x,x,x,x,x,x,x]\n");
    for (last, next) in "abcdefgh".chars().zip("bcdefghi".chars()) {
        let nine = vec![format!("*{last}"); 9].join(",");
        bomb.push_str(&format!("{next}: &{next} [{nine}]\n"));
    }
    let (line, _, _, message) = problem_rows(&bomb).remove(0);
    assert!(line > 0);
    assert!(message.contains("fewer anchors"), "{message}");
    let deep = format!("apiVersion: v1\nkind: X\na: {}", "[".repeat(10_000));
    assert_eq!(problem_rows(&deep).len(), 1);
}

/// Words that kubectl, which reads YAML 1.1, would not read as text.
#[test]
fn yaml_quotes_text_that_kubectl_would_misread() {
    let words = [
        "yes",
        "No",
        "on",
        "OFF",
        "y",
        "N",
        "true",
        "null",
        "~",
        "",
        "0777",
        "0x1F",
        "1_000",
        "1e3",
        "1:30",
        ".5",
        "2001-01-01",
        ".inf",
        "-",
        "=",
        "<<",
        "0b1",
        "+1",
        "0o17",
        "--- a",
        "a: b",
        "a #b",
        " a ",
        "a\nb\n",
        "\u{feff}",
    ];
    let object = json!({"apiVersion": "v1", "kind": "X", "v": words});
    let yaml = to_yaml(&object).unwrap();
    let read: Value = split(&yaml).unwrap()[0].decode().unwrap();
    assert_eq!(read, object, "{yaml}");
}
