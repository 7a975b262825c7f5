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
    Page(u64, Vec<Item<ConfigMap>>, bool),
    /// A watch, which then ends.
    Events(Vec<kube::Result<WatchEvent<Item<ConfigMap>>>>),
    Refused(u16),
    /// A watch that shows this, and then nothing for so long until it ends.
    Slow(Vec<kube::Result<WatchEvent<Item<ConfigMap>>>>, Duration),
    /// Nothing, for ever.
    Silence,
}

use Answer::{Events as Watched, Page, Refused, Silence, Slow};

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
    async fn list(
        &self,
        limit: u32,
        after: Option<String>,
    ) -> kube::Result<ObjectList<Item<ConfigMap>>> {
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
            Watched(_) | Slow(..) => panic!("a list is asked for"),
        }
    }

    async fn watch(&self, version: u64, _: u32) -> kube::Result<Events<ConfigMap>> {
        match self.next(format!("watch {version}")).await {
            Watched(events) => Ok(stream::iter(events).boxed()),
            Slow(events, silent) => {
                let end = stream::once(tokio::time::sleep(silent)).filter_map(|()| async { None });
                Ok(stream::iter(events).chain(end).boxed())
            }
            Refused(code) => Err(refused(code)),
            Silence => Ok(stream::pending().boxed()),
            Page(..) => panic!("a watch is asked for"),
        }
    }
}

/// What was heard.
#[derive(Default)]
struct Heard<const MAY_BE_ABSENT: bool = false> {
    said: Mutex<Vec<String>>,
    store: Store<ConfigMap>,
}

impl<const MAY_BE_ABSENT: bool> Sink<ConfigMap> for Heard<MAY_BE_ABSENT> {
    const MAY_BE_ABSENT: bool = MAY_BE_ABSENT;

    fn apply(&self, key: Key, object: ConfigMap) {
        self.said.lock().push(format!("+{}", key.name));
        self.store.observed(key, object);
    }

