//! Tests of input that every tool rejects.
//! The exit status is 2 and standard output is empty. Standard error has the position, the rule,
//! the fix and a caret.

use super::command::Run;
use super::{file, input, policy, policy_in, test_by};

fn assert_refused(run: &Run) -> String {
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run:?}");
    run.err.clone()
}

/// Runs `trellis policy test -` with this text.
fn test_text(text: &str) -> String {
    assert_refused(&policy_in(&input(), &["test", "-"], text))
}

#[test]
fn unknown_attribute_is_refused() {
    insta::assert_snapshot!(
        "unknown-attribute",
        assert_refused(&policy(&["test", "wrong.yaml"]))
    );
    for tool in [
        &["eval", "-f", "job.yaml", "-f", "wrong.yaml"][..],
        &["diff", "policies", "wrong.yaml", "-f", "job.yaml"],
        &["diff", "wrong.yaml", "policies", "-f", "job.yaml"],
    ] {
        let said = assert_refused(&policy(tool));
        assert!(
            said.contains("wrong.yaml:8:12: spec.cedar: attribute `gpu`"),
            "{said}"
        );
    }
}

#[test]
fn syntax_error_is_refused() {
    let text = file("wrong.yaml").replace("context.gpu > 64", "context.gpus >< 64");
    insta::assert_snapshot!("syntax", test_text(&text));
}

/// If no line of the text is a line of the file, the message shows the text.
#[test]
fn error_in_a_quoted_text_shows_the_text() {
    let text = "apiVersion: trellis.dev/v1alpha1\nkind: ClusterJobPolicy\nmetadata: {name: a}\nspec: {cedar: 'permit(principal, action, resource) when { context.gpu > 1 };'}\n";
    insta::assert_snapshot!("quoted", test_text(text));
}

#[test]
fn missing_files_are_refused() {
    let said = assert_refused(&policy(&["test", "policies", "no-such.yaml"]));
    assert!(
        said.starts_with("error: no-such.yaml: cannot be read: "),
        "{said}"
    );
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().to_str().unwrap();
    for tool in [
        &["test", empty][..],
        &["fmt", empty],
        &["eval", "-f", empty],
        &["diff", empty, "policies", "-f", "job.yaml"],
    ] {
        let said = assert_refused(&policy(tool));
        assert!(said.contains("is a folder without "), "{said}");
    }
    let said = assert_refused(&policy(&["test", "job.yaml"]));
    assert!(
        said.contains("no file contains a ClusterJobPolicy"),
        "{said}"
    );
    let said = assert_refused(&policy(&["eval", "-f", "policies"]));
    assert!(said.contains("no file contains a TrainingJob"), "{said}");
    let said = assert_refused(&policy(&[
        "diff",
        "policies",
        "policies",
        "-f",
        "tests.yaml",
    ]));
    assert!(said.contains("no file contains a TrainingJob"), "{said}");
}

#[test]
fn duplicate_object_is_refused() {
    let said = assert_refused(&policy(&["test", "policies", "failing.yaml"]));
    assert_eq!(
        said.lines().next(),
        Some(
            "error: failing.yaml:4:18: metadata.name: ClusterJobPolicy \"h100\" is given twice, before at policies/h100.yaml:3: rename one"
        )
    );
}

#[test]
fn test_of_an_unknown_policy_is_refused() {
    let said = test_text(&file("failing.yaml").replace("[h100/listed]", "[h100/liste]"));
    assert_eq!(
        said.lines().next(),
        Some(
            "error: <stdin>:30:16: spec.tests[0].policies[0]: there is no policy \"h100/liste\": did you mean \"h100/listed\"?"
        )
    );
    let tests = file("tests.yaml").replace("[h100/not-listed]", "[h100/unlisted, x]");
    let run = test_by(&tests);
    let said = assert_refused(&run);
    assert!(
        said.contains("spec.tests[1].policies[0]: there is no policy \"h100/unlisted\""),
        "{said}"
    );
    assert!(
        said.contains("spec.tests[1].policies[1]: there is no policy \"x\""),
        "{said}"
    );
    let tests = file("tests.yaml").replace("spec:\n  tests", "spec:\n  policies: [h10]\n  tests");
    let said = assert_refused(&test_by(&tests));
    assert!(
        said.contains("there is no policy object \"h10\": did you mean \"h100\"?"),
        "{said}"
    );
}

#[test]
fn tests_without_a_request_are_refused() {
    let of = |from: &str, to: &str| {
        let tests = file("tests.yaml").replace(from, to);
        assert_refused(&test_by(&tests))
    };
    for (from, to, words) in [
        (
            "    request:\n",
            "    requester: {user: a}\n    request:\n",
            "spec.tests[0]: namespaceLabels, requester and denied belong to a test with a job",
        ),
        (
            "    job:\n",
            "    request: {namespace: a, action: Submit}\n    job:\n",
            "spec.tests[1]: has neither or both of request and job",
        ),
        (
            "a whole job of another team",
            "the team on the list",
            "spec.tests[1].name: is also the name of an earlier test",
        ),
        (
            "kind: TrainingJob",
            "kind: Job",
            "spec.tests[1].job: is not a TrainingJob of trellis.dev/v1alpha1",
        ),
        (
            "gpus: 8",
            "gpu: 8",
            "spec.tests[1].job.spec.taskGroups[0].gpu",
        ),
        (
            "decision: Allow",
            "decision: allow",
            "spec.tests[0].decision",
        ),
        (
            "    decision: Allow\n",
            "    decision: Allow\n    reason: []\n",
            "spec.tests[0].reason",
        ),
    ] {
        let said = of(from, to);
        assert!(said.contains(words), "{words}\n{said}");
    }
}

#[test]
fn conflicting_options_are_refused() {
    for (arguments, words) in [
        (
            &["eval", "-f", "job.yaml", "--context", "a"][..],
            "add --cluster",
        ),
        (
            &["eval", "-f", "job.yaml", "--as-group", "a"],
            "--as <USER>",
        ),
        (&["eval", "-f", "job.yaml", "--as", ""], "--as <USER>"),
        (
            &["eval", "-f", "job.yaml", "-n", "Bad"],
            "--namespace: \"Bad\"",
        ),
        (
            &["eval", "-f", "job.yaml", "--cluster"],
            "no cluster is configured",
        ),
        (
            &["diff", "policies", "-f", "job.yaml"],
            "the command compares two sets of policies",
        ),
        (&["diff", "policies", "policies"], "--filename <FILE>"),
        (
            &[
                "diff", "policies", "policies", "-f", "policies", "-f", "job.yaml",
            ],
            "the files of jobs contain policies",
        ),
        (
            &["diff", "policies", "policies", "--cluster", "--prune"],
            "--prune applies to policies of the cluster",
        ),
    ] {
        let said = assert_refused(&policy(arguments));
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

/// The problems of all files are reported at once.
#[test]
fn problems_of_all_files_are_reported_together() {
    let said = assert_refused(&policy(&["test", "wrong.yaml", "no-such.yaml", "-"]));
    assert!(said.contains("no-such.yaml: cannot be read"), "{said}");
    assert!(said.contains("wrong.yaml:8:12"), "{said}");
}
