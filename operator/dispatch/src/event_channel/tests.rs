use std::time::Duration;

use tokio::time::timeout;
use trellis_gang::fixtures::desired_run;

use super::*;

fn pod(name: &str, node: &str) -> SchedulerEvent {
    SchedulerEvent::Pod {
        pod: Key::new("ns", name),
        uid: name.into(),
        node: node.into(),
        request: Resources::new(),
        leaves: None,
    }
}

fn gone(name: &str) -> SchedulerEvent {
    SchedulerEvent::PodGone(Key::new("ns", name))
}

fn job(name: &str) -> Key {
    Key::new("ns", name)
}

fn event_names(events: &[SchedulerEvent]) -> Vec<String> {
    let names = events.iter().map(|event| match event {
        SchedulerEvent::Pod { pod, node, .. } => format!("{pod} on {node}"),
        SchedulerEvent::PodGone(pod) => format!("{pod} gone"),
        SchedulerEvent::Node(name) => name.to_string(),
        SchedulerEvent::DesiredGang(job, desired) => {
            format!("{job} desired: {}", desired.is_some())
        }
        SchedulerEvent::TaskEnded(job, _) => format!("{job} ended"),
        other => format!("{other:?}"),
    });
    names.collect()
}

#[test]
fn repeated_event_is_received_once_at_its_last_position() {
    let (sender, mut receiver) = event_channel();
    sender.send(SchedulerEvent::Node("n".into()));
    sender.send(pod("a", "n"));
    sender.send(pod("b", "n"));
    // The node shrinks before the pod holds fewer resources.
    sender.send(SchedulerEvent::Node("n".into()));
    sender.send(gone("a"));
    assert_eq!(
        event_names(&receiver.take_all()),
        ["ns/b on n", "n", "ns/a gone"]
    );
    assert!(receiver.take_all().is_empty());
    sender.send(pod("a", "m"));
    assert_eq!(
        event_names(&receiver.take_all()),
        ["ns/a on m"],
        "the event was taken, so this is a new one"
    );
}

#[test]
fn job_deletion_precedes_the_desired_gang_of_its_successor() {
    let (sender, mut receiver) = event_channel();
    sender.send(SchedulerEvent::DesiredGang(job("j"), Some(desired_run(1))));
    sender.send(SchedulerEvent::DesiredGang(job("j"), None));
    sender.send(SchedulerEvent::DesiredGang(job("j"), Some(desired_run(1))));
    sender.send(SchedulerEvent::DesiredGang(job("j"), Some(desired_run(2))));
    let wanted = ["ns/j desired: false", "ns/j desired: true"];
    assert_eq!(event_names(&receiver.take_all()), wanted);
    sender.send(SchedulerEvent::DesiredGang(job("j"), Some(desired_run(1))));
    sender.send(SchedulerEvent::DesiredGang(job("j"), None));
    assert_eq!(
        event_names(&receiver.take_all()).last().unwrap(),
        "ns/j desired: false"
    );
}

#[test]
fn task_results_and_queries_are_never_replaced() {
    let (sender, mut receiver) = event_channel();
    let query = || SchedulerEvent::AskQueues(oneshot::channel().0);
    for _ in 0..2 {
        sender.send(SchedulerEvent::TaskEnded(job("j"), TaskOutcome::Done));
        sender.send(query());
    }
    assert_eq!(receiver.take_all().len(), 4);
}

#[test]
fn pending_events_are_bounded_by_the_number_of_objects() {
    let (sender, mut receiver) = event_channel();
    let term = |key: &str| -> SchedulerEvent {
        let pod: SlimPod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "db", "namespace": "db"},
            "spec": {"nodeName": "n", "affinity": {"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": key, "labelSelector": {}}]}}},
        }))
        .unwrap();
        let mut index = trellis_gang::observed::AntiAffinityIndex::default();
        let mut terms = index.apply(&Key::new("db", "db"), &pod);
        SchedulerEvent::Repulsion(terms.remove(0))
    };
    let desired = desired_run(1);
    for i in 0..10_000 {
        let name = format!("{}", i % 3);
        sender.send(pod(&name, "n"));
        sender.send(gone(&name));
        sender.send(SchedulerEvent::Recheck(job(&name)));
        sender.send(SchedulerEvent::DesiredGang(
            job(&name),
            (i % 2 == 0).then(|| desired.clone()),
        ));
        sender.send(SchedulerEvent::DeviceClass);
        for event_for in [
            SchedulerEvent::Node,
            SchedulerEvent::Queue,
            SchedulerEvent::Flavor,
            SchedulerEvent::Topology,
            SchedulerEvent::NamespaceQuota,
        ] {
            sender.send(event_for(name.as_str().into()));
        }
        if i % 100 == 0 {
            sender.send(term(&name));
        }
    }
    {
        let pending = receiver.0.pending.lock();
        assert_eq!(pending.events.len(), pending.latest_by_subject.len());
    }
    // For each of three names: a pod, a recheck, a desired gang, a deleted job, five kinds of
    // objects, and a term. Device classes are one event.
    assert_eq!(receiver.take_all().len(), 3 * (4 + 5 + 1) + 1);
}

#[tokio::test(start_paused = true)]
async fn events_are_not_lost_while_the_receiver_is_idle_or_cancelled() {
    let (sender, mut receiver) = event_channel();
    sender.send(pod("a", "n"));
    assert_eq!(receiver.next().await.len(), 1);
    let second = Duration::from_secs(1);
    assert!(
        timeout(second, receiver.next()).await.is_err(),
        "no event was sent"
    );
    sender.send(pod("b", "n"));
    assert_eq!(receiver.next().await.len(), 1);
    let later = tokio::spawn(async move {
        tokio::time::sleep(second).await;
        sender.send(pod("c", "n"));
        sender
    });
    assert_eq!(event_names(&receiver.next().await), ["ns/c on n"]);
    later.await.unwrap();
}

#[tokio::test]
async fn request_fails_at_once_when_the_scheduler_has_ended() {
    let (sender, receiver) = event_channel();
    let ask = || {
        let (answer, snapshot) = tokio::sync::oneshot::channel();
        sender.send(SchedulerEvent::AskSnapshot(answer));
        snapshot
    };
    let (pending, second) = (ask(), Duration::from_secs(1));
    drop(receiver);
    for request in [pending, ask()] {
        let answer = timeout(second, request).await;
        assert!(answer.is_ok_and(|answer| answer.is_err()));
    }
}
