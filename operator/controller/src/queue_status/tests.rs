//! Conditions of a queue's status, and the writes for queues that do not decode.

use kube::Client;
use trellis_api::QueueSpec;
use trellis_dispatch::leader::Leadership;
use trellis_scheduler::QueueCounts;

use super::*;

/// Starts an API server that refuses all requests. Returns its address, and the requests that it
/// receives.
#[expect(clippy::disallowed_methods, reason = "no part of a simulation")]
fn refusing_api_server() -> (String, std::sync::mpsc::Receiver<String>) {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (requests, received) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": "invalid", "reason": "Invalid", "code": 422})
        .to_string();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = String::new();
            // The request ends with its JSON body.
            while !request.ends_with("}}") {
                let mut bytes = [0; 4096];
                let read = stream.read(&mut bytes).unwrap();
                assert!(read > 0, "{request}");
                request.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
            }
            let answer = format!(
                "HTTP/1.1 422 Unprocessable Entity\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{status}",
                status.len()
            );
            // Sent before the answer, so that the client finds the request after the answer.
            requests.send(request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (address, received)
}

#[tokio::test]
async fn refused_queue_status_is_not_retried_until_the_queue_changes() {
    let (address, received) = refusing_api_server();
    let client = Client::try_from(kube::Config::new(address.parse().unwrap())).unwrap();
    let commands = Commands::new(client, Leadership::for_test());
    let (context, _) = Context::new();
    let mut reported = BTreeMap::new();
    for generation in [1, 1, 2, 2] {
        let queue = Undecodable {
            uid: "u".to_owned(),
            generation: Some(generation),
            error: "no".to_owned(),
        };
        let name = "broken".to_owned();
        context.cache.undecodable_queues.write().insert(name, queue);
        report_undecodable(&context.cache, &commands, &mut reported).await;
    }
    let requests: Vec<_> = received.try_iter().collect();
    assert_eq!(requests.len(), 2, "{requests:?}");
    for request in &requests {
        // The patch names the uid, so it never changes a later queue of this name.
        assert!(request.contains(r#""metadata":{"uid":"u"}"#), "{request}");
    }
    context.cache.undecodable_queues.write().clear();
    report_undecodable(&context.cache, &commands, &mut reported).await;
    assert!(reported.is_empty());
}

#[test]
fn queue_is_active_until_stopped() {
    let mut queue = TrainingQueue::new("q", QueueSpec::default());
    let report = &QueueReport {
        counts: QueueCounts {
            pending: 2,
            admitted: 1,
        },
        ..QueueReport::default()
    };
    let at = |second| Timestamp::from_second(second).unwrap();
    let exists = |_: &str| true;
    let first = build_status(&queue, (report, &[]), exists, at(1));
    assert_eq!((first.pending, first.admitted), (Some(2), Some(1)));
    queue.status = Some(first.clone());
    assert_eq!(
        build_status(&queue, (report, &[]), exists, at(2)),
        first,
        "without a change the status stays the same"
    );
    queue.spec.stop_policy = Some(StopPolicy::Hold);
    let stopped = build_status(&queue, (report, &[]), exists, at(3))
        .conditions
        .remove(0);
    assert_eq!(
        (stopped.status.as_str(), stopped.reason.as_str()),
        ("False", "QueueStopped")
    );
    assert_eq!(stopped.last_transition_time, Time(at(3)));
    queue.spec.stop_policy = Some(StopPolicy::HoldAndDrain);
    let drained = build_status(&queue, (report, &[]), exists, at(4))
        .conditions
        .remove(0);
    assert_eq!(drained.reason, "QueueStopped");
    assert!(drained.message.contains("preempted"), "{}", drained.message);
}

#[test]
fn queue_reports_namespaces_that_bypass_their_quota() {
    let queue = TrainingQueue::new("q", QueueSpec::default());
    let report = QueueReport::default();
    let active_condition = |namespaces: &[&str]| {
        let namespaces: Vec<String> = namespaces.iter().map(|name| (*name).to_owned()).collect();
        let now = Timestamp::UNIX_EPOCH;
        let mut status = build_status(&queue, (&report, &namespaces), |_| true, now);
        let condition = status.conditions.remove(0);
        (condition.status, condition.reason, condition.message)
    };
    assert_eq!(active_condition(&[]).1, "Accepted");
    let (status, reason, message) = active_condition(&["a", "b", "c", "d", "e"]);
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("True", "QuotaBypassed")
    );
    assert!(
        message.contains("\"a\", \"b\", \"c\" and 2 more; narrow"),
        "{message}"
    );
}

#[test]
fn queue_reports_missing_flavors() {
    let queue: TrainingQueue = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingQueue", "metadata": {"name": "q"},
        "spec": {"resourceGroups": [
            {"coveredResources": ["cpu"], "flavors": [
                {"name": "h100", "resources": [{"name": "cpu", "nominalQuota": 1}]},
                {"name": "a100", "resources": [{"name": "cpu", "nominalQuota": 1}]}]},
            {"coveredResources": ["memory"], "flavors": [
                {"name": "default", "resources": [{"name": "memory", "nominalQuota": 1}]}]},
        ]}
    }))
    .unwrap();
    let active_condition = |flavors: &[&str]| {
        let exists = |flavor: &str| flavors.contains(&flavor);
        let report = QueueReport::default();
        let mut status = build_status(&queue, (&report, &[]), exists, Timestamp::UNIX_EPOCH);
        let condition = status.conditions.remove(0);
        (condition.status, condition.reason, condition.message)
    };
    let (status, reason, _) = active_condition(&["default", "h100", "a100"]);
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Accepted"));
    let (status, reason, message) = active_condition(&["default", "a100"]);
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("True", "FlavorNotFound")
    );
    assert!(
        message.contains("create ResourceFlavor \"h100\","),
        "{message}"
    );
    let (status, reason, message) = active_condition(&["default"]);
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("False", "FlavorNotFound")
    );
    assert!(message.contains("\"a100\", \"h100\""), "{message}");
}
