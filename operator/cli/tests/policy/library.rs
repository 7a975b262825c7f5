//! The policies of docs/policies.

use super::{policy_in, root};

#[test]
fn library_passes_its_tests_with_full_coverage() {
    let run = policy_in(
        &root(),
        &["test", "docs/policies", "--min-coverage", "100"],
        "",
    );
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(
        run.out
            .contains("; 0 failed; 13 of 13 policies tested (100 %)"),
        "{}",
        run.out
    );
    assert_eq!(run.err, "");
}

#[test]
fn library_is_formatted() {
    let run = policy_in(&root(), &["fmt", "--check", "docs/policies"], "");
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
}

/// Each policy of the library denies only its own case.
/// The starter set is loaded too.
#[test]
fn library_policies_deny_only_their_own_case() {
    let starter = "charts/trellis/files/policies.yaml";
    let run = policy_in(
        &root(),
        &["test", "docs/policies", starter, "--min-coverage", "100"],
        "",
    );
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
}

/// The repository of docs/gitops permits the same as a fresh install.
#[test]
fn gitops_repository_permits_the_same_as_the_starter_set() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let starter = read("charts/trellis/files/policies.yaml");
    let base = read("docs/gitops/platform/base.yaml");
    assert_eq!(base, starter.replace("starter", "base"));
    let run = policy_in(
        &root(),
        &["test", "docs/gitops/platform", "--min-coverage", "100"],
        "",
    );
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
}

#[test]
fn index_lists_every_file() {
    let folder = root().join("docs/policies");
    let index = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let mut policies = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".yaml") {
            assert!(index.contains(&format!("]({name})")), "{name}");
            policies += 1;
        }
    }
    assert_eq!(policies, 12);
}
