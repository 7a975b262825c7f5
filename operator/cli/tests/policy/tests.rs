//! `trellis policy test`.

use serde_json::Value;

use super::{file, input, policy, policy_in, test_by};

#[test]
fn passing_tests_exit_with_zero() {
    let run = policy(&["test", "policies", "tests.yaml"]);
    assert_eq!(run.code, 0);
    insta::assert_snapshot!("passed", run.golden());
    let json = policy(&["test", "policies", "tests.yaml", "-o", "json"]);
    insta::assert_snapshot!("passed-json", json.golden());
}

#[test]
fn failing_tests_are_reported() {
    let run = policy(&["test", "failing.yaml", "--min-coverage", "60"]);
    assert_eq!(run.code, 1);
    insta::assert_snapshot!("failed", run.golden());
    let json = policy(&["test", "failing.yaml", "-o", "json"]);
    assert_eq!(json.code, 1);
    let report: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(report["tests"][1]["passed"], false);
    assert_eq!(report["tests"][1]["line"], 31);
    assert_eq!(report["policies"][1]["tested"], false);
}

/// Each denial is on its own line.
#[test]
fn denials_of_a_job_are_on_separate_lines() {
    let tests = file("tests.yaml").replace("decision: Deny", "decision: Allow");
    let tests = tests.replace("    denied: [UseFlavor]\n", "");
    let tests = tests.replace("    policies: [h100/not-listed]\n", "");
    let tests = tests.replace("registry.example/train:1", "elsewhere.example/train:1");
    let forbid = "
apiVersion: trellis.dev/v1alpha1
kind: ClusterJobPolicy
metadata: {name: ours}
spec:
  cedar: |
    forbid(principal, action == Trellis::Action::\"UseImage\", resource)
    unless { resource has registry && resource.registry == \"registry.example\" };
---
";
    let run = test_by(&format!("{forbid}{tests}"));
    assert_eq!(run.code, 1, "{}", run.err);
    let denials = run
        .out
        .lines()
        .filter(|line| line.starts_with("      the job "));
    assert_eq!(denials.count(), 2, "{}", run.out);
}

/// A policy with only forbids can be tested for requests that it does not deny.
/// The message names the decision to expect.
#[test]
fn missing_permit_is_reported_if_no_policy_forbids() {
    let policy = |expected: &str| {
        format!(
            "apiVersion: trellis.dev/v1alpha1\nkind: ClusterJobPolicy\nmetadata: {{name: p}}\nspec:\n  cedar: |\n    forbid(principal, action == Trellis::Action::\"UseFlavor\", resource == Trellis::ResourceFlavor::\"h100\");\n  tests:\n  - name: another\n    request: {{namespace: a, action: UseFlavor, resource: {{name: a10}}}}\n    {expected}\n"
        )
    };
    let test_policy = |expected: &str| policy_in(&input(), &["test", "-"], &policy(expected));
    let run = test_policy("decision: Allow");
    assert_eq!(run.code, 1);
    assert!(run.out.contains("expect decision: Abstain"), "{}", run.out);
    assert_eq!(test_policy("decision: Deny\n    policies: []").code, 0);
    assert_eq!(test_policy("decision: Abstain").code, 0);
}

/// A request that a policy forbids or permits does not count as Abstain.
/// This holds for tests in an object and in a file.
#[test]
fn forbidden_or_permitted_request_is_not_abstain() {
    for effect in ["forbid", "permit"] {
        let policy = format!(
            "apiVersion: trellis.dev/v1alpha1\nkind: ClusterJobPolicy\nmetadata: {{name: p}}\nspec:\n  cedar: |\n    {effect}(principal, action == Trellis::Action::\"UseFlavor\", resource == Trellis::ResourceFlavor::\"h100\");\n"
        );
        let request = |flavor: &str| {
            format!(
                "  - name: {flavor}\n    request: {{namespace: a, action: UseFlavor, resource: {{name: {flavor}}}}}\n    decision: Abstain\n"
            )
        };
        let file = |flavor: &str| {
            format!(
                "{policy}---\napiVersion: trellis.dev/v1alpha1\nkind: PolicyTests\nmetadata: {{name: t}}\nspec:\n  tests:\n{}",
                request(flavor)
            )
        };
        let own = |flavor: &str| format!("{policy}  tests:\n{}", request(flavor));
        for (text, code) in [
            (own("a10"), 0),
            (own("h100"), 1),
            (file("a10"), 0),
            (file("h100"), 1),
        ] {
            let run = policy_in(&input(), &["test", "-"], &text);
            assert_eq!(run.code, code, "{text}\n{}{}", run.out, run.err);
        }
    }
}

/// A valid policy without any effect causes a warning.
#[test]
fn policy_without_effect_causes_a_warning() {
    let test_spec = |spec: &str| {
        let policy = format!(
            "apiVersion: trellis.dev/v1alpha1\nkind: ClusterJobPolicy\nmetadata: {{name: p}}\nspec:\n{spec}"
        );
        let run = policy_in(&input(), &["test", "-"], &policy);
        assert_eq!(run.code, 0, "{}{}", run.out, run.err);
        run.err
    };
    let forbid = |principal: &str, clauses: &str| {
        test_spec(&format!(
            "{clauses}  cedar: |\n    forbid({principal}, action, resource);\n"
        ))
    };
    let unless = |condition: &str| {
        test_spec(&format!(
            "  cedar: |\n    forbid(principal, action, resource)\n    unless {{ context.gpus < 8 || ({condition}) }};\n"
        ))
    };
    for (bad, operator) in [
        ("principal == Trellis::Team::\"vision\"", "=="),
        ("Trellis::Team::\"vision\" == principal", "=="),
        (
            "context.pods > 1 && principal != Trellis::Team::\"a\"",
            "!=",
        ),
        ("principal is Trellis::Team", "is"),
    ] {
        let output = unless(bad);
        let words = format!("\"p/0\" asks whether the principal {operator} a Trellis::Team");
        assert!(output.contains(&words), "{bad}: {output}");
        assert!(output.contains("principal in Trellis::Team::"), "{output}");
    }
    for good in [
        "principal in Trellis::Team::\"vision\"",
        "principal == Trellis::Namespace::\"vision\"",
        "context.pods == 1",
    ] {
        assert_eq!(unless(good), "", "{good}");
    }
    let output = forbid("principal", "  onViolation: Evict\n  enforcement: Warn\n");
    assert!(
        output.contains("spec.onViolation: Evict stops nothing with enforcement Warn"),
        "{output}"
    );
    assert_eq!(forbid("principal", "  onViolation: Evict\n"), "");
    let permit = "  onViolation: Evict\n  cedar: |\n    permit(principal, action, resource);\n";
    let output = test_spec(permit);
    assert!(output.contains("and none forbids anything"), "{output}");
}

/// An untested policy fails the run only if a minimum coverage is set.
#[test]
fn untested_policy_fails_below_the_minimum_coverage() {
    let good = file("failing.yaml");
    let good = good.split("  - name: not for 8 GPUs").next().unwrap();
    let test_with =
        |options: &[&str]| policy_in(&input(), &[&["test", "-"], options].concat(), good);
    let run = test_with(&[]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains("h100/small (<stdin>:4)"), "{}", run.out);
    assert!(
        run.out.contains("1 of 2 policies tested (50 %)"),
        "{}",
        run.out
    );
    assert_eq!(test_with(&["--min-coverage", "50"]).code, 0);
    let low = test_with(&["--min-coverage", "51"]);
    assert_eq!(low.code, 1);
    assert!(
        low.out
            .ends_with("tests cover 50 % of the policies, and 51 % are required\n"),
        "{}",
        low.out
    );
    assert_eq!(test_with(&["--min-coverage", "101"]).code, 2);
}

#[test]
fn junit_file_has_the_results() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("junit.xml");
    let at = path.to_str().unwrap();
    let failing = [
        "test",
        "failing.yaml",
        "--min-coverage",
        "60",
        "--junit",
        at,
    ];
    assert_eq!(policy(&failing).code, 1);
    insta::assert_snapshot!("junit-failed", std::fs::read_to_string(&path).unwrap());
    let passing = ["test", "policies", "tests.yaml", "--junit", at];
    assert_eq!(policy(&passing).code, 0);
    insta::assert_snapshot!("junit-passed", std::fs::read_to_string(&path).unwrap());
    let nowhere = ["test", "policies", "--junit", "no-such-folder/junit.xml"];
    let run = policy(&nowhere);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("no-such-folder/junit.xml"), "{}", run.err);
}

