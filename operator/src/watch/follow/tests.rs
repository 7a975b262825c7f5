#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

use std::collections::VecDeque;

use futures::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use kube::core::watch::{Bookmark, BookmarkMeta};
use kube::core::{ListMeta, ObjectList, Status, TypeMeta};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::*;
use crate::watch::Store;
use crate::watch::source::Events;

/// What a test's API server says to one request.
enum Answer {
    /// A page of that version. True: another follows.
    Page(u64, Vec<ConfigMap>, bool),
    /// A watch, which then ends.
    Events(Vec<kube::Result<WatchEvent<ConfigMap>>>),
    Refused(u16),
    /// Nothing, for ever.
    Silence,
}

use Answer::{Events as Watched, Page, Refused, Silence};

/// An API server that says one thing after the other, and what it was asked.
#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<String>>,
    over: Notify,
}

impl Script {
    async fn next(&self, asked: String) -> Answer {
        let answer = self.answers.lock().pop_front();
        let Some(answer) = answer else {
            self.over.notify_one();
            return std::future::pending().await;
        };
        self.asked.lock().push(asked);
        answer
    }
}

fn refused(code: u16) -> kube::Error {
    kube::Error::Api(Status::failure("", "").with_code(code).boxed())
}

impl Source<ConfigMap> for Arc<Script> {
    async fn list(&self, limit: u32, after: Option<String>) -> kube::Result<ObjectList<ConfigMap>> {
        let asked = match (limit, after) {
            (1, _) => "compare".to_owned(),
            (_, None) => "list".to_owned(),
            (_, Some(after)) => format!("list {after}"),
        };
        match self.next(asked).await {
            Page(version, items, more) => Ok(ObjectList {
                types: TypeMeta::default(),
                metadata: ListMeta {
                    resource_version: Some(version.to_string()),
                    continue_: Some(if more { "more" } else { "" }.to_owned()),
                    ..ListMeta::default()
                },
                items,
            }),
            Refused(code) => Err(refused(code)),
            Silence => std::future::pending().await,
            Watched(_) => panic!("a list is asked for"),
        }
    }

    async fn watch(&self, version: u64, _: u32) -> kube::Result<Events<ConfigMap>> {
        match self.next(format!("watch {version}")).await {
            Watched(events) => Ok(stream::iter(events).boxed()),
            Refused(code) => Err(refused(code)),
            Silence => Ok(stream::pending().boxed()),
            Page(..) => panic!("a watch is asked for"),
        }
    }
}

/// What was heard.
#[derive(Default)]
struct Heard {
    said: Mutex<Vec<String>>,
    store: Store<ConfigMap>,
}

impl Sink<ConfigMap> for Heard {
    fn apply(&self, key: Key, object: ConfigMap) {
        self.said.lock().push(format!("+{}", key.name));
        self.store.observed(key, object);
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.said.lock().push(format!("-{} {uid}", key.name));
        self.store.deleted(key, uid);
    }

    fn ghosts(&self, listed: &HashSet<Key>, version: u64) -> Vec<(Key, String)> {
        self.store.ghosts(listed, version)
    }

    fn synced(&self) {
        self.said.lock().push("synced".to_owned());
    }

    fn unknown(&self) {
        self.said.lock().push("unknown".to_owned());
    }
}

fn object(name: &str, version: u64) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            uid: Some(format!("uid-{name}")),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn added(name: &str, version: u64) -> kube::Result<WatchEvent<ConfigMap>> {
    Ok(WatchEvent::Added(object(name, version)))
}

fn bookmark(version: u64) -> kube::Result<WatchEvent<ConfigMap>> {
    Ok(WatchEvent::Bookmark(Bookmark {
        types: TypeMeta::default(),
        metadata: BookmarkMeta {
            resource_version: version.to_string(),
            annotations: std::collections::BTreeMap::new(),
        },
    }))
}

/// What came of a script.
struct Came {
    said: Vec<String>,
    asked: Vec<String>,
    took: Duration,
    /// It is followed no more.
    left: bool,
}

async fn follow(answers: Vec<Answer>) -> Came {
    follow_into(answers, Arc::default()).await
}

