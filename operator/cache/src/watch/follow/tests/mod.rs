//! An API server that answers by a script, and the follower's reports.
#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

mod history;
mod lists;
mod retries;
mod undecodable;
mod unknown_kind;

use std::collections::VecDeque;

use futures::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, WatchEvent};
use kube::core::watch::{Bookmark, BookmarkMeta};
use kube::core::{ListMeta, ObjectList, Status, TypeMeta};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::*;
use crate::watch::Store;
use crate::watch::source::Events;

/// Answer of the scripted API server to one request.
enum ScriptedAnswer {
    /// A page of this version. True: another page follows.
    Page(u64, Vec<WatchedItem<ConfigMap>>, bool),
    /// A watch, which then ends.
    Events(Vec<kube::Result<WatchEvent<WatchedItem<ConfigMap>>>>),
    Refused(u16),
    /// A watch that sends these events, is then silent for this long, and ends.
    Slow(
        Vec<kube::Result<WatchEvent<WatchedItem<ConfigMap>>>>,
        Duration,
    ),
    /// Never an answer.
    Silence,
}

use ScriptedAnswer::{Events as Watched, Page, Refused, Silence, Slow};

/// An API server that gives its answers in order and records the requests.
#[derive(Default)]
struct ScriptedServer {
    answers: Mutex<VecDeque<ScriptedAnswer>>,
    requests: Mutex<Vec<String>>,
    over: Notify,
}

impl ScriptedServer {
    async fn next_answer(&self, request: String) -> ScriptedAnswer {
        let answer = self.answers.lock().pop_front();
        let Some(answer) = answer else {
            self.over.notify_one();
            return std::future::pending().await;
        };
        self.requests.lock().push(request);
        answer
    }
}

fn refused(code: u16) -> kube::Error {
    kube::Error::Api(Status::failure("", "").with_code(code).boxed())
}

impl WatchSource<ConfigMap> for Arc<ScriptedServer> {
    async fn list(
        &self,
        limit: u32,
        after: Option<String>,
    ) -> kube::Result<ObjectList<WatchedItem<ConfigMap>>> {
        let request = match (limit, after) {
            (1, _) => "compare".to_owned(),
            (_, None) => "list".to_owned(),
            (_, Some(after)) => format!("list {after}"),
        };
        match self.next_answer(request).await {
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
        match self.next_answer(format!("watch {version}")).await {
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

/// Records what the follower reports.
#[derive(Default)]
struct RecordingSink<const MAY_BE_ABSENT: bool = false> {
    events: Mutex<Vec<String>>,
    store: Store<ConfigMap>,
}

impl<const MAY_BE_ABSENT: bool> Sink<ConfigMap> for RecordingSink<MAY_BE_ABSENT> {
    const MAY_BE_ABSENT: bool = MAY_BE_ABSENT;

    fn apply(&self, key: Key, object: ConfigMap) {
        self.events.lock().push(format!("+{}", key.name));
        self.store.insert_observed(key, object);
    }

    fn undecodable(&self, key: &Key, object: Undecodable) {
        self.events
            .lock()
            .push(format!("?{} {}", key.name, object.uid));
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.events.lock().push(format!("-{} {uid}", key.name));
        self.store.delete_observed(key, uid);
    }

    fn unlisted_objects(&self, listed: &HashSet<Key>, version: u64) -> Vec<(Key, String)> {
        self.store.unlisted_objects(listed, version)
    }

    fn synced(&self) {
        self.events.lock().push("synced".to_owned());
    }

    fn kind_unknown(&self) {
        self.events.lock().push("unknown".to_owned());
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

fn object(name: &str, version: u64) -> WatchedItem<ConfigMap> {
    WatchedItem::Object(config_map(name, version))
}

/// An object that does not decode, of another uid than the object of that name.
fn undecodable_item(name: Option<&str>, version: Option<u64>) -> WatchedItem<ConfigMap> {
    WatchedItem::Undecodable {
        meta: Box::new(ObjectMeta {
            name: name.map(str::to_owned),
            uid: Some("broken".to_owned()),
            resource_version: version.map(|v| v.to_string()),
            ..ObjectMeta::default()
        }),
        error: String::new(),
    }
}

fn added(name: &str, version: u64) -> kube::Result<WatchEvent<WatchedItem<ConfigMap>>> {
    Ok(WatchEvent::Added(object(name, version)))
}

fn bookmark(version: u64) -> kube::Result<WatchEvent<WatchedItem<ConfigMap>>> {
    Ok(WatchEvent::Bookmark(Bookmark {
        types: TypeMeta::default(),
        metadata: BookmarkMeta {
            resource_version: version.to_string(),
            annotations: std::collections::BTreeMap::new(),
        },
    }))
}

/// Outcome of a script.
struct FollowOutcome {
    events: Vec<String>,
    requests: Vec<String>,
    duration: Duration,
    /// Age of the last sign of life.
    age: Duration,
    /// True if the follower has stopped.
    stopped: bool,
}

async fn follow(answers: Vec<ScriptedAnswer>) -> FollowOutcome {
    follow_into(answers, Arc::<RecordingSink>::default()).await
}

async fn follow_into<const ABSENT: bool>(
    answers: Vec<ScriptedAnswer>,
    sink: Arc<RecordingSink<ABSENT>>,
) -> FollowOutcome {
    let pulse = Pulse::default();
    let script = Arc::new(ScriptedServer {
        answers: Mutex::new(answers.into()),
        ..ScriptedServer::default()
    });
    let began = Instant::now();
    let left = tokio::select! {
        () = Follower::new(script.clone(), sink.clone(), pulse.clone()).run() => true,
        () = script.over.notified() => false,
    };
    FollowOutcome {
        events: sink.events.lock().clone(),
        requests: script.requests.lock().clone(),
        duration: began.elapsed(),
        age: pulse.age(),
        stopped: left,
    }
}
