//! How many writes may be in flight.
//!
//! The client speaks HTTP/1.1, so a write in flight is a connection, and an
//! API server answers no faster for having more than it can work on: 16 to
//! 32 in flight give all that two cores have (docs/benchmarks.md). The limit
//! grows by one when two whole windows of writes have succeeded and halves when the server pushes back
//! (additive increase, multiplicative decrease, as in TCP).
//!
//! One namespace never has all of them: where its webhooks hang, so do the
//! writes to it, and others must not wait for that.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

const FIRST: usize = 16;
const LEAST: usize = 2;
const MOST: usize = 32;
/// A write that lets others go first waits while this many or more are in
/// flight: the server works on them all at once, so with fewer permits taken
/// than there are it would still be slower for every other write.
const FEW: usize = 4;
/// The server does not work on a write that is not answered for so long: it hangs
/// somewhere, at a webhook perhaps, and none other is slower for it.
const HANGS: Duration = Duration::from_secs(1);
/// How often a write that lets others go first looks whether they hang.
const LOOK: Duration = Duration::from_millis(250);
/// How long a write lets others go first.
const PATIENCE: Duration = Duration::from_secs(10);

/// When it is a write's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// As they come.
    InOrder,
    /// When fewer than [`FEW`] are in flight, or once it has waited for [`PATIENCE`].
    AfterOthers {
        /// How long it has waited already.
        waited: Duration,
    },
}

/// An adaptive bound on writes in flight.
#[derive(Debug)]
pub(super) struct Limiter {
    semaphore: Semaphore,
    /// A permit has come back.
    returned: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Since when each permit that is held is, by its number.
    sent: BTreeMap<u64, Instant>,
    next: u64,
    limit: usize,
    /// Permits that are to vanish when they come back.
    debt: usize,
    good: usize,
    /// Namespaces that have a permit, or wait for one.
    namespaces: HashMap<Box<str>, Namespace>,
}

/// What one namespace has.
#[derive(Debug, Default)]
struct Namespace {
    /// Permits that it holds, or is about to.
    taken: usize,
    /// Writes that wait until it holds fewer.
    waiting: usize,
    /// It holds one less.
    left: Arc<Notify>,
}

impl Default for Limiter {
    fn default() -> Self {
        Self {
            semaphore: Semaphore::new(FIRST),
            returned: Notify::new(),
            state: Mutex::new(State {
                sent: BTreeMap::new(),
                next: 0,
                limit: FIRST,
                debt: 0,
                good: 0,
                namespaces: HashMap::new(),
            }),
        }
    }
}

/// The right to one write.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    limiter: &'a Limiter,
    permit: Option<SemaphorePermit<'a>>,
    number: u64,
    /// Given back after the permit: whoever waits for it finds one.
    _share: Share<'a>,
}

/// One of the permits that a namespace may hold.
#[derive(Debug)]
struct Share<'a> {
    limiter: &'a Limiter,
    namespace: Box<str>,
}

impl Limiter {
    /// Waits for the right to one write to that namespace.
    pub(super) async fn acquire(&self, turn: Turn, namespace: &str) -> Permit<'_> {
        if let Turn::AfterOthers { waited } = turn {
            let patience = PATIENCE.saturating_sub(waited);
            if let Ok(permit) = tokio::time::timeout(patience, self.calm(namespace)).await {
                return permit;
            }
        }
        let share = self.share(namespace).await;
        // The semaphore is never closed; if it were, writes would go unbounded rather than stop.
        let permit = self.semaphore.acquire().await.ok();
        let number = self.state.lock().send();
        Permit {
            limiter: self,
            permit,
            number,
            _share: share,
        }
    }

    /// The right to a write beside few others.
    async fn calm(&self, namespace: &str) -> Permit<'_> {
        loop {
            {
                let mut state = self.state.lock();
                if state.in_flight() < FEW
                    && state.has_room(namespace)
                    && let Ok(permit) = self.semaphore.try_acquire()
                {
                    let number = state.send();
                    state.take(namespace);
                    // There may be room for the next as well.
                    self.returned.notify_one();
                    return Permit {
                        limiter: self,
                        permit: Some(permit),
                        number,
                        _share: Share {
                            limiter: self,
                            namespace: namespace.into(),
                        },
                    };
                }
            }
            let _ = tokio::time::timeout(LOOK, self.returned.notified()).await;
        }
    }

    /// Waits until the namespace holds fewer permits than it may.
    async fn share(&self, namespace: &str) -> Share<'_> {
        let share = || Share {
            limiter: self,
            namespace: namespace.into(),
        };
        let (left, _waiting) = {
            let mut state = self.state.lock();
            if state.has_room(namespace) {
                state.take(namespace);
                return share();
            }
            let here = state.namespaces.entry(namespace.into()).or_default();
            here.waiting = here.waiting.saturating_add(1);
            let waiting = Waiting {
                limiter: self,
                namespace,
            };
            (here.left.clone(), waiting)
        };
        loop {
            left.notified().await;
            let mut state = self.state.lock();
            if state.has_room(namespace) {
                state.take(namespace);
                if state.has_room(namespace) {
                    left.notify_one();
                }
                return share();
            }
        }
    }

    /// Writes that may be in flight now.
    #[cfg(test)]
    pub(super) fn limit(&self) -> usize {
        self.state.lock().limit
    }
}

