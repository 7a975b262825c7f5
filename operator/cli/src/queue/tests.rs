use serde_json::{Value, json};

use super::*;

fn queue_view(jobs: Value, queues: Value) -> QueueReads {
    QueueReads {
        jobs: serde_json::from_value(jobs).unwrap(),
        queues: serde_json::from_value(queues).unwrap(),
        notes: Vec::new(),
    }
}

fn job(namespace: &str, name: &str, fields: Value) -> Value {
    let mut job = json!({
        "apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "JobState",
        "metadata": {"namespace": namespace, "name": name},
        "queue": "research", "priority": 0, "gpus": 8, "pods": 1,
        "submitted": "2026-01-01T10:00:00Z", "since": "2026-01-01T10:00:00Z",
    });
    let fields = fields.as_object().unwrap().clone();
    job.as_object_mut().unwrap().extend(fields);
    job
}

fn busy_view() -> QueueReads {
    let jobs = json!([
        job(
            "team-b",
            "bert",
            json!({"position": 2, "phase": "Queued", "user": "bob@example.org",
            "reason": "InsufficientCapacity", "message": "needs 8 nvidia.com/gpu, 0 are free",
            "expectedStart": "2026-01-01T13:03:20Z"})
        ),
        job(
            "team-a",
            "urgent",
            json!({"position": 1, "phase": "Queued", "priority": 1000,
            "reason": "QuotaExceeded", "message": "quota of queue research"})
        ),
        job(
            "team-a",
            "llm",
            json!({"phase": "Running", "user": "ada@example.org", "gpus": 64,
            "pods": 8, "since": "2026-01-01T08:00:00Z", "reason": "Running", "message": "all run",
            "expectedEnd": "2026-01-01T18:00:00Z", "queueShare": "0.421", "nodeCount": 8,
            "nodes": ["n1", "n2", "n3"]})
        ),
        job(
            "team-c",
            "eval",
            json!({"queue": "default", "phase": "Starting", "gpus": 0, "pods": 2})
        ),
    ]);
    let queues = json!([
        {"apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "QueueState",
            "metadata": {"name": "research"}, "weight": "1.5", "active": true, "pending": 2,
            "admitted": 1, "share": "0.421", "parent": "lab", "resources": [
            {"flavor": "h100", "resource": "nvidia.com/gpu", "nominalQuota": "56", "used": "64",
                "borrowed": "8", "lendable": "0", "available": "0"},
            {"flavor": "h100", "resource": "cpu", "nominalQuota": "560", "used": "512", "borrowed": "0",
                "lendable": "48"}]},
        {"apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "QueueState",
            "metadata": {"name": "default"}, "weight": 1, "active": false,
            "reason": "QueueStopped", "message": "stopPolicy is HoldAndDrain", "pending": 0, "admitted": 1},
    ]);
    queue_view(jobs, queues)
}

fn text(view: &QueueReads, filter: JobFilter<'_>, wide: bool, width: Option<usize>) -> String {
    let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    let queues = view.queues.as_deref().unwrap_or_default();
    let queues = queues.iter().filter(|queue| filter.matches_queue(queue));
    let mut text = queue_summary::render_summary(queues, wide);
    text.push_str(&job_table::render_table(
        &filter.select(&view.jobs),
        now,
        wide,
        width,
    ));
    anstream::adapter::strip_str(&text).to_string()
}

const ALL: JobFilter<'static> = JobFilter {
    queue: None,
    user: None,
    waiting: true,
    running: true,
};

#[test]
fn queue_that_bypasses_quota_shows_the_reason() {
    let queues = json!([{"apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "QueueState",
        "metadata": {"name": "default"}, "weight": 1, "active": true, "pending": 0,
        "admitted": 0, "reason": "QuotaBypassed", "message": "the queue has no quota"}]);
    let view = queue_view(json!([]), queues);
    let text = queue_summary::render_summary(view.queues.iter().flatten(), false);
    assert!(
        text.contains("QuotaBypassed: the queue has no quota"),
        "{text}"
    );
}

#[test]
fn table_lists_pending_and_running_jobs() {
    insta::assert_snapshot!(text(&busy_view(), ALL, false, Some(120)));
}

#[test]
fn wide_table_has_all_columns() {
    insta::assert_snapshot!(text(&busy_view(), ALL, true, None));
}

