use std::time::Duration;

use tokio::time::timeout;
use trellis_gang::fixtures::run;

use super::*;

fn pod(name: &str, node: &str) -> Feed {
    Feed::Pod {
        pod: Key::new("ns", name),
        uid: name.into(),
        node: node.into(),
        request: Resources::new(),
        leaves: None,
    }
}

fn gone(name: &str) -> Feed {
    Feed::PodGone(Key::new("ns", name))
}

fn job(name: &str) -> Key {
    Key::new("ns", name)
}

fn words(feeds: &[Feed]) -> Vec<String> {
    let words = feeds.iter().map(|feed| match feed {
        Feed::Pod { pod, node, .. } => format!("{pod} on {node}"),
        Feed::PodGone(pod) => format!("{pod} gone"),
        Feed::Node(name) => name.to_string(),
        Feed::Wish(job, wish) => format!("{job} wanted: {}", wish.is_some()),
        Feed::Ended(job, _) => format!("{job} ended"),
        other => format!("{other:?}"),
    });
    words.collect()
}

#[test]
fn of_what_is_told_again_the_last_is_heard_in_the_order_of_the_last() {
    let (tell, mut heard) = channel();
    tell.send(Feed::Node("n".into()));
    tell.send(pod("a", "n"));
    tell.send(pod("b", "n"));
    // Its node has less room before it holds less.
    tell.send(Feed::Node("n".into()));
    tell.send(gone("a"));
    assert_eq!(words(&heard.take()), ["ns/b on n", "n", "ns/a gone"]);
    assert!(heard.take().is_empty());
    tell.send(pod("a", "m"));
    assert_eq!(words(&heard.take()), ["ns/a on m"], "it is news again");
}

#[test]
fn that_a_job_is_gone_is_heard_before_the_wish_of_the_next_of_its_name() {
    let (tell, mut heard) = channel();
    tell.send(Feed::Wish(job("j"), Some(run(1))));
    tell.send(Feed::Wish(job("j"), None));
    tell.send(Feed::Wish(job("j"), Some(run(1))));
    tell.send(Feed::Wish(job("j"), Some(run(2))));
    let wanted = ["ns/j wanted: false", "ns/j wanted: true"];
    assert_eq!(words(&heard.take()), wanted);
    tell.send(Feed::Wish(job("j"), Some(run(1))));
    tell.send(Feed::Wish(job("j"), None));
    assert_eq!(words(&heard.take()).last().unwrap(), "ns/j wanted: false");
}

#[test]
fn every_end_of_a_task_and_every_question_is_heard() {
    let (tell, mut heard) = channel();
    let ask = || Feed::AskQueues(oneshot::channel().0);
    for _ in 0..2 {
        tell.send(Feed::Ended(job("j"), Outcome::Done));
        tell.send(ask());
    }
    assert_eq!(heard.take().len(), 4);
}

#[test]
fn what_waits_is_bounded_by_the_objects_there_are() {
    let (tell, mut heard) = channel();
    let term = |key: &str| -> Feed {
        let pod: SlimPod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "db", "namespace": "db"},
            "spec": {"nodeName": "n", "affinity": {"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": key, "labelSelector": {}}]}}},
        }))
        .unwrap();
        let repulsions = trellis_gang::observed::Repulsions::default();
        let mut terms = repulsions.apply(&Key::new("db", "db"), &pod);
        Feed::Repulsion(terms.remove(0))
    };
    let wish = run(1);
    for i in 0..10_000 {
        let name = format!("{}", i % 3);
        tell.send(pod(&name, "n"));
        tell.send(gone(&name));
        tell.send(Feed::Look(job(&name)));
        tell.send(Feed::Wish(job(&name), (i % 2 == 0).then(|| wish.clone())));
        tell.send(Feed::DeviceClass);
        for one in [
            Feed::Node,
            Feed::Queue,
            Feed::Flavor,
            Feed::Topology,
            Feed::NamespaceQuota,
        ] {
            tell.send(one(name.as_str().into()));
        }
        if i % 100 == 0 {
            tell.send(term(&name));
        }
    }
    {
        let waiting = heard.0.waiting.lock();
        assert_eq!(waiting.feeds.len(), waiting.times.len());
    }
    // Pods, looks, wishes and ends of jobs, five kinds of names, terms; and the classes.
    assert_eq!(heard.take().len(), 3 * (4 + 5 + 1) + 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_told_while_nobody_waits_is_heard_and_nothing_is_lost_by_giving_up() {
    let (tell, mut heard) = channel();
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
    assert_eq!(words(&heard.next().await), ["ns/c on n"]);
    later.await.unwrap();
}
