//! Tests of traces and generated workloads.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::{event_tuples, simulate};

const POOLS: &str = "big=2x8,small=1x4";

#[test]
fn jobs_run_in_their_own_pools() {
    let run = simulate(&["--trace", "jobs.csv", "--nodes", POOLS, "-o", "jsonl"]);
    let lines = run.lines();
    assert_eq!(
        event_tuples(&lines),
        [
            (0.0, "placed", "big/1"),
            (10.0, "reserved", "big/2"),
            (10.0, "waiting", "big/2"),
            (20.0, "placed", "small/3"),
            (30.0, "finished", "small/3"),
            (30.0, "waiting", "big/4"),
            (100.0, "finished", "big/1"),
            (100.0, "placed", "big/2"),
            (100.0, "placed", "big/4"),
            (110.0, "finished", "big/4"),
            (150.5, "finished", "big/2"),
            (150.5, "summary", ""),
        ]
    );
    assert_eq!(
        lines[0]["pods"],
        json!({"1-worker-0": "big-000", "1-worker-1": "big-001"})
    );
    let last = lines.last().unwrap();
    assert_eq!(last["mean_wait_seconds"], json!((90.0 + 70.0) / 4.0));
    assert_eq!(
        last["by_size"],
        json!([
            {"gpus": "1", "jobs": 1, "mean_wait_seconds": 70.0, "mean_bounded_slowdown": 8.0},
            {"gpus": "2..8", "jobs": 2, "mean_wait_seconds": 45.0,
             "mean_bounded_slowdown": (140.5 / 50.5 + 1.0) / 2.0},
            {"gpus": "9..16", "jobs": 1, "mean_wait_seconds": 0.0, "mean_bounded_slowdown": 1.0},
        ])
    );
}

#[test]
fn gzip_trace_equals_plain_trace() {
    let folder = tempfile::tempdir().unwrap();
    let plain = std::fs::read("tests/simulate/input/jobs.csv").unwrap();
    let file = folder.path().join("jobs.csv.gz");
    let mut gz = GzEncoder::new(std::fs::File::create(&file).unwrap(), Compression::fast());
    gz.write_all(&plain).unwrap();
    gz.finish().unwrap();
    let simulate_trace =
        |file: &str| simulate(&["--trace", file, "--nodes", POOLS, "-o", "jsonl"]).out;
    assert_eq!(
        simulate_trace(file.to_str().unwrap()),
        simulate_trace("jobs.csv")
    );
}

#[test]
fn invalid_row_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string("tests/simulate/input/jobs.csv").unwrap();
    let cases = [
        (
            "16,,2",
            "16,,3",
            "row 1, column \"num_nodes\": 16 GPUs cannot be shared equally by 3 nodes",
        ),
        (
            "16,,2",
            "16,,0",
            "row 1, column \"num_nodes\": 16 GPUs cannot be shared equally by 0 nodes",
        ),
        (
            "50.5",
            "-1",
            "row 2, column \"duration_s\": \"-1\" is not a number of 0 or more",
        ),
        (
            "small",
            "other",
            "row 3, column \"tenant\": there is no pool \"other\": add it to --nodes",
        ),
        (
            "duration_s",
            "duration",
            "no column \"duration_s\" in the header",
        ),
    ];
    for (from, to, message) in cases {
        let file = folder.path().join("wrong.csv");
        std::fs::write(&file, text.replacen(from, to, 1)).unwrap();
        let run = simulate(&["--trace", file.to_str().unwrap(), "--nodes", POOLS]);
        assert_eq!(run.code, 2);
        assert!(run.err.trim_end().ends_with(message), "{}", run.err);
    }
}

