//! Watches of nodes whose scheduler is played by the test.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::BodyDataStream;
use futures::StreamExt as _;
use kube::Client;
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use trellis_dispatch::SchedulerEvent;
use trellis_dispatch::commands::Commands;
use trellis_dispatch::context::Context;
use trellis_dispatch::leader::Leadership;
use trellis_scheduler::{Engine, Node, NodeName, Resources, Time};

use super::super::table::{Format, Include};
use super::*;
use crate::serve::Identity;
use crate::telemetry::{ActiveLeader, LeaderSlot};

/// An endpoint that leads, and the scheduler behind it.
struct Scene {
    endpoint: Arc<Endpoint>,
    leader: LeaderSlot,
    engine: Arc<Mutex<Engine>>,
}

impl Scene {
    fn new() -> Self {
        let engine = Arc::new(Mutex::new(Engine::new()));
        let (context, mut events) = Context::new();
        let asked = engine.clone();
        let mut time = 0_i64;
        tokio::spawn(async move {
            loop {
                for event in events.next().await {
                    match event {
                        SchedulerEvent::AskSnapshot(answer) => {
                            time = time.saturating_add(1_000);
                            let mut engine = asked.lock();
                            engine.cycle(Time::from_millis(time));
                            let _ = answer.send(Arc::new(engine.snapshot()));
                        }
                        SchedulerEvent::AskQueues(answer) => drop(answer.send(BTreeMap::new())),
                        _ => {}
                    }
                }
            }
        });
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        let commands = Commands::new(client.clone(), Leadership::for_test());
        let leader = Arc::new(RwLock::new(Some(ActiveLeader { context, commands })));
        let endpoint = Endpoint::new(
            leader.clone(),
            None,
            Identity::default(),
            client,
            Arc::default(),
        );
        Self {
            endpoint: Arc::new(endpoint),
            leader,
            engine,
        }
    }

    fn add_node(&self, name: &str, gpus: i64) {
        let offers = Resources::new()
            .with("nvidia.com/gpu", gpus)
            .with("pods", 110);
        self.engine
            .lock()
            .apply_node(Node::new(NodeName::new(name), offers));
    }

    fn watch(&self, query: &str) -> Events {
        let answer = self.answer(query, "ann");
        Events {
            parts: answer.unwrap().into_body().into_data_stream(),
            lines: Vec::new(),
        }
    }

    fn answer(&self, query: &str, user: &str) -> Result<Response, Failure> {
        let request = ObjectRequest::get(&format!("/nodestates?watch=true&{query}"));
        let user = UserInfo {
            username: Some(user.to_owned()),
            ..UserInfo::default()
        };
        serve_watch(&self.endpoint, user, true, request)
    }
}

/// The events of a watch.
struct Events {
    parts: BodyDataStream,
    lines: Vec<Value>,
}

impl Events {
    /// Returns the next event. None: the watch has ended.
    async fn next(&mut self) -> Option<Value> {
        while self.lines.is_empty() {
            let part = self.parts.next().await?.unwrap();
            let lines = part
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty());
            self.lines = lines
                .map(|line| serde_json::from_slice(line).unwrap())
                .collect();
        }
        Some(self.lines.remove(0))
    }

    /// Returns the type and the node of the next event that is no bookmark.
    async fn next_change(&mut self) -> (String, String, i64) {
        loop {
            let event = self.next().await.unwrap();
            let (kind, metadata) = (
                event["type"].as_str().unwrap(),
                &event["object"]["metadata"],
            );
            if kind != "BOOKMARK" {
                let version = metadata["resourceVersion"].as_str().unwrap();
                return (
                    kind.to_owned(),
                    metadata["name"].as_str().unwrap().to_owned(),
                    version.parse().unwrap(),
                );
            }
        }
    }
}

fn change(kind: &str, node: &str) -> (String, String) {
    (kind.to_owned(), node.to_owned())
}

