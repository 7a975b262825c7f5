//! A callback after the k-th write, which usually kills a process.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, bail};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{Request, request::RequestFilter};

/// When the callback of a trap is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrapTiming {
    /// The API server has answered, and the client does not know yet.
    BeforeAnswer,
    /// The client has had 20 ms to take note of the answer.
    AfterAnswer,
}

/// Time for a response to reach the client and for the client to process it.
const CLIENT_DELIVERY_TIME: Duration = Duration::from_millis(20);

pub(super) struct Trap {
    k: u64,
    moment: TrapTiming,
    matches: RequestFilter,
    sent: AtomicU64,
    answered: AtomicU64,
    callback: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    stage: watch::Sender<TrapStage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrapStage {
    Armed,
    /// The callback has returned.
    Fired,
    /// Taken away before it fired.
    Disarmed,
}

/// The trap's decision about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrapDecision {
    /// One of the k writes, or none that is counted.
    Pass { counted: bool },
    /// It came after the k-th: it never reaches the API server.
    Cut,
}

impl Trap {
    pub(super) fn new(
        k: u64,
        moment: TrapTiming,
        matches: RequestFilter,
        callback: Box<dyn FnOnce() + Send>,
    ) -> (Self, TrapHandle) {
        let (stage, receiver) = watch::channel(TrapStage::Armed);
        let trap = Self {
            k: k.max(1),
            moment,
            matches,
            sent: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            callback: Mutex::new(Some(callback)),
            stage,
        };
        (trap, TrapHandle(receiver))
    }

    /// Decides whether a request passes. A request after the k-th write waits here until the
    /// callback has returned.
    pub(super) async fn decide_request(&self, request: &Request) -> TrapDecision {
        if *self.stage.borrow() != TrapStage::Armed
            || !request.is_write()
            || !(self.matches)(request)
        {
            return TrapDecision::Pass { counted: false };
        }
        if self.sent.fetch_add(1, Ordering::SeqCst) < self.k {
            return TrapDecision::Pass { counted: true };
        }
        let mut stage = self.stage.subscribe();
        let _ = stage.wait_for(|stage| *stage != TrapStage::Armed).await;
        TrapDecision::Cut
    }

    /// A counted write has been answered. For the k-th this returns when the answer may go on.
    pub(super) async fn note_answer(self: Arc<Self>) {
        if self.answered.fetch_add(1, Ordering::SeqCst) + 1 != self.k {
            return;
        }
        let moment = self.moment;
        // A task of its own: the connection, and all that is done for it, ends with the client
        // that the callback kills.
        let firing = tokio::spawn(async move {
            if moment == TrapTiming::AfterAnswer {
                sleep(CLIENT_DELIVERY_TIME).await;
            }
            self.run_callback().await;
        });
        if moment == TrapTiming::BeforeAnswer {
            let _ = firing.await;
        }
    }

    async fn run_callback(&self) {
        let callback = self
            .callback
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(callback) = callback else { return };
        // The callback may wait for a process to end. If it panics the trap has fired all the same.
        let _ = tokio::task::spawn_blocking(callback).await;
        self.stage.send_replace(TrapStage::Fired);
    }

    /// Cuts the writes that wait, and lets later writes pass.
    pub(super) fn disarm(&self) {
        if self
            .callback
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .is_some()
        {
            self.stage.send_replace(TrapStage::Disarmed);
        }
    }
}

/// Reports when a trap has fired.
#[derive(Debug, Clone)]
pub struct TrapHandle(watch::Receiver<TrapStage>);

impl TrapHandle {
    /// True if the callback has returned.
    pub fn has_fired(&self) -> bool {
        *self.0.borrow() == TrapStage::Fired
    }

    /// Waits until the callback has returned.
    ///
    /// # Errors
    ///
    /// When it has not after `at_most`, or the trap was taken away before.
    pub async fn wait_until_fired(&mut self, at_most: Duration) -> Result<()> {
        let stage = timeout(at_most, self.0.wait_for(|stage| *stage != TrapStage::Armed)).await;
        match stage.map(|stage| stage.map(|stage| *stage)) {
            Ok(Ok(TrapStage::Fired)) => Ok(()),
            Ok(_) => bail!("the trap was taken away before it fired"),
            Err(_) => bail!("so many writes were not answered in {at_most:?}"),
        }
    }
}