#[test]
fn generated_gangs_have_the_requested_load_for_a_fixed_seed() {
    let run = |seed: &str| {
        let arguments = ["--workload", "gangs", "--nodes", "g=16x8", "--jobs", "150"];
        let options = [
            "--seed",
            seed,
            "--runtime",
            "predicted",
            "--unknown",
            "20",
            "-o",
            "jsonl",
        ];
        simulate(&[&arguments[..], &options[..]].concat())
    };
    let first = run("3");
    assert_eq!(first.code, 0, "{}", first.err);
    assert_eq!(first.out, run("3").out);
    assert_ne!(first.out, run("4").out);
    let last: Value = first.lines().pop().unwrap();
    assert_eq!(last["jobs"], json!(150));
    // Gangs of 32 and 64 nodes do not fit into 16 nodes, and stay pending.
    let (placed, finished) = (last["placed"].as_u64(), last["finished"].as_u64());
    assert_eq!(placed, finished);
    assert!((100..=150).contains(&placed.unwrap()), "{last}");
}

#[test]
fn rule_for_whole_domains_keeps_more_racks_free_than_rules_for_nodes() {
    let free_racks = |packing: &str| -> f64 {
        let arguments = ["--workload", "gangs", "--jobs", "600", "--until", "2h"];
        let options = ["--cpu-jobs", "30", "--seed", "5", "-o", "jsonl"];
        let rule = ["--packing", packing];
        let run = simulate(&[&arguments[..], &options[..], &rule[..]].concat());
        assert_eq!(run.code, 0, "{}", run.err);
        let summary: Value = run.lines().pop().unwrap();
        summary["domains"]["mean_free"].as_f64().unwrap()
    };
    let whole = free_racks("whole-domains");
    for other in ["nodes", "spread"] {
        let free = free_racks(other);
        assert!(
            whole > 2.0 * free,
            "{other}: {free}, whole-domains: {whole}"
        );
    }
}

/// Two jobs leave 3 GPUs on each of two nodes. The third job needs 6, and waits for 90 s.
#[test]
fn trace_shows_how_long_jobs_wait_because_of_fragmentation() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.csv");
    let jobs = "job_id,user,tenant,submit_time,num_chips,num_nodes,duration_s\n\
                1,u,p,0,5,1,100\n2,u,p,0,5,1,100\n3,u,p,10000000,6,1,50\n";
    std::fs::write(&file, jobs).unwrap();
    let arguments = ["--trace", file.to_str().unwrap(), "--nodes", "p=2x8"];
    let run = |format: &str| simulate(&[&arguments[..], &["-o", format]].concat());
    let summary: Value = serde_json::from_str(&run("json").out).unwrap();
    assert_eq!(summary["mean_wait_seconds"], json!(30.0));
    let repacked = &summary["repacked"];
    assert_eq!(repacked["mean_wait_seconds"], json!(0.0));
    assert_eq!(repacked["saved_wait_hours"], json!(90.0 / 3_600.0));
    let table = run("table").out;
    let heading = "with one large node in place of equal nodes:\nmean wait                   0 s\n";
    assert!(table.contains(heading), "{table}");
}

#[test]
fn generated_gangs_share_a_growing_pool() {
    let run = |more: &[&str]| {
        let arguments = ["--workload", "gangs", "--nodes", "g=16x8", "--jobs", "60"];
        let options = ["--arrive", "0.3", "-o", "jsonl"];
        let run = simulate(&[&arguments[..], &options[..], more].concat());
        assert_eq!(run.code, 0, "{}", run.err);
        run.lines().pop().unwrap()
    };
    let fixed = run(&["--close", "0"]);
    let growing = run(&["--autoscale", "--min-nodes", "2"]);
    for key in ["jobs", "placed", "finished"] {
        assert_eq!(fixed[key], growing[key], "{key}");
    }
    let hours = |summary: &Value| summary["nodes"]["hours"].as_f64().unwrap();
    assert!(hours(&growing) < hours(&fixed), "{growing}");
    assert_eq!(fixed["nodes"]["orders"], json!(0));
    assert_eq!(fixed["nodes"]["most"], json!(16));
    assert!(growing["nodes"]["arrived"].as_u64() > Some(0), "{growing}");
    assert_eq!(growing["domains"], Value::Null);
    assert_eq!(growing["repacked"], Value::Null);
}
