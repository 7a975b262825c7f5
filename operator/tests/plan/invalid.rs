//! Input that is refused: exit status 2, nothing on standard output, and on
//! standard error the place, the field, the rule, the fix and a snippet.

use super::{file, plan, plan_with};

fn refused(name: &str, arguments: &[&str]) {
    let run = plan(&[&["--nodes", "nodes.yaml"], arguments].concat());
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run:?}");
    insta::assert_snapshot!(format!("invalid-{name}"), run.err);
}

#[test]
fn all_that_is_wrong_with_all_files_is_said_at_once() {
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
fn every_kind_of_wrong_file() {
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

/// A byte order mark and the line ends of Windows change nothing.
#[test]
fn editors_of_windows_are_welcome() {
    let of = |name: &str| {
        let run = plan(&["--nodes", "nodes.yaml", "-f", name]);
        assert_eq!(run.code, 2);
        run.err.replace(name, "FILE")
    };
    assert_eq!(of("windows.yaml"), of("byte-order-mark.yaml"));
    let windows = file("job.yaml").replace('\n', "\r\n");
    let marked = format!("\u{feff}{}", file("job.yaml"));
    let plain = plan(&["--nodes", "nodes.yaml", "-f", "job.yaml"]);
    for text in [windows, marked] {
        let run = plan_with(&["--nodes", "nodes.yaml", "-f", "-"], &text);
        assert_eq!((run.code, run.out), (0, plain.out.clone()), "{}", run.err);
    }
}

#[test]
fn nodes_alone_are_no_job() {
    refused("nodes", &["-f", "nodes.yaml"]);
}

#[test]
fn a_folder_is_no_file() {
    refused("folder", &["-f", "."]);
}

#[test]
fn one_job_is_given_once() {
    refused("twice", &["-f", "job.yaml", "-f", "job.yaml"]);
}

#[test]
fn a_namespace_that_is_asked_for_is_that_of_the_job() {
    refused("namespace", &["-f", "job.yaml", "-n", "team-b"]);
    let run = plan(&["--nodes", "nodes.yaml", "-f", "job.yaml", "-n", "team-a"]);
    assert_eq!(run.code, 0, "{}", run.err);
}