/// A write that waits for others of its namespace.
struct Waiting<'a> {
    limiter: &'a Limiter,
    namespace: &'a str,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.state.lock();
        state.leave(self.namespace, |here| {
            here.waiting = here.waiting.saturating_sub(1);
        });
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.state.lock();
        state.leave(&self.namespace, |here| {
            here.taken = here.taken.saturating_sub(1);
            here.left.notify_one();
        });
    }
}

impl State {
    /// True if the namespace may hold one more: of four it never holds the fourth.
    fn has_room(&self, namespace: &str) -> bool {
        let kept = self.limit.div_ceil(4);
        let share = self.limit.saturating_sub(kept).max(1);
        self.namespaces
            .get(namespace)
            .is_none_or(|here| here.taken < share)
    }

    fn take(&mut self, namespace: &str) {
        let here = self.namespaces.entry(namespace.into()).or_default();
        here.taken = here.taken.saturating_add(1);
    }

    /// Nothing is kept of a namespace to which nobody writes.
    fn leave(&mut self, namespace: &str, change: impl FnOnce(&mut Namespace)) {
        if let Some(here) = self.namespaces.get_mut(namespace) {
            change(here);
            if here.taken == 0 && here.waiting == 0 {
                self.namespaces.remove(namespace);
            }
        }
    }

    /// Gives the number of the permit.
    fn send(&mut self) -> u64 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        self.sent.insert(number, Instant::now());
        number
    }

    /// Writes that the server works on.
    fn in_flight(&self) -> usize {
        let sent = self.sent.values();
        sent.filter(|at| at.elapsed() < HANGS).count()
    }
}

