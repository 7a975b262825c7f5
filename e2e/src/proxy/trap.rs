//! A callback after the k-th accepted write, which usually kills a process.

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
use crate::oracle::FaultLog;

/// The time at which a trap calls its callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrapTiming {
    /// After the answer of the API server, before the client gets it.
    BeforeAnswer,
    /// 20 ms after the client got the answer.
    AfterAnswer,
}

/// Time for a response to reach the client and for the client to process it.
const CLIENT_DELIVERY_TIME: Duration = Duration::from_millis(20);

pub(super) struct Trap {
    k: u64,
    moment: TrapTiming,
    matches: RequestFilter,
    /// Counted writes that wait for their answer or were accepted.
    sent: watch::Sender<u64>,
    /// Counted writes that the API server has accepted.
    accepted: AtomicU64,
    callback: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    stage: watch::Sender<TrapStage>,
    /// The trap is a fault from the acceptance of the k-th write until its callback has returned.
    /// While it is armed, it only counts writes. Afterwards the cluster must recover, and the
    /// oracle judges by all rules whether it does.
    faults: FaultLog,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrapStage {
    Armed,
    /// The callback has returned.
    Fired,
    /// The trap was removed before it fired.
    Disarmed,
}

/// The trap's decision about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrapDecision {
    /// The request passes: it is one of the k writes, or does not count.
    Pass { counted: bool },
    /// The request came after the k-th write and does not reach the API server.
    Cut,
}

impl Trap {
    pub(super) fn new(
        k: u64,
        moment: TrapTiming,
        matches: RequestFilter,
        callback: Box<dyn FnOnce() + Send>,
        faults: FaultLog,
    ) -> (Self, TrapHandle) {
        let (stage, receiver) = watch::channel(TrapStage::Armed);
        let trap = Self {
            k: k.max(1),
            moment,
            matches,
            sent: watch::Sender::new(0),
            accepted: AtomicU64::new(0),
            callback: Mutex::new(Some(callback)),
            stage,
            faults,
        };
        (trap, TrapHandle(receiver))
    }

    /// Decides whether a request passes. While k writes are sent, a further one waits here until
    /// the API server refuses one of them, or until the callback has returned.
    pub(super) async fn decide_request(&self, request: &Request) -> TrapDecision {
        if *self.stage.borrow() != TrapStage::Armed
            || !request.is_write()
            || !(self.matches)(request)
        {
            return TrapDecision::Pass { counted: false };
        }
        let (mut stage, mut sent) = (self.stage.subscribe(), self.sent.subscribe());
        loop {
            if self.take_place() {
                return TrapDecision::Pass { counted: true };
            }
            tokio::select! {
                _ = stage.wait_for(|stage| *stage != TrapStage::Armed) => return TrapDecision::Cut,
                _ = sent.wait_for(|sent| *sent < self.k) => {}
            }
        }
    }

    /// Counts a write as sent if fewer than k are.
    fn take_place(&self) -> bool {
        self.sent.send_if_modified(|sent| {
            let is_free = *sent < self.k;
            *sent += u64::from(is_free);
            is_free
        })
    }

    /// Records the answer to a counted write. A refused write does not count. For the k-th accepted
    /// write, this returns when the client may get the answer.
    pub(super) async fn note_answer(self: Arc<Self>, is_accepted: bool) {
        if !is_accepted {
            self.sent.send_modify(|sent| *sent -= 1);
            return;
        }
        if self.accepted.fetch_add(1, Ordering::SeqCst) + 1 != self.k {
            return;
        }
        let moment = self.moment;
        let fault = self.faults.begin();
        // This needs a separate task, because the callback kills the client, which ends the task of
        // the connection.
        let firing = tokio::spawn(async move {
            if moment == TrapTiming::AfterAnswer {
                sleep(CLIENT_DELIVERY_TIME).await;
            }
            self.run_callback().await;
            drop(fault);
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
        // The callback may wait for the end of a process. If it panics, the trap still counts as
        // fired.
        let _ = tokio::task::spawn_blocking(callback).await;
        self.stage.send_replace(TrapStage::Fired);
    }

    /// Cuts the waiting writes, and lets later writes pass.
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
    /// Returns true if the callback has returned.
    pub fn has_fired(&self) -> bool {
        *self.0.borrow() == TrapStage::Fired
    }

    /// Waits until the callback has returned.
    ///
    /// # Errors
    ///
    /// When the callback has not returned after `at_most`, or the trap was removed.
    pub async fn wait_until_fired(&mut self, at_most: Duration) -> Result<()> {
        let stage = timeout(at_most, self.0.wait_for(|stage| *stage != TrapStage::Armed)).await;
        match stage.map(|stage| stage.map(|stage| *stage)) {
            Ok(Ok(TrapStage::Fired)) => Ok(()),
            Ok(_) => bail!("the trap was removed before it fired"),
            Err(_) => bail!("the writes were not answered in {at_most:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn trap_is_a_fault_only_while_its_callback_runs() {
        let faults = FaultLog::default();
        let (release, released) = mpsc::channel::<()>();
        let (trap, mut handle) = Trap::new(
            2,
            TrapTiming::AfterAnswer,
            Arc::new(|_: &Request| true),
            Box::new(move || {
                let _ = released.recv();
            }),
            faults.clone(),
        );
        let trap = Arc::new(trap);
        Arc::clone(&trap).note_answer(true).await;
        assert!(!faults.has_active_fault());
        Arc::clone(&trap).note_answer(true).await;
        assert!(faults.has_active_fault());
        drop(release);
        handle
            .wait_until_fired(Duration::from_secs(5))
            .await
            .unwrap();
        let ended = async {
            while faults.has_active_fault() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(5), ended).await.unwrap();
    }
}