    fn undecodable(&self, key: &Key, object: Undecodable) {
        self.said
            .lock()
            .push(format!("?{} {}", key.name, object.uid));
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

fn config_map(name: &str, version: u64) -> ConfigMap {
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

fn object(name: &str, version: u64) -> Item<ConfigMap> {
    Item::Object(config_map(name, version))
}

/// One that does not decode, of another uid than the object of that name.
fn broken(name: Option<&str>, version: Option<u64>) -> Item<ConfigMap> {
    Item::Undecodable {
        meta: Box::new(ObjectMeta {
            name: name.map(str::to_owned),
            uid: Some("broken".to_owned()),
            resource_version: version.map(|v| v.to_string()),
            ..ObjectMeta::default()
        }),
        error: String::new(),
    }
}

fn added(name: &str, version: u64) -> kube::Result<WatchEvent<Item<ConfigMap>>> {
    Ok(WatchEvent::Added(object(name, version)))
}

fn bookmark(version: u64) -> kube::Result<WatchEvent<Item<ConfigMap>>> {
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
    follow_into(answers, Arc::<Heard>::default()).await
}

async fn follow_into<const ABSENT: bool>(answers: Vec<Answer>, heard: Arc<Heard<ABSENT>>) -> Came {
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
    let found = |name, version| {
        let key = Key::new("", name);
        heard.store.found(key, config_map(name, version))
    };
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
        Page(8, vec![], false),
    ])
    .await;
    assert!(silent.left);
    assert_eq!(silent.asked, ["list", "watch 7", "compare", "compare"]);
    assert_eq!(silent.said, ["+a", "synced"]);

    let listed = follow(vec![
        Page(7, vec![object("a", 5)], false),
        Refused(410),
        Page(6, vec![object("a", 3)], false),
        Page(6, vec![object("a", 3)], false),
    ])
    .await;
    assert!(listed.left);
    assert_eq!(listed.said, ["+a", "synced"], "nothing of it is taken");

    // Others write while nothing changes here.
    let forward = follow(vec![
        Page(7, vec![], false),
        Watched(vec![bookmark(7)]),
        Page(9, vec![], false),
        Watched(vec![added("a", 8)]),
    ])
    .await;
    assert!(!forward.left);
    assert_eq!(forward.asked[3], "watch 7", "nothing is skipped");
}

/// Of several API servers one may be behind for a moment.
#[tokio::test(start_paused = true)]
async fn an_answer_from_before_is_asked_for_again() {
    let came = follow(vec![
        Page(7, vec![object("a", 5)], false),
        Watched(vec![bookmark(9)]),
        Page(8, vec![], false),
        Page(9, vec![], false),
        Refused(410),
        Page(8, vec![object("a", 5)], false),
        Page(9, vec![object("b", 9)], false),
    ])
    .await;
    assert!(!came.left);
    assert_eq!(came.said, ["+a", "synced", "+b", "-a uid-a", "synced"]);
    assert!(came.took >= 2 * BEHIND);
}

/// Its kind is none that a cluster may be without: it is out of order, or a proxy before it is.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_knows_nothing_of_a_kind_takes_nothing_away() {
    let came = follow(vec![
        Refused(404),
        Page(1, vec![object("a", 1)], false),
        Refused(404),
        Refused(404),
        Page(1, vec![], false),
        Watched(vec![added("b", 2)]),
    ])
    .await;
    assert_eq!(came.said, ["+a", "synced", "+b"]);
    let asked = ["list", "list", "watch 1", "compare", "compare", "watch 1"];
    assert_eq!(came.asked, asked);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_a_cluster_may_be_without_has_no_objects_there() {
    let answers = vec![
        Refused(404),
        Refused(403),
        Page(1, vec![object("a", 1)], false),
        Refused(404),
        Refused(404),
        Page(2, vec![], false),
    ];
    let came = follow_into(answers, Arc::<Heard<true>>::default()).await;
    let said = ["unknown", "+a", "synced", "-a uid-a", "unknown", "unknown"];
    assert_eq!(came.said[..6], said);
    assert_eq!(came.asked[4..], ["list", "list"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_stops_no_other() {
    let came = follow(vec![
        Page(
            2,
            vec![
                broken(Some("x"), Some(1)),
                broken(None, None),
                object("a", 2),
            ],
            false,
        ),
        Watched(vec![
            Ok(WatchEvent::Modified(broken(Some("a"), Some(3)))),
            added("b", 4),
            // Where it tells no version, others do.
            Ok(WatchEvent::Added(broken(None, None))),
            Ok(WatchEvent::Modified(broken(Some("b"), None))),
            Ok(WatchEvent::Deleted(broken(Some("x"), Some(7)))),
            Ok(WatchEvent::Deleted(broken(None, Some(8)))),
        ]),
        Page(8, vec![], false),
        Refused(410),
        Page(9, vec![broken(Some("b"), Some(6))], false),
    ])
    .await;
    let said = [
        "?x broken",
        "+a",
        "synced", // Another of its name.
        "-a uid-a",
        "?a broken",
        "+b",
        "-b uid-b",
        "?b broken",
        "-x broken",
        // What the list leaves out.
        "?b broken",
        "-a broken",
        "synced",
    ];
    assert_eq!(came.said, said);
    let asked = ["list", "watch 2", "compare", "watch 8", "list"];
    assert_eq!(came.asked, asked);
}

/// It would come again and again.
#[tokio::test(start_paused = true)]
async fn what_is_no_event_is_listed_past() {
    let garbage = || {
        let error = serde_json::from_str::<u8>("no").unwrap_err();
        Err(kube::Error::SerdeError(error))
    };
    let came = follow(vec![
        Page(2, vec![], false),
        Watched(vec![garbage()]),
        Page(4, vec![object("a", 3)], false),
        Watched(vec![added("b", 5)]),
    ])
    .await;
    assert_eq!(came.said, ["synced", "+a", "synced", "+b"]);
    assert_eq!(came.asked, ["list", "watch 2", "list", "watch 4"]);
}

#[tokio::test(start_paused = true)]
async fn lists_that_fail_are_tried_again_later_each_time() {
    let came = follow((0..10).map(|_| Refused(503)).collect()).await;
    assert_eq!(came.took, tens_of_pauses());
}

/// Ten of them: 0.2 + 0.4 + ... + 12.8, then 15 each.
fn tens_of_pauses() -> Duration {
    Duration::from_millis(25_400 + 3 * 15_000)
}

/// A list alone is no sign that a watch will do.
#[tokio::test(start_paused = true)]
async fn lists_whose_watches_are_refused_are_tried_again_later_each_time() {
    let mut answers = Vec::new();
    for _ in 0..10 {
        answers.push(Page(1, vec![], false));
        answers.push(Refused(410));
    }
    assert_eq!(follow(answers).await.took, tens_of_pauses());
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_tried_again_later_each_time() {
    let mut answers = Vec::new();
    for _ in 0..10 {
        answers.push(Page(1, vec![], false));
        answers.push(Watched(vec![]));
    }
    assert_eq!(follow(answers).await.took, tens_of_pauses());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_shown_something_or_lasted_ends_as_it_should() {
    let mut answers = Vec::new();
    for _ in 0..5 {
        answers.push(Page(1, vec![], false));
        answers.push(Slow(vec![], AT_ONCE));
        answers.push(Page(1, vec![], false));
        answers.push(Watched(vec![bookmark(1)]));
    }
    let took = follow(answers).await.took;
    assert_eq!(took, 5 * AT_ONCE + 10 * FIRST_PAUSE);
}

/// Bookmarks come each minute, where they come.
#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_silent_is_broken() {
    let silence = Duration::from_secs(3600);
    let answers = vec![
        Slow(vec![], silence),
        Slow(vec![bookmark(1)], silence),
        Silence,
    ];
    let script = Arc::new(Script {
        answers: Mutex::new(answers.into()),
        ..Script::default()
    });
    let mut follower = Follower::new(script, Arc::<Heard>::default());
    let mut ends = Vec::new();
    for _ in 0..3 {
        let began = Instant::now();
        ends.push(follower.watch().await.is_ok());
        assert_eq!(began.elapsed(), WATCH_SILENCE);
    }
    assert_eq!(ends, [true, false, false]);
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
