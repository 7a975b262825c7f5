//! The faults of a script on real processes, proxies and nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};
use trellis_e2e::control_plane::{ControlPlane, ProcessSignal};
use trellis_e2e::proxy::{Request, TrapTiming};
use trellis_simulation::{Fault, FaultScript, WriteChoice, WriteFault};

use crate::replica::Replica;
use crate::request_faults::{RequestFault, RequestFaults, is_write_of};
use crate::site::Site;

/// Time after a fault in which Trellis may still wait to try again, beyond that of the oracle.
const SETTLE_TIME: Duration = Duration::from_secs(30);
/// Interval between two checks that a stall of watches has begun.
const STALL_INTERVAL: Duration = Duration::from_millis(20);

/// Injects faults into the replicas and nodes of one control plane.
pub(crate) struct Faults<'a> {
    control_plane: &'a ControlPlane,
    replicas: &'a [Arc<Replica>],
    requests: Arc<RequestFaults>,
    active: AtomicUsize,
    counts: Mutex<BTreeMap<&'static str, usize>>,
}

impl<'a> Faults<'a> {
    pub(crate) fn new(
        control_plane: &'a ControlPlane,
        replicas: &'a [Arc<Replica>],
        seed: u64,
    ) -> Self {
        Self {
            control_plane,
            replicas,
            requests: RequestFaults::new(seed),
            active: AtomicUsize::new(0),
            counts: Mutex::default(),
        }
    }

    /// Number of faults so far, by name.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, usize> {
        self.counts.lock().clone()
    }

    /// Returns true while a fault lasts, and for a time after it.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.active.load(Ordering::Relaxed) > 0
    }

    /// Injects the faults of a site's script that begin before the deadline. The script began at
    /// `start`. With `spares_leader`, no fault ends a process.
    pub(crate) async fn inject_all(
        &self,
        site: &Site,
        time: (Instant, Instant),
        spares_leader: bool,
    ) -> Result<()> {
        let faults = site.script.faults.iter();
        let inject = |fault| self.inject(fault, site, time, spares_leader);
        try_join_all(faults.map(inject)).await.map(drop)
    }

    async fn inject(
        &self,
        script: &FaultScript,
        site: &Site,
        (start, deadline): (Instant, Instant),
        spares_leader: bool,
    ) -> Result<()> {
        let begin = start + Duration::from_millis(script.at);
        if begin > deadline || (spares_leader && ends_process(&script.fault)) {
            return Ok(());
        }
        sleep_until(begin).await;
        let name = real_name(&script.fault);
        println!("fault: {name} for {} s", script.seconds);
        *self.counts.lock().entry(name).or_default() += 1;
        self.active.fetch_add(1, Ordering::Relaxed);
        let fault = self.control_plane.begin_fault();
        let duration = Duration::from_secs(script.seconds);
        let injected = self
            .apply(&script.fault, duration, site, spares_leader)
            .await;
        sleep(SETTLE_TIME).await;
        drop(fault);
        self.active.fetch_sub(1, Ordering::Relaxed);
        injected
    }

    async fn apply(
        &self,
        fault: &Fault,
        duration: Duration,
        site: &Site,
        spares_lease: bool,
    ) -> Result<()> {
        match fault {
            Fault::Crash(index) => {
                let replica = self.replica(*index);
                replica.kill();
                sleep(duration).await;
                replica.release();
            }
            Fault::Stop(index) | Fault::Pause(index) => {
                let replica = self.replica(*index);
                replica.signal(ProcessSignal::Stop);
                sleep(duration).await;
                replica.signal(ProcessSignal::Continue);
            }
            Fault::SetClock(index, _) => {
                tokio::task::block_in_place(|| self.replica(*index).restart());
            }
            Fault::LoseNode(index) => {
                let node = &site.nodes().names()[*index];
                site.nodes().kill_kubelet(node).await?;
                sleep(duration).await;
                site.nodes().restore_kubelet(node).await?;
            }
            Fault::OnWrite(write, WriteFault::CrashBefore) => {
                self.crash_at_write(*write, TrapTiming::AfterAnswer, duration)
                    .await;
            }
            Fault::OnWrite(write, WriteFault::CrashAfter) => {
                self.crash_at_write(*write, TrapTiming::BeforeAnswer, duration)
                    .await;
            }
            _ => self.disturb_requests(fault, duration, spares_lease).await,
        }
        Ok(())
    }

    fn replica(&self, index: usize) -> &Arc<Replica> {
        &self.replicas[index % self.replicas.len()]
    }

    async fn disturb_requests(&self, fault: &Fault, duration: Duration, spares_lease: bool) {
        let disturbance = Arc::new(RequestFault::new(fault, spares_lease));
        self.requests.add(Arc::clone(&disturbance));
        self.install();
        if *fault == Fault::Compact {
            for replica in self.replicas {
                replica.proxy.cut_watches(|_| true);
            }
        }
        let end = Instant::now() + duration;
        if matches!(fault, Fault::OnWrite(_, WriteFault::StallWatches(_))) {
            while !disturbance.has_stalled() && Instant::now() < end {
                sleep(STALL_INTERVAL).await;
            }
            self.install();
        }
        sleep_until(end).await;
        self.requests.remove(&disturbance);
        self.install();
    }

    fn install(&self) {
        for replica in self.replicas {
            self.requests.install(replica);
        }
    }

    /// Kills the first replica whose write is the chosen one. It starts again at the end.
    async fn crash_at_write(&self, write: WriteChoice, timing: TrapTiming, duration: Duration) {
        let has_crashed = Arc::new(AtomicBool::new(false));
        let crashed = Arc::new(Mutex::new(None));
        for replica in self.replicas {
            let (has_crashed, crashed) = (Arc::clone(&has_crashed), Arc::clone(&crashed));
            let victim = Arc::downgrade(replica);
            let matches = move |request: &Request| is_write_of(write.kind, request);
            replica
                .proxy
                .call_after_write(write.number, timing, matches, move || {
                    if !has_crashed.swap(true, Ordering::Relaxed)
                        && let Some(victim) = victim.upgrade()
                    {
                        victim.kill();
                        *crashed.lock() = Some(victim);
                    }
                });
        }
        sleep(duration).await;
        for replica in self.replicas {
            replica.proxy.remove_faults();
        }
        self.install();
        if let Some(victim) = crashed.lock().take() {
            victim.release();
        }
    }
}

