#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

use futures::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use parking_lot::Mutex;

use super::*;

/// What was heard, and when, in milliseconds.
#[derive(Default)]
struct Heard {
    said: Mutex<Vec<String>>,
}

impl Sink<ConfigMap> for Heard {
    fn apply(&self, key: Key, _: ConfigMap) {
        self.said.lock().push(format!("+{}", key.name));
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.said.lock().push(format!("-{} {uid}", key.name));
    }

    fn synced(&self) {
        self.said.lock().push("synced".to_owned());
    }

    fn unknown(&self) {
        self.said.lock().push("unknown".to_owned());
    }
}

fn object(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            uid: Some(format!("uid-{name}")),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn broken() -> watcher::Result<Event<ConfigMap>> {
    Err(watcher::Error::NoResourceVersion)
}

/// The API server's answer to a list.
fn refused(code: u16) -> watcher::Result<Event<ConfigMap>> {
    let status = kube::core::Status::failure("", "").with_code(code);
    let error = kube::Error::Api(status.boxed());
    Err(watcher::Error::InitialListFailed(error))
}

/// What is heard of these events, and how long it takes.
async fn follow(events: Vec<watcher::Result<Event<ConfigMap>>>) -> (Vec<String>, Duration) {
    let heard = Arc::new(Heard::default());
    let events = Mutex::new(Some(events));
    let began = Instant::now();
    let start = || stream::iter(events.lock().take().unwrap_or_default()).boxed();
    follow_streams(start, heard.clone()).await;
    (heard.said.lock().clone(), began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn what_a_later_list_leaves_out_is_gone() {
    let (said, _) = follow(vec![
        Ok(Event::Init),
        Ok(Event::InitApply(object("a"))),
        Ok(Event::InitApply(object("b"))),
        Ok(Event::InitDone),
        Ok(Event::Apply(object("c"))),
        Ok(Event::Delete(object("b"))),
        Ok(Event::Init),
        Ok(Event::InitApply(object("c"))),
        Ok(Event::InitDone),
    ])
    .await;
    assert_eq!(
        said,
        [
            "+a", "+b", "synced", "+c", "-b uid-b", "+c", "-a uid-a", "synced"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_list_showed_before_it_broke_off_is_gone_when_the_next_leaves_it_out() {
    let (said, _) = follow(vec![
        Ok(Event::Init),
        Ok(Event::InitApply(object("a"))),
        broken(),
        Ok(Event::Init),
        Ok(Event::InitApply(object("b"))),
        Ok(Event::InitDone),
    ])
    .await;
    assert_eq!(said, ["+a", "+b", "-a uid-a", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_api_server_does_not_know_has_no_objects() {
    let (said, _) = follow(vec![
        Ok(Event::Init),
        refused(404),
        Ok(Event::Init),
        refused(403),
        Ok(Event::Init),
        Ok(Event::InitApply(object("a"))),
        Ok(Event::InitDone),
        Ok(Event::Init),
        refused(404),
    ])
    .await;
    assert_eq!(said, ["unknown", "+a", "synced", "-a uid-a", "unknown"]);
}

#[tokio::test(start_paused = true)]
async fn lists_that_fail_are_tried_again_later_each_time() {
    let mut events = Vec::new();
    for _ in 0..10 {
        events.extend([Ok(Event::Init), broken()]);
    }
    let (_, took) = follow(events).await;
    // 0.2 + 0.4 + ... + 12.8, then 15 each.
    assert_eq!(took, Duration::from_millis(25_400 + 3 * 15_000));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_been_healthy_starts_over_at_once() {
    let mut events = Vec::new();
    for _ in 0..10 {
        events.extend([broken(), Ok(Event::Apply(object("a")))]);
    }
    let (_, took) = follow(events).await;
    assert_eq!(took, 10 * FIRST_PAUSE);
    let mut backoff = Backoff::default();
    let now = Instant::now();
    backoff.broken(now);
    assert_eq!(backoff.broken(now), 2 * FIRST_PAUSE);
    assert_eq!(backoff.broken(now + 2 * CALM), FIRST_PAUSE, "it was calm");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_not_answered_starts_over() {
    let heard = Arc::new(Heard::default());
    let streams = Mutex::new(vec![
        stream::iter([
            Ok(Event::Init),
            Ok(Event::InitApply(object("b"))),
            Ok(Event::InitDone),
        ])
        .boxed(),
        stream::iter([Ok(Event::Init), Ok(Event::InitApply(object("a")))])
            .chain(stream::pending())
            .boxed(),
    ]);
    let start = || {
        streams
            .lock()
            .pop()
            .unwrap_or_else(|| stream::empty().boxed())
    };
    follow_streams(start, heard.clone()).await;
    assert_eq!(*heard.said.lock(), ["+a", "+b", "-a uid-a", "synced"]);
}
