//! Tests of invalid input.
//! The exit status is 2 and standard output is empty. Standard error has the position, the field,
//! the rule, the fix and a snippet.

use super::{file, plan, plan_with};

fn refused(name: &str, arguments: &[&str]) {
    let run = plan(&[&["--nodes", "nodes.yaml"], arguments].concat());
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run:?}");
    insta::assert_snapshot!(format!("invalid-{name}"), run.err);
}

#[test]
fn problems_of_all_files_are_reported_together() {
    refused(
        "all",
        &[
            "-f",
            "all-wrong.yaml",
            "-f",
            "no-such.yaml",
            "-f",
            "tab.yaml",
        ],
    );
}

#[test]
fn every_kind_of_invalid_file_is_refused() {
    for name in [
        "second-wrong",
        "wrong-type",
        "empty",
        "bomb",
        "no-kind",
        "latin",
        "windows",
        "list",
    ] {
        refused(name, &["-f", &format!("{name}.yaml")]);
    }
}

/// A byte order mark and Windows line ends change nothing.
#[test]
fn files_with_byte_order_mark_and_crlf_are_read() {
    let plan_file = |name: &str| {
        let run = plan(&["--nodes", "nodes.yaml", "-f", name]);
        assert_eq!(run.code, 2);
        run.err.replace(name, "FILE")
    };
    assert_eq!(plan_file("windows.yaml"), plan_file("byte-order-mark.yaml"));
    let windows = file("job.yaml").replace('\n', "\r\n");
    let marked = format!("\u{feff}{}", file("job.yaml"));
    let plain = plan(&["--nodes", "nodes.yaml", "-f", "job.yaml"]);
    for text in [windows, marked] {
        let run = plan_with(&["--nodes", "nodes.yaml", "-f", "-"], &text);
        assert_eq!((run.code, run.out), (0, plain.out.clone()), "{}", run.err);
    }
}

#[test]
fn nodes_without_a_job_are_refused() {
    refused("nodes", &["-f", "nodes.yaml"]);
}

/// Files are read in the order of their names, as in kubectl.
/// Subfolders are not read.
#[test]
fn folder_is_read_file_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let input = folder.path().to_str().unwrap();
    let empty = plan(&["--nodes", "nodes.yaml", "-f", input]);
    assert_eq!(empty.code, 2);
    assert!(
        empty
            .err
            .contains("is a folder without .yaml, .yml and .json files")
    );
    std::fs::write(path("b.yml"), file("job.yaml")).unwrap();
    let second = file("job.yaml").replace("name: llm", "name: second");
    std::fs::write(path("a.yaml"), second).unwrap();
    std::fs::write(path("notes.txt"), "- no kind\n").unwrap();
    std::fs::create_dir(path("deeper.yaml")).unwrap();
    let run = plan(&["--nodes", "nodes.yaml", "-f", input]);
    let jobs: Vec<_> = run
        .out
        .lines()
        .filter(|l| l.starts_with("TrainingJob"))
        .collect();
    assert_eq!(
        jobs,
        [
            "TrainingJob team-a/second would run",
            "TrainingJob team-a/llm would run"
        ]
    );
}

/// The error for an unknown kind or version names the right one.
#[test]
fn unknown_kind_or_version_names_the_right_one() {
    let says = |from: &str, to: &str| {
        let run = plan_with(
            &["--nodes", "nodes.yaml", "-f", "-"],
            &file("job.yaml").replace(from, to),
        );
        assert_eq!(run.code, 2, "{run:?}");
        run.err.lines().next().unwrap().to_owned()
    };
    assert_eq!(
        says("trellis.dev/v1alpha1", "trellis.dev/v1"),
        "error: <stdin>:1:13: apiVersion: there is no \"trellis.dev/v1\" of TrainingJob: write trellis.dev/v1alpha1"
    );
    assert_eq!(
        says("trellis.dev/v1alpha1", "kubeflow.org/v1"),
        "error: <stdin>:1:13: apiVersion: there is no \"kubeflow.org/v1\" of TrainingJob: write trellis.dev/v1alpha1"
    );
    for kind in ["TrainJob", "trainingjob"] {
        assert_eq!(
            says("TrainingJob", kind),
            format!(
                "error: <stdin>:2:7: kind: trellis.dev/v1alpha1 has no {kind:?}: did you mean \"TrainingJob\"?"
            )
        );
    }
    assert!(
        says("TrainingJob", "Gang")
            .ends_with("its kinds are TrainingJob, TrainingQueue, ResourceFlavor, Topology, RuntimeProfile, PodGroup, ClusterJobPolicy, JobPolicy, QuotaPolicy, QuotaLedger")
    );
}

#[test]
fn invalid_namespace_and_cluster_without_nodes_are_refused() {
    let run = plan(&["--nodes", "nodes.yaml", "-f", "job.yaml", "-n", "Bad_NS"]);
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(
        run.err
            .starts_with("error: --namespace: \"Bad_NS\" must be the name of a namespace"),
        "{}",
        run.err
    );
    let run = plan(&["--nodes", "job.yaml", "-f", "job.yaml"]);
    assert_eq!(run.code, 2);
    assert!(
        run.err.starts_with("error: job.yaml: contains no Node"),
        "{}",
        run.err
    );
}

#[test]
fn duplicate_job_is_refused() {
    refused("twice", &["-f", "job.yaml", "-f", "job.yaml"]);
}

#[test]
fn namespace_option_must_match_the_job() {
    refused("namespace", &["-f", "job.yaml", "-n", "team-b"]);
    let run = plan(&["--nodes", "nodes.yaml", "-f", "job.yaml", "-n", "team-a"]);
    assert_eq!(run.code, 0, "{}", run.err);
}

/// The operator plans on its own cluster, for the user who asks, and renders no manifests.
#[test]
fn plan_by_the_operator_excludes_options_of_a_plan_by_the_command() {
    for other in [
        &["--nodes", "nodes.yaml"][..],
        &["-o", "yaml"],
        &["--as", "ada"],
    ] {
        let run = plan(&[&["--server", "-f", "job.yaml"], other].concat());
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{run:?}");
        assert!(run.err.contains("cannot be used with"), "{run:?}");
    }
    let run = plan(&["--server", "-f", "all-wrong.yaml"]);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run:?}");
    assert!(run.err.contains("all-wrong.yaml:"), "{run:?}");
}
