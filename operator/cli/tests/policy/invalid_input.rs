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
        let error = assert_refused(&policy(tool));
        assert!(
            error.contains("wrong.yaml:8:12: spec.cedar: attribute `gpu`"),
            "{error}"
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
    let error = assert_refused(&policy(&["test", "policies", "no-such.yaml"]));
    assert!(
        error.starts_with("error: no-such.yaml: cannot be read: "),
        "{error}"
    );
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().to_str().unwrap();
    for tool in [
        &["test", empty][..],
        &["fmt", empty],
        &["eval", "-f", empty],
        &["diff", empty, "policies", "-f", "job.yaml"],
    ] {
        let error = assert_refused(&policy(tool));
        assert!(error.contains("is a folder without "), "{error}");
    }
    let error = assert_refused(&policy(&["test", "job.yaml"]));
    assert!(
        error.contains("no file contains a ClusterJobPolicy"),
        "{error}"
    );
    let error = assert_refused(&policy(&["eval", "-f", "policies"]));
    assert!(error.contains("no file contains a TrainingJob"), "{error}");
    let error = assert_refused(&policy(&[
        "diff",
        "policies",
        "policies",
        "-f",
        "tests.yaml",
    ]));
    assert!(error.contains("no file contains a TrainingJob"), "{error}");
}

#[test]
fn duplicate_object_is_refused() {
    let error = assert_refused(&policy(&["test", "policies", "failing.yaml"]));
    assert_eq!(
        error.lines().next(),
        Some(
            "error: failing.yaml:4:18: metadata.name: ClusterJobPolicy \"h100\" is given twice, before at policies/h100.yaml:3: rename one"
        )
    );
}

#[test]
fn test_of_an_unknown_policy_is_refused() {
    let error = test_text(&file("failing.yaml").replace("[h100/listed]", "[h100/liste]"));
    assert_eq!(
        error.lines().next(),
        Some(
            "error: <stdin>:30:16: spec.tests[0].policies[0]: there is no policy \"h100/liste\": did you mean \"h100/listed\"?"
        )
    );
    let tests = file("tests.yaml").replace("[h100/not-listed]", "[h100/unlisted, x]");
    let run = test_by(&tests);
    let error = assert_refused(&run);
    assert!(
        error.contains("spec.tests[1].policies[0]: there is no policy \"h100/unlisted\""),
        "{error}"
    );
    assert!(
        error.contains("spec.tests[1].policies[1]: there is no policy \"x\""),
        "{error}"
    );
    let tests = file("tests.yaml").replace("spec:\n  tests", "spec:\n  policies: [h10]\n  tests");
    let error = assert_refused(&test_by(&tests));
    assert!(
        error.contains("there is no policy object \"h10\": did you mean \"h100\"?"),
        "{error}"
    );
}

#[test]
fn tests_without_a_request_are_refused() {
    let replaced = |from: &str, to: &str| {
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
        let error = replaced(from, to);
        assert!(error.contains(words), "{words}\n{error}");
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
        let error = assert_refused(&policy(arguments));
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
}

/// The problems of all files are reported at once.
#[test]
fn problems_of_all_files_are_reported_together() {
    let error = assert_refused(&policy(&["test", "wrong.yaml", "no-such.yaml", "-"]));
    assert!(error.contains("no-such.yaml: cannot be read"), "{error}");
    assert!(error.contains("wrong.yaml:8:12"), "{error}");
}
