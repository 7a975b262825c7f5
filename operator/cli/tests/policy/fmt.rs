//! `trellis policy fmt`.

use std::path::Path;

use super::command::Run;
use super::{file, policy_in};

fn fmt(folder: &Path, arguments: &[&str]) -> Run {
    policy_in(folder, &[&["fmt"], arguments].concat(), "")
}

/// A hand-written file with many details that the formatter must not change.
const MESSY: &str = "# A policy.\n\napiVersion:   trellis.dev/v1alpha1\nkind: ClusterJobPolicy # of the cluster\nmetadata: {name: \"a\" }\nspec:\n    cedar: |-   # the text\n          // Why.\n          permit(principal,action,resource)when{context.gpus>8};\n\n\n          @id(\"b\") forbid(principal,action,resource) when { principal.name == \"x\" };\n\n    tests: [ ]\n---\n# Another document.\napiVersion: v1\nkind: Namespace\nmetadata: {name:   a}\n";
const FORMATTED: &str = "# A policy.\n\napiVersion:   trellis.dev/v1alpha1\nkind: ClusterJobPolicy # of the cluster\nmetadata: {name: \"a\" }\nspec:\n    cedar: |-   # the text\n          // Why.\n          permit (principal, action, resource)\n          when { context.gpus > 8 };\n\n          @id(\"b\")\n          forbid (principal, action, resource)\n          when { principal.name == \"x\" };\n\n    tests: [ ]\n---\n# Another document.\napiVersion: v1\nkind: Namespace\nmetadata: {name:   a}\n";

#[test]
fn fmt_changes_only_the_policies() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("deeper")).unwrap();
    std::fs::create_dir(at(".hidden")).unwrap();
    std::os::unix::fs::symlink(".", at("loop")).unwrap();
    for (name, text) in [
        ("a.yaml", MESSY.to_owned()),
        ("deeper/windows.yml", MESSY.replace('\n', "\r\n")),
        (
            "text.cedar",
            "permit(principal,action,resource);".to_owned(),
        ),
        ("good.yaml", FORMATTED.to_owned()),
        ("kustomization.yaml", "resources: [a.yaml]\n".to_owned()),
        ("notes.txt", "permit(".to_owned()),
        (".hidden/a.yaml", "no: object".to_owned()),
    ] {
        std::fs::write(at(name), text).unwrap();
    }
    let check = fmt(folder.path(), &["--check", "."]);
    let names = "./a.yaml\n./deeper/windows.yml\n./text.cedar\n";
    assert_eq!(
        (check.code, check.out.as_str(), check.err.as_str()),
        (1, names, "")
    );
    assert_eq!(std::fs::read_to_string(at("a.yaml")).unwrap(), MESSY);

    let run = fmt(folder.path(), &["."]);
    assert_eq!(
        (run.code, run.out.as_str(), run.err.as_str()),
        (0, names, "")
    );
    assert_eq!(std::fs::read_to_string(at("a.yaml")).unwrap(), FORMATTED);
    let windows = std::fs::read_to_string(at("deeper/windows.yml")).unwrap();
    assert_eq!(windows, FORMATTED.replace('\n', "\r\n"));
    let text = std::fs::read_to_string(at("text.cedar")).unwrap();
    assert_eq!(text, "permit (principal, action, resource);\n");

    let second_run = fmt(folder.path(), &["--check", "."]);
    assert_eq!((second_run.code, second_run.out.as_str()), (0, ""));
}

/// Any invalid file stops the command before it writes.
#[test]
fn invalid_policies_are_refused_and_nothing_is_written() {
    let refused = |text: &str| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.yaml"), text).unwrap();
        std::fs::write(folder.path().join("b.yaml"), MESSY).unwrap();
        let run = fmt(folder.path(), &["a.yaml", "b.yaml"]);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{run:?}");
        let b = std::fs::read_to_string(folder.path().join("b.yaml")).unwrap();
        assert_eq!(b, MESSY);
        run.err
    };
    let broken = refused(&MESSY.replace("context.gpus>8", "context.gpus>"));
    assert!(broken.starts_with("error: a.yaml:9:"), "{broken}");
    let quoted = "apiVersion: trellis.dev/v1alpha1\nkind: ClusterJobPolicy\nmetadata: {name: a}\nspec: {cedar: 'permit(principal,action,resource);'}\n";
    let stdin = fmt(Path::new("."), &["-"]);
    assert_eq!(stdin.code, 2);
    assert!(stdin.err.contains("standard input"), "{}", stdin.err);
    let error = refused(quoted);
    assert!(
        error.starts_with(
            "error: a.yaml:4:15: spec.cedar: is not formatted, and is not a block of its own lines"
        ),
        "{error}"
    );
}

/// A formatted policy in quotes stays unchanged.
#[test]
fn formatted_policies_stay_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let text = "apiVersion: trellis.dev/v1alpha1\nkind: ClusterJobPolicy\nmetadata: {name: a}\nspec: {cedar: 'permit (principal, action, resource);'}\n";
    std::fs::write(folder.path().join("a.yaml"), text).unwrap();
    assert_eq!(fmt(folder.path(), &["--check", "a.yaml"]).code, 0);
}

/// A change would also affect the places that refer to the anchor.
#[test]
fn policy_behind_a_yaml_anchor_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = "apiVersion: trellis.dev/v1alpha1\nkind: ClusterJobPolicy\nmetadata:\n  name: a\n  annotations: {copy: &x permit(principal,action,resource);}\nspec:\n  cedar: *x\n";
    std::fs::write(folder.path().join("a.yaml"), text).unwrap();
    let run = fmt(folder.path(), &["a.yaml"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert_eq!(
        std::fs::read_to_string(folder.path().join("a.yaml")).unwrap(),
        text
    );
}

#[test]
fn files_of_these_tests_are_formatted() {
    let run = fmt(
        &super::input(),
        &[
            "--check",
            "policies",
            "failing.yaml",
            "beside.yaml",
            "wrong.yaml",
        ],
    );
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    assert!(!file("failing.yaml").is_empty());
}
