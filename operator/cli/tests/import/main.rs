//! Tests of `trellis import`, as a user runs it.
//! After a change to its output, review the golden files in `snapshots` and accept them with
//! `INSTA_UPDATE=always`. The tests in `operator/import` cover each kind.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

#[path = "../command/mod.rs"]
mod command;

use std::path::{Path, PathBuf};

use command::Run;

fn input() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import/input")
}

fn run(command: &str, arguments: &[&str], stdin: &str) -> Run {
    let program = Path::new(env!("CARGO_BIN_EXE_trellis"));
    command::run(program, &input(), &[&[command], arguments].concat(), stdin)
}

/// `trellis import` with these arguments.
fn import(arguments: &[&str]) -> Run {
    run("import", arguments, "")
}

#[test]
fn several_files_are_imported_together() {
    let run = import(&["-f", "job.yaml", "-f", "queue.yaml"]);
    insta::assert_snapshot!("together", run.golden());
}

#[test]
fn standard_input_and_folders_are_read() {
    let imported = import(&["-f", "job.yaml", "-f", "queue.yaml"]);
    let text = |name: &str| std::fs::read_to_string(input().join(name)).unwrap();
    let joined = format!("{}---\n{}", text("job.yaml"), text("queue.yaml"));
    let piped = run("import", &["-f", "-"], &joined);
    assert_eq!(
        (piped.code, piped.out),
        (0, imported.out.clone()),
        "{}",
        piped.err
    );
    assert!(piped.err.contains("note: <stdin>:"), "{}", piped.err);
    let folder = tempfile::tempdir().unwrap();
    for name in ["job.yaml", "queue.yaml"] {
        std::fs::copy(input().join(name), folder.path().join(name)).unwrap();
    }
    let run = import(&["-f", folder.path().to_str().unwrap()]);
    assert_eq!((run.code, run.out), (0, imported.out), "{}", run.err);
}

/// The other commands read the printed objects.
#[test]
fn imported_objects_can_be_planned() {
    let imported = import(&["-f", "job.yaml", "-f", "queue.yaml"]);
    let folder = tempfile::tempdir().unwrap();
    let nodes = folder.path().join("nodes.yaml");
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus:\n  \
                conditions: [{type: Ready, status: \"True\"}]\n  \
                allocatable: {cpu: 32, memory: 128Gi, pods: 110}\n";
    std::fs::write(&nodes, node).unwrap();
    let arguments = ["-f", "-", "--nodes", nodes.to_str().unwrap()];
    let planned = run("plan", &arguments, &imported.out);
    assert!(
        planned.out.starts_with("TrainingJob vision/sweep "),
        "{planned:?}"
    );
}

#[test]
fn json_output_has_objects_and_notes() {
    let run = import(&["-f", "job.yaml", "-o", "json"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report[1]["from"], "Job (batch) vision/sweep");
    assert_eq!(report[1]["objects"][0]["kind"], "TrainingJob");
    assert_eq!(
        report[1]["notes"][0]["path"],
        "items[1].spec.template.spec.hostname"
    );
    assert_eq!(report[1]["notes"][0]["line"], 24);
}

/// The command still imports the other documents.
#[test]
fn unsupported_document_is_reported_and_the_rest_imported() {
    let run = import(&["-f", "mixed.yaml"]);
    insta::assert_snapshot!("mixed", run.golden());
    let run = import(&["-f", "mixed.yaml", "--cpu", "1", "--memory", "1Gi"]);
    assert_eq!(run.err.matches("error: ").count(), 2, "{}", run.err);
}

/// The command compares an existing queue. A difference is a note.
#[test]
fn change_of_an_existing_queue_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("existing.yaml");
    let existing = |default_for: &str| {
        format!(
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: trellis.dev/v1alpha1\n  kind: TrainingQueue\n  metadata: {{name: vision}}\n  spec: {{{default_for}}}\n"
        )
    };
    std::fs::write(&file, existing("defaultFor: {}, weight: 7")).unwrap();
    let run = import(&["-f", "queue.yaml", "--existing", file.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{run:?}");
    let expected = "spec.weight: \"7\" is set in the cluster's queue \"vision\", and applying this TrainingQueue removes it";
    assert!(
        run.err.contains(expected) && run.out.contains(expected),
        "{run:?}"
    );
    assert!(!run.err.contains("cannot be read, so changes"), "{run:?}");
    std::fs::write(&file, existing("weight: [heavy]")).unwrap();
    let run = import(&["-f", "queue.yaml", "--existing", file.to_str().unwrap()]);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run:?}");
    // An unreachable cluster is reported.
    let run = import(&["-f", "queue.yaml"]);
    assert!(run.err.contains("--existing FILE"), "{run:?}");
}

#[test]
fn strict_fails_on_any_note() {
    assert_eq!(import(&["-f", "job.yaml", "--strict"]).code, 1);
    assert_eq!(import(&["-f", "queue.yaml", "--strict"]).code, 0);
}

#[test]
fn unreadable_file_refuses_the_whole_input() {
    let run = import(&[
        "-f",
        "queue.yaml",
        "-f",
        "broken.yaml",
        "-f",
        "no-such.yaml",
    ]);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run:?}");
    assert!(run.err.contains("error: broken.yaml:"), "{}", run.err);
    assert!(
        run.err.contains("error: no-such.yaml: cannot be read"),
        "{}",
        run.err
    );
    let run = import_empty_input();
    assert_eq!(run.code, 2);
    assert!(
        run.err.contains("<stdin>: contains no object"),
        "{}",
        run.err
    );
    let run = import(&["-f", "queue.yaml", "--cpu", "lots"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("is not a number"), "{}", run.err);
}

fn import_empty_input() -> Run {
    run("import", &["-f", "-"], "# nothing\n")
}