/// Warn and Audit policies deny nothing, but tests can check them.
#[test]
fn warn_and_audit_policies_can_be_tested() {
    let tests = "
apiVersion: trellis.dev/v1alpha1
kind: PolicyTests
spec:
  tests:
  - name: an image by its tag
    request: {namespace: vision, action: UseImage, resource: {name: train:1}}
    decision: Allow
    wouldDeny: [soon/latest]
  - name: a job of nobody
    job:
      kind: TrainingJob
      metadata: {name: a, namespace: vision}
      spec:
        taskGroups:
        - {name: w, gpus: 1, flavors: [a10], image: train:1, resources: {limits: {cpu: 1, memory: 1Gi}}}
        securityContext: {runAsUser: 1000}
    decision: Allow
    wouldDeny: [soon/latest, vision/later/0]
  - name: a job of a researcher
    requester: {user: ada, groups: [research]}
    job:
      kind: TrainingJob
      metadata: {name: a, namespace: vision}
      spec:
        taskGroups:
        - {name: w, gpus: 1, flavors: [a10], image: train:1, resources: {limits: {cpu: 1, memory: 1Gi}}}
        securityContext: {runAsUser: 1000}
    decision: Allow
    wouldDeny: [soon/latest]
";
    let all = [
        "test",
        "policies",
        "beside.yaml",
        "-",
        "--min-coverage",
        "100",
    ];
    let run = policy_in(&input(), &all, tests);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    let changed = tests.replace("[soon/latest, vision/later/0]", "[soon/latest]");
    let run = policy_in(&input(), &all, &changed);
    assert_eq!(run.code, 1);
    assert!(
        run.out.contains(
            "expected a denial by {\"soon/latest\"}, got {\"soon/latest\", \"vision/later/0\"}"
        ),
        "{}",
        run.out
    );
}

