//! Options and tables of `trellis what-if`.

use clap::Parser as _;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;

#[derive(clap::Parser, Debug)]
struct OnlyChanges {
    #[command(flatten)]
    changes: ChangeOptions,
}

fn parse(options: &[&str], namespace: Option<&str>) -> anyhow::Result<Value> {
    let line = std::iter::once("what-if").chain(options.iter().copied());
    let changes = OnlyChanges::try_parse_from(line)?
        .changes
        .to_changes(namespace, 1)?;
    Ok(serde_json::to_value(changes)?)
}

#[test]
fn each_option_makes_its_change() {
    for (option, value, change) in [
        (
            "--add-nodes",
            "gpu-0=4",
            json!({"addNodes": {"like": "gpu-0", "count": 4}}),
        ),
        (
            "--remove-node",
            "gpu-1",
            json!({"removeNode": {"name": "gpu-1"}}),
        ),
        (
            "--cordon",
            "gpu-1",
            json!({"cordonNode": {"name": "gpu-1"}}),
        ),
        (
            "--restore",
            "gpu-1",
            json!({"restoreNode": {"name": "gpu-1"}}),
        ),
        (
            "--quota",
            "research:nvidia.com/gpu=64",
            json!({"changeQueue": {"name": "research", "quotas": [{"resource": "nvidia.com/gpu", "nominal": "64"}]}}),
        ),
        (
            "--quota",
            "research:memory@h100=2Ti",
            json!({"changeQueue": {"name": "research", "quotas": [{"resource": "memory", "flavor": "h100", "nominal": "2Ti"}]}}),
        ),
        (
            "--queue-priority",
            "vision=-5",
            json!({"changeQueue": {"name": "vision", "priority": -5}}),
        ),
        (
            "--stop-queue",
            "vision",
            json!({"changeQueue": {"name": "vision", "stopPolicy": "Hold"}}),
        ),
        (
            "--stop-queue",
            "vision=HoldAndDrain",
            json!({"changeQueue": {"name": "vision", "stopPolicy": "HoldAndDrain"}}),
        ),
        (
            "--remove-job",
            "llm",
            json!({"removeJob": {"namespace": "team-a", "name": "llm"}}),
        ),
        (
            "--priority",
            "team-b/llm=-1",
            json!({"changeJob": {"namespace": "team-b", "name": "llm", "priority": -1}}),
        ),
        (
            "--runtime",
            "llm=90m",
            json!({"changeJob": {"namespace": "team-a", "name": "llm", "runtimeSeconds": 5400}}),
        ),
        (
            "--move",
            "llm=vision",
            json!({"changeJob": {"namespace": "team-a", "name": "llm", "queue": "vision"}}),
        ),
        (
            "--add-job",
            "research=2x8",
            json!({"addJob": {"namespace": "team-a", "name": "added-1", "queue": "research",
                "groups": [{"replicas": 2, "requests": {"nvidia.com/gpu": "8"}}]}}),
        ),
    ] {
        let made = parse(&[option, value], Some("team-a")).unwrap();
        assert_eq!(made, json!([change]), "{option} {value}");
    }
}

#[test]
fn wrong_option_is_refused_with_its_form() {
    for (option, value, words) in [
        (
            "--add-nodes",
            "gpu-0",
            r#"--add-nodes: "gpu-0" has no value: write NAME=VALUE"#,
        ),
        ("--add-nodes", "gpu-0=x", r#"--add-nodes: "gpu-0=x""#),
        ("--quota", "research=8", "write QUEUE:RESOURCE=AMOUNT"),
        ("--quota", "research:cpu=lots", "--quota"),
        (
            "--stop-queue",
            "research=off",
            "must be None, Hold or HoldAndDrain",
        ),
        ("--runtime", "ml/llm=soon", "a time such as 90s"),
        ("--add-job", "research=8", "such as research=8x8"),
        ("--add-job", "research=8x0", "zero"),
        (
            "--priority",
            "llm=5",
            r#""llm" has no namespace: write NAMESPACE/JOB, or add -n"#,
        ),
    ] {
        let error = format!("{:#}", parse(&[option, value], None).unwrap_err());
        assert!(error.contains(words), "{option} {value}: {error}");
    }
}

fn status(jobs: Value, unmoved: u64) -> ForecastStatus {
    let status = json!({"time": "2026-01-01T12:00:00Z", "jobs": jobs, "unmoved": unmoved});
    serde_json::from_value(status).unwrap()
}

#[test]
fn table_has_the_job_that_moves_most_first() {
    let job = |name: &str, effect: &str, before: Value, after: Value| {
        json!({"namespace": "ml", "name": name, "queue": "research", "gpus": 16,
            "effect": effect, "before": before, "after": after})
    };
    let at = |minutes: i64| {
        let noon: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        (noon + SignedDuration::from_mins(minutes)).to_string()
    };
    let status = status(
        json!([
            job(
                "soon",
                "Earlier",
                json!({"start": at(60)}),
                json!({"start": at(0)})
            ),
            job(
                "late",
                "Later",
                json!({"start": at(60)}),
                json!({"start": at(300)})
            ),
            job("never", "Later", json!({"start": at(60)}), json!({})),
            job(
                "stop",
                "Stops",
                json!({"placed": true, "end": at(90)}),
                json!({"start": at(30)})
            ),
            job("gone", "Removed", json!({"placed": true}), Value::Null),
            job("made", "Added", Value::Null, json!({"start": at(10)})),
        ]),
        40,
    );
    let text = moved_jobs::render(&status, true, None);
    insta::assert_snapshot!(text);
}

#[test]
fn forecast_with_a_horizon_names_it() {
    let mut status = status(json!([]), 3);
    status.horizon = serde_json::from_value(json!("2026-01-01T16:00:00Z")).unwrap();
    assert_eq!(
        moved_jobs::render(&status, false, None),
        "no job moves in the next 4h, as far as the scheduler looked ahead\n"
    );
}

#[test]
fn forecast_that_moves_nothing_says_so() {
    assert_eq!(
        moved_jobs::render(&status(json!([]), 3), false, None),
        "no job moves\n"
    );
}