#[test]
fn filters_select_jobs() {
    let names = |filter: JobFilter<'_>| {
        let view = busy_view();
        let jobs = filter.select(&view.jobs);
        jobs.iter()
            .map(|job| job.metadata.name.clone().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(ALL), ["eval", "llm", "urgent", "bert"]);
    assert_eq!(
        names(JobFilter {
            running: false,
            ..ALL
        }),
        ["urgent", "bert"]
    );
    assert_eq!(
        names(JobFilter {
            waiting: false,
            ..ALL
        }),
        ["eval", "llm"]
    );
    assert_eq!(
        names(JobFilter {
            queue: Some("default"),
            ..ALL
        }),
        ["eval"]
    );
    assert_eq!(
        names(JobFilter {
            user: Some("ada@example.org"),
            ..ALL
        }),
        ["llm"]
    );
    let none = JobFilter {
        queue: Some("other"),
        ..ALL
    };
    assert_eq!(
        text(&busy_view(), none, false, None),
        "no such job is pending or placed\n"
    );
}

/// A nominated job is pending and has no position any more.
#[test]
fn job_waiting_for_its_victims_is_pending() {
    let nominated = json!({"phase": "Queued", "reason": "Preempting",
        "message": "others are leaving", "expectedStart": "2026-01-01T12:01:00Z",
        "expectedEnd": "2026-01-01T13:00:00Z"});
    let view = queue_view(json!([job("team-a", "next", nominated)]), json!([]));
    let waiting = JobFilter {
        running: false,
        ..ALL
    };
    let output = text(&view, waiting, false, None);
    assert!(output.contains("starts in 60s"), "{output}");
    let running = JobFilter {
        waiting: false,
        ..ALL
    };
    assert!(running.select(&view.jobs).is_empty());
}

#[derive(clap::Parser)]
struct QueueCommandLine {
    #[command(flatten)]
    options: QueueOptions,
}

fn build_view_with(view: &QueueReads, arguments: &[&str]) -> Result<CommandView, ViewError> {
    let all = ["trellis"].iter().chain(arguments);
    let line = <QueueCommandLine as clap::Parser>::try_parse_from(all).unwrap();
    build_view(view, &line.options, None)
}

#[test]
fn script_output_has_jobs_queues_and_notes() {
    let mut view = busy_view();
    view.notes.push("jobs of one namespace alone".to_owned());
    let look = build_view_with(&view, &["research", "--waiting", "-o", "json"]).unwrap();
    assert_eq!(look.notes, view.notes);
    let output: Value = serde_json::from_str(&look.text).unwrap();
    let names = |list: &Value| -> Vec<String> {
        let all = list.as_array().unwrap().iter();
        all.map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&output["jobs"]), ["urgent", "bert"]);
    assert_eq!(names(&output["queues"]), ["research"]);
    assert_eq!(output["notes"], json!(["jobs of one namespace alone"]));
    view.queues = None;
    let look = build_view_with(&view, &["-o", "json"]).unwrap();
    let output: Value = serde_json::from_str(&look.text).unwrap();
    assert_eq!(
        output["queues"],
        json!(null),
        "the user may not see the queues"
    );
}

#[test]
fn unknown_queue_is_an_error_if_queues_are_visible() {
    let mut view = busy_view();
    assert!(build_view_with(&view, &["typo"]).is_err());
    // A job is in this queue, so the name is valid even if the queue does not exist.
    assert!(build_view_with(&view, &["default"]).is_ok());
    view.queues = None;
    assert!(build_view_with(&view, &["typo"]).is_ok());
}

#[test]
fn name_output_matches_kubectl() {
    let mut view = busy_view();
    let external_pods = json!([
        job("team-d", "podgroup.sweep", json!({"position": 3})),
        job("team-d", "pod.alone", json!({"position": 4})),
    ]);
    view.jobs
        .extend(serde_json::from_value::<Vec<_>>(external_pods).unwrap());
    let look = build_view_with(&view, &["research", "--waiting", "-o", "name"]).unwrap();
    assert_eq!(
        look.text,
        "trainingjob.trellis.dev/urgent\ntrainingjob.trellis.dev/bert\n\
         podgroup.trellis.dev/sweep\npod/alone\n"
    );
}

#[test]
fn all_namespaces_conflicts_with_a_namespace() {
    use clap::Parser as _;
    assert!(QueueCommandLine::try_parse_from(["trellis", "-A", "-l", "team=a"]).is_ok());
    assert!(QueueCommandLine::try_parse_from(["trellis", "-A", "-n", "team-a"]).is_err());
}