/// A file of tests may select some objects; the other objects are then ignored.
#[test]
fn tests_file_selects_the_deciding_objects() {
    let test_with = |policies: &str| {
        file("tests.yaml")
            .replace(
                "spec:\n  tests:",
                &format!("spec:\n  policies: [{policies}]\n  tests:"),
            )
            .replace("policies: [base/everybody]", "")
    };
    let run = test_by(&test_with("base, h100"));
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    let run = test_by(&test_with("h100"));
    assert_eq!(run.code, 1);
    assert!(
        run.out.contains("expected Allow, came Deny by []"),
        "{}",
        run.out
    );
}

/// A job that refers to a missing object is undecided.
/// The message names the object.
#[test]
fn job_without_its_queue_is_undecided() {
    let tests = file("tests.yaml").replace(
        "        taskGroups:",
        "        queueName: prod\n        taskGroups:",
    );
    let run = test_by(&tests);
    assert_eq!(run.code, 1);
    assert!(
        run.out
            .contains("it is not decided: spec.queueName: queue \"prod\" does not exist"),
        "{}",
        run.out
    );
    let queue = "\n---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingQueue\nmetadata: {name: prod}\nspec: {namespaceSelector: {}}\n";
    let run = test_by(&format!("{tests}{queue}"));
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
}
