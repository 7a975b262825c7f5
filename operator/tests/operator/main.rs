//! `trellis operator`, as a user starts it, without any cluster.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

#[path = "../command/mod.rs"]
mod command;

use std::path::Path;

use serde_json::Value;

fn operator(arguments: &[&str]) -> command::Run {
    let program = Path::new(env!("CARGO_BIN_EXE_trellis"));
    let all = [&["operator"], arguments].concat();
    command::run(program, Path::new("/"), &all, "")
}

#[test]
fn the_last_word_is_a_line_of_the_log() {
    let run = operator(&["--log=json", "--snapshots=/no/such/folder"]);
    assert_eq!(run.code, 1, "{run:?}");
    let last = run.err.lines().last().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    let said = last["fields"]["message"].as_str().unwrap();
    assert!(said.starts_with("--snapshots: "), "{said}");
    let plain = operator(&["--snapshots=/no/such/folder"]);
    let expected =
        format!("exit status 1\n--- standard output\n--- standard error\nerror: {said}\n");
    assert_eq!(plain.golden(), expected);
}

#[test]
fn a_label_that_is_none_is_refused() {
    let run = operator(&["--unhealthy-labels=foo"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.err.contains("--unhealthy-labels"), "{}", run.err);
    assert!(
        run.err.contains("must be KEY=VALUE: write foo=VALUE"),
        "{}",
        run.err
    );
}
