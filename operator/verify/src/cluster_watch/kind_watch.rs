//! One watch for each kind that the rules read.

use futures::StreamExt as _;
use futures::stream::{self, BoxStream, SelectAll};
use kube::Client;
use kube::runtime::{WatchStreamExt as _, watcher};

use crate::judged_kinds::{JUDGED_KINDS, JudgedKind};
use crate::known_objects::{KindChange, KnownObjects};

/// News of a watch.
pub(crate) enum WatchEvent {
    /// An object was created, changed or deleted.
    Change(KindChange),
    /// All objects of the kind are listed.
    Listed { kind: &'static str },
    /// The watch is broken. It starts again.
    Broken {
        kind: &'static str,
        error: Box<watcher::Error>,
    },
}

/// Starts all watches.
pub(crate) fn start_watches(
    client: &Client,
    operator_namespace: &str,
) -> SelectAll<BoxStream<'static, WatchEvent>> {
    let kinds = JUDGED_KINDS.iter();
    stream::select_all(kinds.map(|kind| (kind.watch)(client, operator_namespace)))
}

/// Starts the watch of one kind.
pub(crate) fn watch<K: JudgedKind>(
    client: &Client,
    operator_namespace: &str,
) -> BoxStream<'static, WatchEvent> {
    let kind = K::PLURAL;
    let config = K::ONLY.map_or_else(watcher::Config::default, |name| {
        watcher::Config::default().fields(&format!("metadata.name={name}"))
    });
    let mut known = KnownObjects::<K>::new();
    let events = watcher(K::api(client, operator_namespace), config).default_backoff();
    let events = events.flat_map(move |event| {
        let news: Vec<WatchEvent> = match event {
            Ok(event) => {
                let is_listed = matches!(event, watcher::Event::InitDone);
                let changes = known.take_in(event).into_iter().map(WatchEvent::Change);
                let listed = is_listed.then_some(WatchEvent::Listed { kind });
                changes.chain(listed).collect()
            }
            Err(error) => vec![WatchEvent::Broken {
                kind,
                error: Box::new(error),
            }],
        };
        stream::iter(news)
    });
    events.boxed()
}
