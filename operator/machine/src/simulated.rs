//! A machine of a simulation.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::SplitMix64;

thread_local! {
    static ENTERED: RefCell<Option<SimulatedMachine>> = const { RefCell::new(None) };
}

/// A machine whose clock follows the paused clock of a tokio runtime, with one thread, and with
/// random bytes from a seed. Clones are the same machine.
#[derive(Clone, Debug)]
pub struct SimulatedMachine(Rc<State>);

#[derive(Debug)]
struct State {
    start: Instant,
    /// The time of day at `start`. A simulation moves it to set the clock.
    time_at_start: Cell<Timestamp>,
    random: RefCell<SplitMix64>,
}

impl SimulatedMachine {
    /// Creates a machine. Call it inside the runtime whose clock the machine follows.
    #[must_use]
    pub fn new(time_of_day: Timestamp, seed: u64) -> Self {
        Self(Rc::new(State {
            start: Instant::now(),
            time_at_start: Cell::new(time_of_day),
            random: RefCell::new(SplitMix64::new(seed)),
        }))
    }

    /// Makes this the machine of the thread until the returned value is dropped.
    #[must_use]
    pub fn enter(&self) -> EnteredMachine {
        let previous = ENTERED.replace(Some(self.clone()));
        EnteredMachine {
            previous,
            _is_of_one_thread: PhantomData,
        }
    }

    /// Moves the machine's time of day forwards, or backwards if the step is negative.
    pub fn set_clock_forward(&self, step: SignedDuration) {
        let time = &self.0.time_at_start;
        time.set(time.get().saturating_add(step).unwrap_or(Timestamp::MAX));
    }

    /// Calls a function with the machine that the thread has entered, if any.
    pub(crate) fn with_entered<T>(call: impl FnOnce(&Self) -> T) -> Option<T> {
        ENTERED.with_borrow(|machine| machine.as_ref().map(call))
    }

    pub(crate) fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.0.start.elapsed());
        let elapsed = elapsed.unwrap_or(SignedDuration::MAX);
        let time = self.0.time_at_start.get();
        time.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    pub(crate) fn fill_random(&self, buffer: &mut [u8]) {
        let mut random = self.0.random.borrow_mut();
        for chunk in buffer.chunks_mut(8) {
            for (to, from) in chunk.iter_mut().zip(random.draw().to_le_bytes()) {
                *to = from;
            }
        }
    }
}

/// Leaves the machine when it is dropped.
#[derive(Debug)]
pub struct EnteredMachine {
    previous: Option<SimulatedMachine>,
    _is_of_one_thread: PhantomData<*const ()>,
}

impl Drop for EnteredMachine {
    fn drop(&mut self) {
        ENTERED.set(self.previous.take());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{clock, random, threads};

    fn noon() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn time_of_day_follows_the_paused_clock() {
        let machine = SimulatedMachine::new(noon(), 1);
        let entered = machine.enter();
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(clock::now().to_string(), "2026-01-01T12:01:30Z");
        machine.set_clock_forward(SignedDuration::from_secs(-60));
        assert_eq!(clock::now().to_string(), "2026-01-01T12:00:30Z");
        drop(entered);
        assert!(clock::now() > noon(), "outside, it is the real time");
    }

    #[tokio::test(start_paused = true)]
    async fn inner_machine_gives_way_to_the_outer() {
        let outer = SimulatedMachine::new(noon(), 1);
        let outer = outer.enter();
        let inner = SimulatedMachine::new(Timestamp::UNIX_EPOCH, 1).enter();
        assert_eq!(clock::now(), Timestamp::UNIX_EPOCH);
        drop(inner);
        assert_eq!(clock::now(), noon());
        drop(outer);
    }

    #[tokio::test(start_paused = true)]
    async fn random_bytes_follow_from_the_seed() {
        let bytes_of = |seed| {
            let _entered = SimulatedMachine::new(noon(), seed).enter();
            let mut bytes = [0; 11];
            random::fill(&mut bytes).unwrap();
            bytes
        };
        assert_eq!(bytes_of(1), bytes_of(1));
        assert_ne!(bytes_of(1), bytes_of(2));
    }

    #[tokio::test(start_paused = true)]
    async fn simulated_machine_has_one_thread() {
        let thread = || std::thread::current().id();
        assert_ne!(threads::spawn_blocking(thread).await.unwrap(), thread());
        let _entered = SimulatedMachine::new(noon(), 1).enter();
        assert_eq!(threads::spawn_blocking(thread).await.unwrap(), thread());
    }
}
