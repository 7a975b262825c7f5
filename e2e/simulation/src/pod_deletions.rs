//! How often the operator asks for the deletion of each pod. The history of objects does not show
//! a deletion that is asked for again.

use std::collections::BTreeMap;

use http::{Method, Request, StatusCode};
use hyper::body::Bytes;
use serde_json::Value;

/// Most accepted deletions of one pod. Each leader asks once, and again while the pod stays.
const MOST: u32 = 12;

#[derive(Debug, Default)]
pub(crate) struct PodDeletions {
    /// Accepted deletions by the path of the pod and its uid.
    counts: BTreeMap<(String, String), u32>,
}

impl PodDeletions {
    pub(crate) fn observe(&mut self, request: &Request<Bytes>, status: StatusCode) {
        let path = request.uri().path();
        if request.method() != Method::DELETE || !path.contains("/pods/") || !status.is_success() {
            return;
        }
        let options: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let uid = options["preconditions"]["uid"].as_str().unwrap_or_default();
        let count = self
            .counts
            .entry((path.to_owned(), uid.to_owned()))
            .or_default();
        *count += 1;
    }

    /// Describes the pods that were deleted too often.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        let repeated = self.counts.iter().filter(|(_, count)| **count > MOST);
        repeated.map(|((path, uid), count)| format!("{path} ({uid}) was deleted {count} times"))
    }
}