impl Permit<'_> {
    /// Says how the write went. `pushed_back`: refused for load, timed out, or cut off.
    pub(super) fn report(mut self, pushed_back: bool) {
        let Some(permit) = self.permit.take() else {
            return;
        };
        let mut state = self.limiter.state.lock();
        if pushed_back {
            state.good = 0;
            let lower = state.limit.div_ceil(2).max(LEAST);
            let less = state.limit.saturating_sub(lower);
            state.debt = state.debt.saturating_add(less);
            state.limit = lower;
        } else {
            state.good = state.good.saturating_add(1);
            if state.good >= state.limit.saturating_mul(2) && state.limit < MOST {
                state.good = 0;
                state.limit = state.limit.saturating_add(1);
                if state.debt > 0 {
                    state.debt = state.debt.saturating_sub(1);
                } else {
                    self.limiter.semaphore.add_permits(1);
                }
            }
        }
        if state.debt > 0 {
            state.debt = state.debt.saturating_sub(1);
            permit.forget();
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        drop(self.permit.take());
        {
            let mut state = self.limiter.state.lock();
            state.sent.remove(&self.number);
        }
        self.limiter.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER_OTHERS: Turn = Turn::AfterOthers {
        waited: Duration::ZERO,
    };

    async fn one(limiter: &Limiter, pushed_back: bool) {
        let permit = limiter.acquire(Turn::InOrder, "ns").await;
        permit.report(pushed_back);
    }

    #[tokio::test]
    async fn grows_while_all_is_well_and_halves_on_push_back() {
        let limiter = Limiter::default();
        for _ in 0..10_000 {
            one(&limiter, false).await;
        }
        assert_eq!(limiter.limit(), MOST);
        one(&limiter, true).await;
        assert_eq!(limiter.limit(), MOST / 2);
        for _ in 0..100 {
            one(&limiter, true).await;
        }
        assert_eq!(limiter.limit(), LEAST);
    }

    #[tokio::test]
    async fn never_lets_more_through_than_the_limit() {
        let limiter = Limiter::default();
        for pushed_back in [true, false, true, true, false] {
            for _ in 0..200 {
                one(&limiter, pushed_back).await;
            }
            let mut held = Vec::new();
            while let Ok(permit) = limiter.semaphore.try_acquire() {
                held.push(permit);
            }
            let debt = limiter.state.lock().debt;
            assert_eq!(held.len(), limiter.limit() + debt);
        }
    }

    /// Takes all permits there are.
    async fn all(limiter: &Limiter) -> Vec<Permit<'_>> {
        let mut held = Vec::new();
        for number in 0..limiter.limit() {
            held.push(limiter.acquire(Turn::InOrder, &number.to_string()).await);
        }
        held
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_lets_others_go_first_waits_until_few_are_in_flight() {
        let limiter = Limiter::default();
        let mut held = Vec::new();
        for _ in 0..=FEW {
            held.push(limiter.acquire(Turn::InOrder, "ns").await);
        }
        let start = tokio::time::Instant::now();
        let pause = Duration::from_millis(100);
        let free = async {
            for permit in held.drain(..) {
                tokio::time::sleep(pause).await;
                permit.report(false);
            }
        };
        let take = async || {
            limiter.acquire(AFTER_OTHERS, "ns").await.report(false);
            start.elapsed()
        };
        let ((), one, two) = tokio::join!(free, take(), take());
        assert_eq!(one.max(two), pause.saturating_mul(2));
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_for_a_permit_that_nobody_wants() {
        let limiter = Limiter::default();
        let mut held = all(&limiter).await;
        let order = Mutex::new(Vec::new());
        let write = async |name: &'static str, turn| {
            let permit = limiter.acquire(turn, "ns").await;
            order.lock().push(name);
            permit.report(false);
        };
        let start = tokio::time::Instant::now();
        let free = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            held.pop().unwrap().report(false);
            tokio::time::sleep(Duration::from_millis(100)).await;
            held.clear();
        };
        tokio::join!(
            write("event", AFTER_OTHERS),
            write("status", AFTER_OTHERS),
            write("pod", Turn::InOrder),
            write("another", Turn::InOrder),
            free,
        );
        assert_eq!(*order.lock(), ["pod", "another", "event", "status"]);
        // Not once their patience ends: as soon as it is calm.
        assert_eq!(start.elapsed(), Duration::from_millis(200));
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_no_longer_than_its_patience() {
        let limiter = &Limiter::default();
        let start = tokio::time::Instant::now();
        // Pods without end, of more gangs than there will ever be permits.
        let pods = futures::future::join_all((0..=MOST).map(|number| async move {
            let namespace = number.to_string();
            loop {
                let permit = limiter.acquire(Turn::InOrder, &namespace).await;
                tokio::time::sleep(Duration::from_millis(200)).await;
                permit.report(false);
            }
        }));
        let told = async {
            let permit = limiter.acquire(AFTER_OTHERS, "ns").await;
            permit.report(false);
            start.elapsed()
        };
        let took = tokio::select! {
            biased;
            _ = pods => Duration::MAX,
            took = told => took,
        };
        let next = Duration::from_secs(1);
        assert!(
            took >= PATIENCE && took < PATIENCE.saturating_add(next),
            "{took:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_waited_elsewhere_has_waited() {
        let limiter = Limiter::default();
        let mut held = all(&limiter).await;
        let start = Instant::now();
        let soon = Duration::from_millis(100);
        let free = async {
            tokio::time::sleep(soon).await;
            held.pop().unwrap().report(false);
        };
        let take = async |turn| {
            limiter.acquire(turn, "ns").await.report(false);
            start.elapsed()
        };
        let late = Turn::AfterOthers { waited: PATIENCE };
        let ((), early, late) = tokio::join!(free, take(AFTER_OTHERS), take(late));
        // With the first permit, though it is not calm yet.
        assert_eq!(late, soon);
        assert!(early > late, "{early:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn writes_that_hang_are_none_that_it_waits_for() {
        let limiter = Limiter::default();
        let mut held = Vec::new();
        for _ in 0..=FEW {
            held.push(limiter.acquire(Turn::InOrder, "hangs").await);
        }
        let start = Instant::now();
        limiter.acquire(AFTER_OTHERS, "ns").await.report(false);
        let took = start.elapsed();
        assert!(HANGS <= took && took <= HANGS + LOOK, "{took:?}");
    }

    /// Whose webhooks hang holds up nobody else, however much is to be written there.
    #[tokio::test(start_paused = true)]
    async fn one_namespace_never_has_all_permits() {
        let limiter = Limiter::default();
        for pushed_back in [false, true] {
            if pushed_back {
                for _ in 0..10 {
                    one(&limiter, true).await;
                }
                assert_eq!(limiter.limit(), LEAST);
            }
            let share: usize = if pushed_back { 1 } else { FIRST / 4 * 3 };
            let many = share.saturating_mul(4);
            let start = Instant::now();
            let hang = futures::future::join_all((0..many).map(|_| async {
                let permit = limiter.acquire(Turn::InOrder, "hangs").await;
                tokio::time::sleep(Duration::from_secs(10)).await;
                permit.report(false);
            }));
            let other = async {
                tokio::task::yield_now().await;
                let permit = limiter.acquire(Turn::InOrder, "other").await;
                permit.report(false);
                start.elapsed()
            };
            let (_, waited) = tokio::join!(hang, other);
            assert_eq!(waited, Duration::ZERO);
            // They are carried out all the same, so many at a time.
            assert_eq!(start.elapsed(), Duration::from_secs(40));
            assert!(limiter.state.lock().namespaces.is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_stops_waiting_for_its_namespace_leaves_its_turn_to_the_next() {
        let limiter = Limiter::default();
        let mut held = Vec::new();
        for _ in 0..FIRST / 4 * 3 {
            held.push(limiter.acquire(Turn::InOrder, "ns").await);
        }
        let second = Duration::from_secs(1);
        let mut first = Box::pin(limiter.acquire(Turn::InOrder, "ns"));
        assert!(tokio::time::timeout(second, &mut first).await.is_err());
        let mut next = Box::pin(limiter.acquire(Turn::InOrder, "ns"));
        assert!(tokio::time::timeout(second, &mut next).await.is_err());
        held.pop();
        drop(first);
        assert!(tokio::time::timeout(second, next).await.is_ok());
    }
}