async fn follow_into(answers: Vec<Answer>, heard: Arc<Heard>) -> Came {
    let script = Arc::new(Script {
        answers: Mutex::new(answers.into()),
        ..Script::default()
    });
    let began = Instant::now();
    let left = tokio::select! {
        () = Follower::new(script.clone(), heard.clone()).run() => true,
        () = script.over.notified() => false,
    };
    Came {
        said: heard.said.lock().clone(),
        asked: script.asked.lock().clone(),
        took: began.elapsed(),
        left,
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_later_list_leaves_out_is_gone() {
    let came = follow(vec![
        Page(2, vec![object("a", 1)], true),
        Page(2, vec![object("b", 2)], false),
        Watched(vec![
            added("c", 3),
            Ok(WatchEvent::Deleted(object("b", 4))),
            bookmark(5),
        ]),
        Page(5, vec![], false),
        Watched(vec![Ok(WatchEvent::Error(
            Status::failure("", "").with_code(410).boxed(),
        ))]),
        Page(6, vec![object("c", 3)], false),
    ])
    .await;
    assert_eq!(
        came.said,
        [
            "+a", "+b", "synced", "+c", "-b uid-b", "+c", "-a uid-a", "synced"
        ]
    );
    // It goes on where it was, and lists anew only where that is gone.
    let asked = ["list", "list more", "watch 2", "compare", "watch 5", "list"];
    assert_eq!(came.asked, asked);
}

#[tokio::test(start_paused = true)]
async fn what_a_list_showed_before_it_broke_off_is_gone_when_the_next_leaves_it_out() {
    let came = follow(vec![
        Page(1, vec![object("a", 1)], true),
        Refused(410),
        Page(2, vec![object("b", 2)], false),
    ])
    .await;
    assert_eq!(came.said, ["+a", "+b", "-a uid-a", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn what_came_and_went_unseen_is_gone_with_the_next_list() {
    let heard = Arc::<Heard>::default();
    let found = |name, version| heard.store.found(Key::new("", name), object(name, version));
    assert!(found("ghost", 5));
    assert!(found("new", 8));
    let came = follow_into(vec![Page(7, vec![], false)], heard.clone()).await;
    assert_eq!(came.said, ["-ghost uid-ghost", "synced"]);
    assert_eq!(heard.store.all().len(), 1);
}

/// etcd was restored from a backup: what was seen last is in the future.
#[tokio::test(start_paused = true)]
async fn a_history_that_goes_back_ends_it() {
    // A watch from there would show nothing for long.
    let silent = follow(vec![
        Page(7, vec![object("a", 5)], false),
        Watched(vec![bookmark(9)]),
        Page(8, vec![], false),
    ])
    .await;
    assert!(silent.left);
    assert_eq!(silent.asked, ["list", "watch 7", "compare"]);
    assert_eq!(silent.said, ["+a", "synced"]);

    let listed = follow(vec![
        Page(7, vec![object("a", 5)], false),
        Refused(410),
        Page(6, vec![object("a", 3)], false),
    ])
    .await;
    assert!(listed.left);
    assert_eq!(listed.said, ["+a", "synced"], "nothing of it is taken");

    // Others write while nothing changes here.
    let forward = follow(vec![
        Page(7, vec![], false),
        Watched(vec![]),
        Page(9, vec![], false),
        Watched(vec![added("a", 8)]),
    ])
    .await;
    assert!(!forward.left);
    assert_eq!(forward.asked[3], "watch 7", "nothing is skipped");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_api_server_does_not_know_has_no_objects() {
    let came = follow(vec![
        Refused(404),
        Refused(403),
        Page(1, vec![object("a", 1)], false),
        Refused(404),
        Refused(404),
        Page(2, vec![], false),
    ])
    .await;
    let said = ["unknown", "+a", "synced", "-a uid-a", "unknown", "unknown"];
    assert_eq!(came.said[..6], said);
    assert_eq!(came.asked[4..], ["list", "list"]);
}

#[tokio::test(start_paused = true)]
async fn lists_that_fail_are_tried_again_later_each_time() {
    let came = follow((0..10).map(|_| Refused(503)).collect()).await;
    // 0.2 + 0.4 + ... + 12.8, then 15 each.
    assert_eq!(came.took, Duration::from_millis(25_400 + 3 * 15_000));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_been_healthy_starts_over_at_once() {
    let mut answers = vec![Page(1, vec![], false)];
    for version in 1..=10 {
        answers.push(Watched(vec![
            added("a", version),
            Err(kube::Error::LinesCodecMaxLineLengthExceeded),
        ]));
        answers.push(Page(version, vec![], false));
    }
    assert_eq!(follow(answers).await.took, 10 * FIRST_PAUSE);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_answered_is_asked_again() {
    let came = follow(vec![
        Page(1, vec![object("a", 1)], true),
        Silence,
        Page(2, vec![object("b", 2)], false),
        // A watch that stalls, and a comparison that is not answered.
        Silence,
        Silence,
        Page(2, vec![], false),
        Watched(vec![added("c", 3)]),
    ])
    .await;
    assert_eq!(came.said, ["+a", "+b", "-a uid-a", "synced", "+c"]);
    let asked = [
        "list",
        "list more",
        "list",
        "watch 2",
        "compare",
        "compare",
        "watch 2",
    ];
    assert_eq!(came.asked, asked);
}
