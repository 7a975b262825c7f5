//! docs/policies.md shows what is really printed.

use super::{input, policy_in, root};

/// Every block that begins with a command is run where its files are.
#[test]
fn what_is_shown_is_what_is_printed() {
    let text = std::fs::read_to_string(root().join("docs/policies.md")).unwrap();
    let mut shown = 0;
    for block in text.split("```console\n$ trellis policy ").skip(1) {
        let block = block.split("```").next().unwrap();
        let (command, wanted) = block.split_once('\n').unwrap();
        let arguments: Vec<&str> = command.split(' ').collect();
        let run = policy_in(&input(), &arguments, "");
        assert_eq!(format!("{}{}", run.out, run.err), wanted, "{command}");
        shown += 1;
    }
    assert!(shown >= 4, "{shown}");
}

/// The file of tests that is shown is the one that is run.
#[test]
fn the_file_of_tests_is_the_one_that_is_run() {
    let text = std::fs::read_to_string(root().join("docs/policies.md")).unwrap();
    assert!(text.contains(&super::file("tests.yaml")));
}
