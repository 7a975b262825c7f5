//! The state of the endpoint: the sources of all answers, and answers that requests share.

use std::sync::{Arc, Weak};

use kube::Client;
use tokio::sync::Mutex;
use trellis_compiler::Settings;
use trellis_dispatch::context::Context;
use trellis_machine::threads;

use super::serialized_answers::SnapshotDownload;
use super::visibility::snapshot_view::SnapshotViews;
use super::visibility::{NamespaceReviews, QuestionTurns};
use crate::callers::fair_turns::FairTurns;
use crate::callers::{CallerLimits, Failure, RequestTurn};
use crate::serve::Identity;
use crate::snapshot;
use crate::telemetry::LeaderSlot;
use crate::webhook::Readiness;

/// Most watches at once. Each holds a connection of the API server.
pub(super) const MAX_WATCHES: usize = 256;

/// Most watches of direct clients at once, which share 64 connections.
const MAX_DIRECT_WATCHES: usize = 16;

/// Most watches of one user at once.
const MAX_WATCHES_OF_USER: usize = 32;

/// The endpoint of one process.
pub(super) struct Endpoint {
    pub(super) leader: LeaderSlot,
    /// The admission webhook of this process, if it has one.
    pub(super) webhook: Option<Readiness>,
    /// TLS identity of the endpoint.
    pub(super) identity: Identity,
    pub(super) callers: CallerLimits,
    /// The last snapshot, shared by concurrent readers.
    download: Mutex<Weak<SnapshotDownload>>,
    pub(super) snapshot_views: SnapshotViews,
    /// Turns of plans, and of forecasts after changes.
    pub(super) question_turns: QuestionTurns,
    /// Namespaces of the users that asked for them.
    pub(super) namespace_reviews: NamespaceReviews,
    /// Settings with which planned jobs are compiled.
    pub(super) settings: Arc<Settings>,
    /// Places of watches that the API server requests, by user.
    pub(super) proxied_watch_places: FairTurns<String>,
    /// Places of watches of direct clients, by user.
    pub(super) direct_watch_places: FairTurns<String>,
}

impl Endpoint {
    pub(super) fn new(
        leader: LeaderSlot,
        webhook: Option<Readiness>,
        identity: Identity,
        client: Client,
        settings: Arc<Settings>,
    ) -> Self {
        Self {
            leader,
            webhook,
            identity,
            callers: CallerLimits::new(client),
            download: Mutex::default(),
            snapshot_views: SnapshotViews::default(),
            question_turns: QuestionTurns::default(),
            namespace_reviews: NamespaceReviews::default(),
            settings,
            proxied_watch_places: FairTurns::new(MAX_WATCHES, MAX_WATCHES_OF_USER),
            direct_watch_places: FairTurns::new(MAX_DIRECT_WATCHES, MAX_DIRECT_WATCHES / 2),
        }
    }
}

impl Endpoint {
    /// Returns the context of this process, if it leads. A process that has lost the lease, or may
    /// have lost it, does not know the current state.
    pub(super) fn leader_context(&self) -> Result<Arc<Context>, Failure> {
        let leader = self.leader.read();
        let leading = leader.as_ref().ok_or_else(Failure::standby)?;
        let leads = leading.commands.epoch();
        leads.map_err(|_| Failure::standby())?;
        Ok(leading.context.clone())
    }

    /// Returns the engine's snapshot as a file. One request at a time serializes it.
    pub(super) async fn snapshot_download(
        &self,
        turn: RequestTurn,
    ) -> Result<Arc<SnapshotDownload>, Failure> {
        let mut last = self.download.lock().await;
        if let Some(last) = SnapshotDownload::reuse(&last) {
            return Ok(last);
        }
        let snapshot = snapshot::request(&*self.leader_context()?).await?;
        let download = threads::spawn_blocking(move || {
            let _turn = turn;
            SnapshotDownload::new(&snapshot)
        });
        let download = Arc::new(download.await.map_err(|_| Failure::unavailable())??);
        *last = Arc::downgrade(&download);
        Ok(download)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parking_lot::RwLock;
    use trellis_dispatch::SchedulerEvent;
    use trellis_dispatch::commands::Commands;
    use trellis_dispatch::leader::Leadership;
    use trellis_scheduler::Engine;

    use super::*;
    use crate::telemetry::ActiveLeader;

    fn turn() -> RequestTurn {
        let turns = Arc::new(tokio::sync::Semaphore::new(1));
        Arc::new(turns.try_acquire_owned().unwrap())
    }

    #[tokio::test]
    async fn endpoint_without_the_lease_answers_unavailable() {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        for (remaining, leads) in [(3600, true), (0, false)] {
            let (context, _heard) = Context::new();
            let leadership = Leadership::with_remaining(Duration::from_secs(remaining));
            let commands = Commands::new(client.clone(), leadership);
            let leader = Arc::new(RwLock::new(Some(ActiveLeader { context, commands })));
            let endpoint = Endpoint::new(
                leader,
                None,
                Identity::default(),
                client.clone(),
                Arc::default(),
            );
            let code = endpoint
                .leader_context()
                .map(|_| ())
                .map_err(|failure| failure.code());
            assert_eq!(code, if leads { Ok(()) } else { Err(503) });
        }
    }

    #[tokio::test]
    async fn snapshot_is_serialized_once_for_concurrent_readers() {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let (context, mut events) = Context::new();
        let client = Client::try_from(nowhere).unwrap();
        let commands = Commands::new(client.clone(), Leadership::for_test());
        let leader = Arc::new(RwLock::new(Some(ActiveLeader { context, commands })));
        let endpoint = Endpoint::new(leader, None, Identity::default(), client, Arc::default());
        let requests = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = requests.clone();
        tokio::spawn(async move {
            loop {
                for event in events.next().await {
                    if let SchedulerEvent::AskSnapshot(answer) = event {
                        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        let _ = answer.send(Arc::new(Engine::new().snapshot()));
                    }
                }
            }
        });
        let requests = || requests.load(std::sync::atomic::Ordering::SeqCst);
        let first = endpoint
            .snapshot_download(turn())
            .await
            .unwrap()
            .into_bytes();
        let second = endpoint
            .snapshot_download(turn())
            .await
            .unwrap()
            .into_bytes();
        assert_eq!((first.as_ptr(), requests()), (second.as_ptr(), 1));
        assert!(first.starts_with(b"{"));
        drop((first, second));
        endpoint.snapshot_download(turn()).await.unwrap();
        assert_eq!(requests(), 2, "nobody reads the first any more");
    }
}
