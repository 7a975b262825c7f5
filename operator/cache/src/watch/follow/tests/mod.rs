//! An API server that answers by a script, and what the follower makes of it.
#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

mod history;
mod lists;
mod pace;
mod undecodable;
mod unknown;

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

/// Answer of the scripted API server to one request.
enum Answer {
    /// A page of that version. True: another follows.
    Page(u64, Vec<Item<ConfigMap>>, bool),
    /// A watch, which then ends.
    Events(Vec<kube::Result<WatchEvent<Item<ConfigMap>>>>),
    Refused(u16),
    /// A watch that sends these events, and then is silent for so long until it ends.
    Slow(Vec<kube::Result<WatchEvent<Item<ConfigMap>>>>, Duration),
    /// No answer, for ever.
    Silence,
}

use Answer::{Events as Watched, Page, Refused, Silence, Slow};

/// An API server that gives its answers in order and records the requests.
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

/// Records what the follower reports.
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

/// An object that does not decode, of another uid than the object of that name.
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

/// Outcome of a script.
struct Came {
    said: Vec<String>,
    asked: Vec<String>,
    took: Duration,
    /// Age of the last sign of life.
    age: Duration,
    /// True if the follower has stopped.
    left: bool,
}

async fn follow(answers: Vec<Answer>) -> Came {
    follow_into(answers, Arc::<Heard>::default()).await
}

async fn follow_into<const ABSENT: bool>(answers: Vec<Answer>, heard: Arc<Heard<ABSENT>>) -> Came {
    let pulse = Pulse::default();
    let script = Arc::new(Script {
        answers: Mutex::new(answers.into()),
        ..Script::default()
    });
    let began = Instant::now();
    let left = tokio::select! {
        () = Follower::new(script.clone(), heard.clone(), pulse.clone()).run() => true,
        () = script.over.notified() => false,
    };
    Came {
        said: heard.said.lock().clone(),
        asked: script.asked.lock().clone(),
        took: began.elapsed(),
        age: pulse.age(),
        left,
    }
}
