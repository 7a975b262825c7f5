//! TrainingJobs.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// If a lookup found the job in neither store, the job would count as deleted and lose its place.
#[tokio::test]
async fn job_stays_in_the_cache_while_its_decodability_alternates() {
    let case = ContextFixture::new();
    case.jobs(&[("a", "j", &[])]).await;
    let key = Key::new("a", "j");
    let job = case.context.cache.jobs.get(&key).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let lookups = scope.spawn(|| {
            let mut misses = 0;
            while !is_done.load(Ordering::Relaxed) {
                misses += usize::from(case.context.cache.job(&key).is_none());
            }
            misses
        });
        for _ in 0..20_000 {
            let undecodable = Undecodable {
                uid: "a-j".to_owned(),
                generation: None,
                error: String::new(),
            };
            Sink::<TrainingJob>::undecodable(&*case.sink, &key, undecodable);
            case.sink.apply(key.clone(), (*job).clone());
        }
        is_done.store(true, Ordering::Relaxed);
        assert_eq!(lookups.join().unwrap(), 0);
    });
}

/// The answers to two writes of the operator may reach the cache before the watch shows the first.
#[tokio::test]
async fn late_watch_event_ends_no_attempt() {
    let case = ContextFixture::new();
    let job = |version: &str, status: serde_json::Value| -> TrainingJob {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "j", "namespace": "a", "uid": "u", "resourceVersion": version},
            "spec": {"taskGroups": []}, "status": status,
        }))
        .unwrap()
    };
    let key = Key::new("a", "j");
    let placed = serde_json::json!({"phase": "Running", "attempt": 1,
        "scheduledTime": "2026-01-01T10:00:00Z"});
    let waiting = serde_json::json!({"phase": "Queued", "attempt": 1});
    case.sink.apply(key.clone(), job("8", waiting.clone()));
    let written = job("10", placed);
    case.context
        .cache
        .jobs
        .update_returned(key.clone(), written);
    let ended = || {
        let ended = case.context.ended_attempts.read();
        ended.recent(trellis_machine::clock::now()).len()
    };
    case.sink.apply(key.clone(), job("9", waiting.clone()));
    assert_eq!(ended(), 0, "the event is older than the cache");
    case.sink.apply(key.clone(), job("11", waiting));
    assert_eq!(ended(), 1);
    Sink::<TrainingJob>::delete(&*case.sink, &key, "another");
    assert_eq!(ended(), 1);
}
