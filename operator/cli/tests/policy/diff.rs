//! `trellis policy diff`.

use super::{file, input, policy, policy_in, quiet};

const JOB_FILE: [&str; 2] = ["-f", "job.yaml"];

fn diff(arguments: &[&str]) -> super::command::Run {
    policy(&[&["diff"], arguments, &JOB_FILE].concat())
}

#[test]
fn changed_decisions_are_listed() {
    let run = diff(&["policies/base.yaml", "policies"]);
    assert_eq!(run.code, 1);
    insta::assert_snapshot!("diff", run.golden());
    let json = diff(&["policies/base.yaml", "policies", "-o", "json"]);
    assert_eq!(json.code, 1);
    insta::assert_snapshot!("diff-json", json.golden());
    let back = diff(&["policies", "policies/base.yaml"]);
    assert!(
        back.out
            .starts_with("TrainingJob vision/resnet: denied -> allowed\n"),
        "{}",
        back.out
    );
}

/// NEW replaces OLD whole: a policy that is only in OLD is reported as deleted.
#[test]
fn policy_only_in_old_is_reported_as_deleted() {
    let run = diff(&["policies", "policies/base.yaml"]);
    assert!(
        run.err
            .starts_with("note: ClusterJobPolicy \"h100\" is in OLD and not in NEW, "),
        "{}",
        run.err
    );
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    assert_eq!(diff(&["policies/base.yaml", "policies"]).err, "");
}

#[test]
fn equal_policies_change_nothing() {
    let run = diff(&["policies", "policies"]);
    assert_eq!(quiet(&run), (0, "0 of 2 jobs would change\n"));
}

/// A different policy that decides the same is no change; a new warning is one.
#[test]
fn new_warning_is_a_change_and_another_policy_is_not() {
    let renamed = file("policies/base.yaml").replace("everybody", "all");
    let run = policy_in(
        &input(),
        &["diff", "policies/base.yaml", "-", "-f", "job.yaml"],
        &renamed,
    );
    assert_eq!(quiet(&run).0, 0);
    let folder = tempfile::tempdir().unwrap();
    for name in ["policies/base.yaml", "beside.yaml"] {
        let to = folder.path().join(name.rsplit('/').next().unwrap());
        std::fs::copy(input().join(name), to).unwrap();
    }
    let run = diff(&["policies/base.yaml", folder.path().to_str().unwrap()]);
    assert_eq!(quiet(&run).0, 1);
    assert!(
        run.out
            .contains("+ allowed by base/everybody warned of by soon/latest"),
        "{}",
        run.out
    );
}