/// Returns true for faults that can end the process of a replica.
fn ends_process(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Crash(_)
            | Fault::Stop(_)
            | Fault::Pause(_)
            | Fault::SetClock(..)
            | Fault::LoseLease(_)
            | Fault::OnWrite(_, WriteFault::CrashBefore | WriteFault::CrashAfter)
    )
}

/// Returns the name of the fault that a real machine has. A test can neither pause the machine nor
/// set its clock: the soak stops the process, or restarts it.
fn real_name(fault: &Fault) -> &'static str {
    match fault {
        Fault::Pause(replica) => Fault::Stop(*replica).name(),
        Fault::SetClock(..) => "restart",
        fault => fault.name(),
    }
}

#[cfg(test)]
mod tests {
    use trellis_simulation::WriteKind;

    use super::*;

    #[test]
    fn fault_of_a_machine_is_replaced_by_one_of_a_process() {
        assert_eq!(real_name(&Fault::Pause(0)), "stopped process");
        assert_eq!(real_name(&Fault::SetClock(0, 5)), "restart");
        assert_eq!(real_name(&Fault::LoseNode(0)), "lost node");
    }

    #[test]
    fn fault_of_requests_ends_no_process() {
        let write = WriteChoice {
            kind: WriteKind::Any,
            number: 3,
        };
        assert!(ends_process(&Fault::OnWrite(write, WriteFault::CrashAfter)));
        assert!(!ends_process(&Fault::OnWrite(
            write,
            WriteFault::LoseAnswer
        )));
        assert!(!ends_process(&Fault::Unavailable(900)));
    }
}
