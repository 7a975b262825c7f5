//! Bytes of answers, serialized once for all readers.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use axum::body::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;
use trellis_scheduler::Snapshot;

use super::{FRESH, Failure, Overview};

/// An overview, and the serialized answers made of it.
#[derive(Debug)]
pub(super) struct Told {
    overview: Overview,
    /// By namespace. None: of all.
    answers: Mutex<BTreeMap<Option<String>, Bytes>>,
}

impl Told {
    pub(super) fn new(overview: Overview) -> Self {
        Self {
            overview,
            answers: Mutex::default(),
        }
    }

    /// The answer for one namespace, or for all.
    pub(super) fn answer(&self, namespace: Option<&str>) -> Result<Bytes, Failure> {
        let key = namespace.map(str::to_owned);
        let mut answers = self.answers.lock();
        if let Some(answer) = answers.get(&key) {
            return Ok(answer.clone());
        }
        let answer = Bytes::from(match namespace {
            None => json(&self.overview)?,
            Some(namespace) => json(&self.overview.of(namespace))?,
        });
        answers.insert(key, answer.clone());
        Ok(answer)
    }
}

/// A serialized snapshot, kept while a client reads it.
#[derive(Debug)]
pub(super) struct Download {
    at: Instant,
    /// File name of the download.
    pub(super) name: String,
    json: Vec<u8>,
}

impl Download {
    pub(super) fn new(snapshot: &Snapshot) -> Result<Self, Failure> {
        Ok(Self {
            at: Instant::now(),
            name: crate::snapshot::name(snapshot),
            json: json(snapshot)?,
        })
    }

    /// The last download, if it is still being read and recent enough.
    pub(super) fn fresh(last: &Weak<Self>) -> Option<Arc<Self>> {
        last.upgrade().filter(|last| last.at.elapsed() < FRESH)
    }

    /// The bytes. They are freed with their last reader.
    pub(super) fn bytes(self: Arc<Self>) -> Bytes {
        Bytes::from_owner(Reader(self))
    }
}

struct Reader(Arc<Download>);

impl AsRef<[u8]> for Reader {
    fn as_ref(&self) -> &[u8] {
        &self.0.json
    }
}

fn json(answer: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(answer).map_err(|_| Failure::unavailable())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_read_the_same_answer_share_its_bytes() {
        let told = Told::new(Overview {
            time: jiff::Timestamp::UNIX_EPOCH,
            waiting: Vec::new(),
        });
        for namespace in [None, Some("a")] {
            let one = told.answer(namespace).unwrap();
            let other = told.answer(namespace).unwrap();
            assert!(one.starts_with(b"{\"time\""), "{one:?}");
            assert_eq!(one.as_ptr(), other.as_ptr());
        }
    }
}