#[tokio::test(start_paused = true)]
async fn watch_without_a_version_begins_with_all_rows() {
    let scene = Scene::new();
    for name in ["a", "b"] {
        scene.add_node(name, 8);
    }
    let mut events = scene.watch("sendInitialEvents=true&allowWatchBookmarks=true");
    for name in ["a", "b"] {
        let (kind, node, _) = events.next_change().await;
        assert_eq!((kind, node), change("ADDED", name));
    }
    let end = events.next().await.unwrap();
    assert_eq!(end["type"], "BOOKMARK");
    let annotations = &end["object"]["metadata"]["annotations"];
    assert_eq!(annotations["k8s.io/initial-events-end"], "true");

    scene.add_node("b", 4);
    scene.add_node("c", 8);
    scene.engine.lock().delete_node(&NodeName::new("a"));
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(events.next_change().await);
    }
    let versions: Vec<i64> = seen.iter().map(|(.., version)| *version).collect();
    assert!(
        versions.is_sorted_by(|a, b| a < b),
        "each change has a version of its own: {versions:?}"
    );
    let mut kinds: Vec<_> = seen
        .into_iter()
        .map(|(kind, node, _)| (kind, node))
        .collect();
    kinds.sort();
    let expected = [
        change("ADDED", "c"),
        change("DELETED", "a"),
        change("MODIFIED", "b"),
    ];
    assert_eq!(kinds, expected);
}

#[tokio::test(start_paused = true)]
async fn watch_goes_on_from_the_version_that_another_has_ended_with() {
    let scene = Scene::new();
    scene.add_node("a", 8);
    let mut first = scene.watch("sendInitialEvents=true");
    first.next_change().await;
    let bookmark = first.next().await.unwrap();
    let version = bookmark["object"]["metadata"]["resourceVersion"].as_str();
    let version: i64 = version.unwrap().parse().unwrap();
    drop(first);
    scene.add_node("a", 4);
    let mut second = scene.watch(&format!("resourceVersion={version}"));
    let (kind, node, later) = second.next_change().await;
    assert_eq!((kind, node), change("MODIFIED", "a"));
    assert!(later > version);
}

#[tokio::test(start_paused = true)]
async fn rows_without_news_cost_bookmarks_alone() {
    let scene = Scene::new();
    scene.add_node("a", 8);
    let mut events = scene.watch("allowWatchBookmarks=true");
    events.next_change().await;
    let mut last = 0;
    for _ in 0..3 {
        let event = events.next().await.unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        let version = event["object"]["metadata"]["resourceVersion"]
            .as_str()
            .unwrap();
        let version: i64 = version.parse().unwrap();
        assert!(version > last, "the rows are newer");
        last = version;
    }
}

