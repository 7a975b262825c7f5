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

fn event_names(feeds: &[SchedulerEvent]) -> Vec<String> {
    let words = feeds.iter().map(|feed| match feed {
        SchedulerEvent::Pod { pod, node, .. } => format!("{pod} on {node}"),
        SchedulerEvent::PodGone(pod) => format!("{pod} gone"),
        SchedulerEvent::Node(name) => name.to_string(),
        SchedulerEvent::DesiredGang(job, wish) => format!("{job} wanted: {}", wish.is_some()),
        SchedulerEvent::TaskEnded(job, _) => format!("{job} ended"),
        other => format!("{other:?}"),
    });
    words.collect()
}

#[test]
fn repeated_event_is_received_once_at_its_last_position() {
    let (tell, mut heard) = event_channel();
    tell.send(SchedulerEvent::Node("n".into()));
    tell.send(pod("a", "n"));
    tell.send(pod("b", "n"));
    // The node shrinks before the pod holds fewer resources.
    tell.send(SchedulerEvent::Node("n".into()));
    tell.send(gone("a"));
    assert_eq!(
        event_names(&heard.take_all()),
        ["ns/b on n", "n", "ns/a gone"]
    );
    assert!(heard.take_all().is_empty());
    tell.send(pod("a", "m"));
    assert_eq!(
        event_names(&heard.take_all()),
        ["ns/a on m"],
        "it is news again"
    );
}

#[test]
fn job_deletion_precedes_the_desired_gang_of_its_successor() {
    let (tell, mut heard) = event_channel();
    tell.send(SchedulerEvent::DesiredGang(job("j"), Some(desired_run(1))));
    tell.send(SchedulerEvent::DesiredGang(job("j"), None));
    tell.send(SchedulerEvent::DesiredGang(job("j"), Some(desired_run(1))));
    tell.send(SchedulerEvent::DesiredGang(job("j"), Some(desired_run(2))));
    let wanted = ["ns/j wanted: false", "ns/j wanted: true"];
    assert_eq!(event_names(&heard.take_all()), wanted);
    tell.send(SchedulerEvent::DesiredGang(job("j"), Some(desired_run(1))));
    tell.send(SchedulerEvent::DesiredGang(job("j"), None));
    assert_eq!(
        event_names(&heard.take_all()).last().unwrap(),
        "ns/j wanted: false"
    );
}

#[test]
fn task_results_and_queries_are_never_replaced() {
    let (tell, mut heard) = event_channel();
    let ask = || SchedulerEvent::AskQueues(oneshot::channel().0);
    for _ in 0..2 {
        tell.send(SchedulerEvent::TaskEnded(job("j"), TaskOutcome::Done));
        tell.send(ask());
    }
    assert_eq!(heard.take_all().len(), 4);
}

#[test]
fn pending_events_are_bounded_by_the_number_of_objects() {
    let (tell, mut heard) = event_channel();
    let term = |key: &str| -> SchedulerEvent {
        let pod: SlimPod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "db", "namespace": "db"},
            "spec": {"nodeName": "n", "affinity": {"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": key, "labelSelector": {}}]}}},
        }))
        .unwrap();
        let mut repulsions = trellis_gang::observed::AntiAffinityIndex::default();
        let mut terms = repulsions.apply(&Key::new("db", "db"), &pod);
        SchedulerEvent::Repulsion(terms.remove(0))
    };
    let wish = desired_run(1);
    for i in 0..10_000 {
        let name = format!("{}", i % 3);
        tell.send(pod(&name, "n"));
        tell.send(gone(&name));
        tell.send(SchedulerEvent::Recheck(job(&name)));
        tell.send(SchedulerEvent::DesiredGang(
            job(&name),
            (i % 2 == 0).then(|| wish.clone()),
        ));
        tell.send(SchedulerEvent::DeviceClass);
        for one in [
            SchedulerEvent::Node,
            SchedulerEvent::Queue,
            SchedulerEvent::Flavor,
            SchedulerEvent::Topology,
            SchedulerEvent::NamespaceQuota,
        ] {
            tell.send(one(name.as_str().into()));
        }
        if i % 100 == 0 {
            tell.send(term(&name));
        }
    }
    {
        let waiting = heard.0.pending.lock();
        assert_eq!(waiting.events.len(), waiting.latest_by_subject.len());
    }
    // Pods, looks, wishes and ends of jobs, five kinds of names, terms; and the classes.
    assert_eq!(heard.take_all().len(), 3 * (4 + 5 + 1) + 1);
}

#[tokio::test(start_paused = true)]
async fn events_are_not_lost_while_the_receiver_is_idle_or_cancelled() {
    let (tell, mut heard) = event_channel();
    tell.send(pod("a", "n"));
    assert_eq!(heard.next().await.len(), 1);
    let second = Duration::from_secs(1);
    assert!(timeout(second, heard.next()).await.is_err(), "no news");
    tell.send(pod("b", "n"));
    assert_eq!(heard.next().await.len(), 1);
    let later = tokio::spawn(async move {
        tokio::time::sleep(second).await;
        tell.send(pod("c", "n"));
        tell
    });
    assert_eq!(event_names(&heard.next().await), ["ns/c on n"]);
    later.await.unwrap();
}
