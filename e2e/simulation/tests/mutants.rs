//! The faults that `.ci/mutants` brings back.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the patches, by the name of their fault.
fn patches() -> Vec<(String, PathBuf)> {
    let folder = root().join("e2e/simulation/mutants");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut patches: Vec<_> = files
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap();
            (name.to_owned(), path)
        })
        .collect();
    patches.sort();
    patches
}

/// A change of the code that moves a line of a patch must move the patch, too.
#[test]
fn every_fault_fits_the_code_and_names_itself_alone() {
    for (name, path) in patches() {
        let check = Command::new("git")
            .args(["apply", "--check"])
            .arg(&path)
            .current_dir(root())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&check.stderr);
        assert!(check.status.success(), "{name}: {error}");
        let text = fs::read_to_string(&path).unwrap();
        let named: BTreeSet<&str> = text
            .split("crate::mutant(\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        assert_eq!(named, BTreeSet::from([name.as_str()]), "{name}");
    }
}

#[test]
fn table_in_the_docs_has_every_fault() {
    let docs = fs::read_to_string(root().join("docs/reliability.md")).unwrap();
    let rows: BTreeSet<&str> = docs
        .split("## Faults that are brought back")
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next())
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let patches = patches();
    let names: BTreeSet<&str> = patches.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(rows, names);
}
