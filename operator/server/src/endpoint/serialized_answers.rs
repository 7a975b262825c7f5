//! Answers, serialized once for all readers.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;
use trellis_scheduler::Snapshot;

use super::WaitingJobs;
use crate::callers::Failure;

/// How long an answer is reused, so that frequent requests do not slow the engine.
pub(super) const ANSWER_TTL: Duration = Duration::from_secs(2);

/// The waiting jobs, and the answers serialized from them.
#[derive(Debug)]
pub(super) struct SerializedWaitingJobs {
    waiting_jobs: WaitingJobs,
    /// Answers by namespace. None: all namespaces.
    answers: Mutex<BTreeMap<Option<String>, Bytes>>,
}

impl SerializedWaitingJobs {
    pub(super) fn new(overview: WaitingJobs) -> Self {
        Self {
            waiting_jobs: overview,
            answers: Mutex::default(),
        }
    }

    /// Returns the answer for one namespace, or for all.
    pub(super) fn answer(&self, namespace: Option<&str>) -> Result<Bytes, Failure> {
        let key = namespace.map(str::to_owned);
        let mut answers = self.answers.lock();
        if let Some(answer) = answers.get(&key) {
            return Ok(answer.clone());
        }
        let answer = Bytes::from(match namespace {
            None => serialize(&self.waiting_jobs)?,
            Some(namespace) => serialize(&self.waiting_jobs.in_namespace(namespace))?,
        });
        answers.insert(key, answer.clone());
        Ok(answer)
    }
}

/// A serialized snapshot, kept while a client reads it.
#[derive(Debug)]
pub(super) struct SnapshotDownload {
    at: Instant,
    /// File name of the download.
    pub(super) name: String,
    json: Vec<u8>,
}

impl SnapshotDownload {
    pub(super) fn new(snapshot: &Snapshot) -> Result<Self, Failure> {
        Ok(Self {
            at: Instant::now(),
            name: crate::snapshot::file_name(snapshot),
            json: serialize(snapshot)?,
        })
    }

    /// Returns the last download if a client still reads it and it is recent enough.
    pub(super) fn reuse(last: &Weak<Self>) -> Option<Arc<Self>> {
        last.upgrade().filter(|last| last.at.elapsed() < ANSWER_TTL)
    }

    /// Returns the bytes. They are freed with their last reader.
    pub(super) fn into_bytes(self: Arc<Self>) -> Bytes {
        Bytes::from_owner(DownloadBytes(self))
    }
}

struct DownloadBytes(Arc<SnapshotDownload>);

impl AsRef<[u8]> for DownloadBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0.json
    }
}

fn serialize(answer: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(answer).map_err(|_| Failure::unavailable())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_of_the_same_answer_share_its_bytes() {
        let answers = SerializedWaitingJobs::new(WaitingJobs {
            time: jiff::Timestamp::UNIX_EPOCH,
            waiting: Vec::new(),
        });
        for namespace in [None, Some("a")] {
            let first = answers.answer(namespace).unwrap();
            let second = answers.answer(namespace).unwrap();
            assert!(first.starts_with(b"{\"time\""), "{first:?}");
            assert_eq!(first.as_ptr(), second.as_ptr());
        }
    }
}
