//! Tests decisions between jobs and queues.
//! Each case is a scenario with expectations.

use std::path::PathBuf;

use super::{root, simulate};

fn scenarios() -> Vec<PathBuf> {
    let folder = root().join("operator/cli/tests/simulate/decisions");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 9, "{files:?}");
    files
}

#[test]
fn every_scenario_meets_its_expectations() {
    for scenario in scenarios() {
        let run = simulate(&[scenario.to_str().unwrap(), "-o", "jsonl"]);
        let name = scenario.file_stem().unwrap().to_str().unwrap();
        let lines = run.lines();
        let summary = lines.last().unwrap();
        assert_eq!(run.code, 0, "{name}: {}", summary["expects"]);
        let expects = summary["expects"].as_array().unwrap();
        assert!(!expects.is_empty(), "{name} expects nothing");
    }
}
