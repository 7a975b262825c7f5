use kube::core::ObjectMeta;
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_dispatch::captured_log::CapturedLog;
use trellis_dispatch::leader::Leadership;
use trellis_machine::clock;

use super::*;

/// Returns a controller whose API server does not answer.
fn controller() -> Controller {
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = kube::Client::try_from(nowhere).unwrap();
    let commands = Commands::new(client, Leadership::for_test());
    let (context, _) = Context::new();
    Controller::new(context, commands, Settings::default())
}

fn job(version: &str, status: serde_json::Value) -> TrainingJob {
    let mut job: TrainingJob = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {},
        "spec": {"taskGroups": [{"name": "worker", "gpus": 8, "image": "train:1",
            "resources": {"limits": {"cpu": "96", "memory": "1Ti"}}}]},
        "status": status,
    }))
    .unwrap();
    job.metadata = ObjectMeta {
        name: Some("j".to_owned()),
        namespace: Some("ns".to_owned()),
        uid: Some("uid".to_owned()),
        resource_version: Some(version.to_owned()),
        ..ObjectMeta::default()
    };
    job
}

#[tokio::test]
async fn controller_forgets_an_ended_job() {
    let controller = controller();
    let key = Key::new("ns", "j");
    let refused = json!({"phase": "Restarting", "reason": "KubeletRefused", "lastFailure": {
        "pod": "j-worker-0", "node": "n", "reason": "OutOfcpu", "attempt": 1,
        "time": "2026-01-01T00:00:00Z",
    }});
    controller
        .context
        .cache
        .jobs
        .insert_observed(key.clone(), job("1", refused));
    // The job is built on another thread, and reconciled again afterwards.
    assert!(controller.reconcile(&key).await.unwrap().is_none());
    assert_eq!(controller.context.work_queue.next().await, key);
    assert!(controller.builds.contains(&key));
    controller.reconcile(&key).await.unwrap_err();
    assert!(controller.counts_written.lock().contains_key(&key));
    let ended = json!({"phase": "Complete", "completionTime": clock::now().to_string()});
    controller
        .context
        .cache
        .jobs
        .insert_observed(key.clone(), job("2", ended));
    assert!(controller.reconcile(&key).await.unwrap().is_some());
    assert!(!controller.builds.contains(&key));
    assert!(controller.counts_written.lock().is_empty());
}

/// On-call engineers search for this log line.
#[tokio::test(start_paused = true)]
async fn slow_reconciliation_is_logged_repeatedly() {
    let (log, _guard) = CapturedLog::begin();
    let controller = controller();
    let key = Key::new("ns", "j");
    let reconcile_for = |time| controller.log_while_slow(&key, tokio::time::sleep(time));
    reconcile_for(SLOW_AFTER - Duration::from_millis(1)).await;
    assert_eq!(log.lines(), Vec::<String>::new());
    reconcile_for(SLOW_AFTER * 5 / 2).await;
    let lines = log.lines();
    for (line, duration) in lines.iter().zip(["30s", "60s"]) {
        assert!(line.contains(" WARN "), "{line}");
        assert!(line.contains("still being reconciled job=ns/j"), "{line}");
        let last = line.rsplit_once("took=").unwrap().1;
        assert!(last.starts_with(duration.trim_end_matches('s')), "{line}");
    }
    assert_eq!(lines.len(), 2, "{lines:?}");
}
