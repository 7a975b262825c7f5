//! The network between the replicas and the API server: how long each message takes, and which are
//! lost.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::random::RandomSequence;
use crate::script::{Fault, NetworkDelays};

/// The fate of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It arrives, and its answer too.
    Whole,
    /// The connection is cut before the API server has the request.
    LostBefore,
    /// The API server handles the request, and the connection is cut before the answer.
    LostAfter,
    /// A proxy answers 503.
    Unavailable,
    /// An admission webhook denies it.
    Denied,
}

/// The way of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route<'f> {
    pub(crate) delivery: Delivery,
    /// The fault that the request meets.
    pub(crate) fault: Option<&'f Fault>,
    pub(crate) request_time: Duration,
    pub(crate) answer_time: Duration,
}

#[derive(Debug)]
pub(crate) struct Network {
    seed: u64,
    delays: NetworkDelays,
    /// Random numbers by replica and kind of request, so that a further request of one kind does
    /// not shift the delays of all others.
    sequences: BTreeMap<String, RandomSequence>,
}

impl Network {
    pub(crate) fn new(seed: u64, delays: NetworkDelays) -> Self {
        Self {
            seed,
            delays,
            sequences: BTreeMap::new(),
        }
    }

    fn sequence(&mut self, key: &str) -> &mut RandomSequence {
        let seed = self.seed;
        let sequences = &mut self.sequences;
        if !sequences.contains_key(key) {
            sequences.insert(key.to_owned(), RandomSequence::new(seed, key));
        }
        sequences.get_mut(key).expect("it was inserted")
    }

    /// Decides about a request of this kind.
    pub(crate) fn route<'f>(&mut self, key: &str, active: &[&'f Fault]) -> Route<'f> {
        let mut slowest = self.delays.request;
        for fault in active {
            if let Fault::Slow(millis) = fault {
                slowest = slowest.max(*millis);
            }
        }
        let random = self.sequence(key);
        let (mut delivery, mut met) = (Delivery::Whole, None);
        for fault in active {
            let (chance, result) = match fault {
                Fault::LoseRequests(chance) => (*chance, Delivery::LostBefore),
                Fault::LoseAnswers(chance) => (*chance, Delivery::LostAfter),
                Fault::Unavailable(chance) => (*chance, Delivery::Unavailable),
                _ => continue,
            };
            if random.chance(chance) {
                (delivery, met) = (result, Some(*fault));
            }
        }
        Route {
            delivery,
            fault: met,
            request_time: random.log_uniform_millis(1, slowest.max(2)),
            answer_time: random.log_uniform_millis(1, slowest.max(2)),
        }
    }

    /// Returns how long an event of a watch takes.
    pub(crate) fn watch_delay(&mut self, key: &str) -> Duration {
        let longest = self.delays.watch.max(2);
        self.sequence(key).log_uniform_millis(1, longest)
    }
}
