//! Events: `kubectl describe` shows the events of a job in their order, each once.

use std::collections::BTreeSet;

use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use serde_json::json;
use trellis_api::job::JobPhase;
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::wait::eventually;

use super::create_site;

/// Returns reason and note of each event of a job, in the order of their times.
async fn job_events(site: &TestSite, job: &str) -> Vec<(String, String)> {
    let about = format!("regarding.kind=TrainingJob,regarding.name={job}");
    let events = site.api::<Event>();
    let list = events.list(&ListParams::default().fields(&about)).await;
    let mut events = list.unwrap().items;
    events.sort_by_key(|event| event.event_time.as_ref().map(|t| t.0));
    let reasons_and_notes = events.into_iter().map(|event| {
        let repetitions = event.series.map_or(0, |series| series.count);
        assert_eq!(repetitions, 0, "the event was repeated: {:?}", event.note);
        let reason = event.reason.unwrap_or_default();
        (reason, event.note.unwrap_or_default())
    });
    reasons_and_notes.collect()
}

#[tokio::test]
async fn events_report_placement_failures_and_completion_in_order() {
    let site = create_site("story", 1).await;
    site.submit("first", 1, 8).await;
    site.wait_for_phase("first", JobPhase::Running).await;
    let mut job = site.job("j", 2, 4);
    // Longer than the pods take to end on a busy machine. Otherwise no event BackingOff would
    // occur.
    job["spec"]["restart"] = json!({"backoffSeconds": 10, "maxBackoffSeconds": 10});
    site.create(job).await.unwrap();
    site.wait_for_phase("j", JobPhase::Queued).await;
    site.end_pod("first-worker-0", "0").await;
    site.wait_for_phase("j", JobPhase::Running).await;
    site.end_pod("j-worker-1", "7").await;
    site.wait_for_running_attempt("j", 2).await;
    for pod in ["j-worker-0", "j-worker-1"] {
        site.end_pod(pod, "0").await;
    }
    site.wait_for_phase("j", JobPhase::Complete).await;
    let node = &site.nodes().names()[0];
    let chapters = [
        ("InsufficientCapacity", "8 nvidia.com/gpu".to_owned()),
        ("Running", format!("all pods run, on node {node} (2)")),
        (
            "PodFailed",
            format!("\"j-worker-1\" on node {node:?} failed with exit code 7"),
        ),
        ("BackingOff", "attempt 2 is placed after".to_owned()),
        ("Running", format!("all pods run, on node {node} (2)")),
        ("Complete", "all 2 pods have succeeded".to_owned()),
    ];
    eventually(SOON, || async {
        let listed = job_events(&site, "j").await;
        let mut rest = listed.iter();
        for (reason, words) in &chapters {
            let found = rest.any(|(r, note)| r == reason && note.contains(words));
            anyhow::ensure!(
                found,
                "no event {reason} with {words:?} at this position: {listed:#?}"
            );
        }
        Ok(())
    })
    .await
    .unwrap();
    let listed = job_events(&site, "j").await;
    // The events of both attempts have the same note about the nodes.
    let different: BTreeSet<_> = listed.iter().collect();
    assert!(listed.len() <= different.len() + 2, "{listed:#?}");
}