#[tokio::test(start_paused = true)]
async fn watch_of_an_unknown_version_ends_with_410() {
    let scene = Scene::new();
    scene.add_node("a", 8);
    let mut events = scene.watch("resourceVersion=77");
    let error = events.next().await.unwrap();
    assert_eq!(error["type"], "ERROR");
    assert_eq!(error["object"]["code"], 410);
    assert_eq!(error["object"]["reason"], "Expired");
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn watch_ends_with_its_time_and_with_the_leadership() {
    let scene = Scene::new();
    scene.add_node("a", 8);
    let mut events = scene.watch("timeoutSeconds=30");
    events.next_change().await;
    assert!(events.next().await.is_none());
    let mut events = scene.watch("");
    events.next_change().await;
    *scene.leader.write() = None;
    assert!(events.next().await.is_none(), "another replica leads");
}

#[tokio::test(start_paused = true)]
async fn field_selector_selects_one_node() {
    let scene = Scene::new();
    for name in ["a", "b"] {
        scene.add_node(name, 8);
    }
    let mut events = scene.watch("fieldSelector=metadata.name%3Db");
    let (_, node, _) = events.next_change().await;
    assert_eq!(node, "b");
    scene.add_node("a", 4);
    scene.add_node("b", 4);
    let (kind, node, _) = events.next_change().await;
    assert_eq!((kind, node), change("MODIFIED", "b"));
}

#[tokio::test(start_paused = true)]
async fn kubectl_gets_each_row_as_a_table() {
    let scene = Scene::new();
    scene.add_node("a", 8);
    let mut request = ObjectRequest::get("/nodestates?watch=true&allowWatchBookmarks=true");
    request.format = Format::Table(Include::Metadata);
    let answer = serve_watch(&scene.endpoint, UserInfo::default(), true, request).unwrap();
    let mut events = Events {
        parts: answer.into_body().into_data_stream(),
        lines: Vec::new(),
    };
    let columns = <NodeState as super::super::table::TableRow>::COLUMNS.len();
    for (kind, cells) in [("ADDED", columns), ("BOOKMARK", 0)] {
        let event = events.next().await.unwrap();
        let table = &event["object"];
        assert_eq!(
            (&event["type"], &table["kind"]),
            (&json!(kind), &json!("Table"))
        );
        assert_eq!(table["rows"][0]["cells"].as_array().unwrap().len(), cells);
        let metadata = &table["rows"][0]["object"]["metadata"];
        assert!(metadata["resourceVersion"].is_string(), "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_user_cannot_take_all_watches() {
    let scene = Scene::new();
    let mut open = Vec::new();
    let refused = loop {
        match scene.answer("", "ann") {
            Ok(answer) => open.push(answer),
            Err(failure) => break failure,
        }
    };
    assert_eq!(refused.code(), 429);
    assert!(scene.answer("", "bob").is_ok());
    drop(open);
    assert!(scene.answer("", "ann").is_ok());
}

#[tokio::test(start_paused = true)]
async fn watch_goes_on_while_the_right_cannot_be_reviewed() {
    let scene = Scene::new();
    scene.add_node("a", 8);
    let mut events = scene.watch("");
    events.next_change().await;
    // The API server cannot be reached: the watch goes on for a while.
    let quiet = tokio::time::timeout(Duration::from_secs(30), events.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    scene.add_node("b", 8);
    let (kind, node, _) = events.next_change().await;
    assert_eq!((kind, node), change("ADDED", "b"));
    assert!(
        events.next().await.is_none(),
        "without a review for a minute"
    );
}

#[tokio::test(start_paused = true)]
async fn rows_of_a_reader_outlive_a_pause_of_all_lists() {
    let scene = Scene::new();
    scene.add_node("a", 8);
    let mut events = scene.watch("allowWatchBookmarks=true");
    let (_, _, version) = events.next_change().await;
    // A slow client takes nothing for a while, and the last snapshot is dropped.
    tokio::time::sleep(Duration::from_secs(50)).await;
    scene.add_node("a", 4);
    let (kind, node, later) = events.next_change().await;
    assert_eq!((kind, node), change("MODIFIED", "a"));
    assert!(later > version);
}

#[tokio::test(start_paused = true)]
async fn large_lists_come_in_parts_and_lose_nothing() {
    let scene = Scene::new();
    for node in 0..1_200 {
        scene.add_node(&format!("node-{node:04}"), 8);
    }
    let mut events = scene.watch("sendInitialEvents=true&allowWatchBookmarks=true");
    for _ in 0..1_200 {
        assert_eq!(events.next().await.unwrap()["type"], "ADDED");
    }
    assert_eq!(events.next().await.unwrap()["type"], "BOOKMARK");
    for node in 0..1_200 {
        scene.add_node(&format!("node-{node:04}"), 4);
    }
    let mut last = 0;
    for _ in 0..1_200 {
        let (kind, _, version) = events.next_change().await;
        assert_eq!(kind, "MODIFIED");
        assert!(version > last);
        last = version;
    }
}

#[tokio::test(start_paused = true)]
async fn versions_of_another_leadership_are_unknown() {
    let scene = Scene::new();
    scene.add_node("a", 8);
    let (_, _, version) = scene.watch("").next_change().await;
    let other = Scene::new();
    other.add_node("a", 8);
    let taken = other.leader.write().take();
    *scene.leader.write() = taken;
    let mut events = scene.watch(&format!("resourceVersion={version}"));
    tokio::time::sleep(Duration::from_secs(20)).await;
    let error = events.next().await.unwrap();
    assert_eq!(error["object"]["code"], 410, "{error}");
}
