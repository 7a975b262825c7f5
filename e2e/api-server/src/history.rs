//! The history of all changes.

use std::sync::{Arc, OnceLock};

use hyper::body::Bytes;
use jiff::Timestamp;

use crate::kind::Kind;
use crate::object::Object;

/// One change of one object.
#[derive(Clone, Debug)]
pub struct HistoryEntry {
    /// Revision of the store after the change.
    pub revision: u64,
    /// Time of the change.
    pub time: Timestamp,
    /// Name of the user who made the change. For the effects of a request on further objects, such
    /// as the used amounts of a ResourceQuota: `system:apiserver`.
    pub user: Arc<str>,
    /// The kind of the object.
    pub kind: Arc<Kind>,
    /// The object before the change. None: it was created.
    pub before: Option<Arc<Object>>,
    /// The object after the change. None: it was deleted.
    pub after: Option<Arc<Object>>,
    /// True if [`ApiServer::restore`](crate::ApiServer::restore) made the change. Its revision is
    /// the one that was restored, and no watch shows it.
    pub restored: bool,
    frame: Arc<OnceLock<Bytes>>,
}

impl HistoryEntry {
    pub(crate) fn new(
        revision: u64,
        time: Timestamp,
        user: Arc<str>,
        before: Option<Arc<Object>>,
        after: Option<Arc<Object>>,
    ) -> Self {
        let object = before.as_ref().or(after.as_ref());
        let kind = object.expect("a change concerns an object").kind().clone();
        Self {
            revision,
            time,
            user,
            kind,
            before,
            after,
            restored: false,
            frame: Arc::default(),
        }
    }

    /// The object that the change is about: as it is after the change, or as it was last.
    #[must_use]
    pub fn object(&self) -> &Arc<Object> {
        let object = self.after.as_ref().or(self.before.as_ref());
        object.expect("a change concerns an object")
    }

    /// The line of a watch that sees both versions. It is written once for all watches.
    pub(crate) fn frame(&self) -> Bytes {
        let line = || match (&self.before, &self.after) {
            (None, Some(after)) => event_line("ADDED", after.bytes()),
            (_, Some(after)) => event_line("MODIFIED", after.bytes()),
            (Some(before), None) => {
                event_line("DELETED", before.with_revision(self.revision).bytes())
            }
            (None, None) => Bytes::new(),
        };
        self.frame.get_or_init(line).clone()
    }
}

/// Returns one line of a watch.
pub(crate) fn event_line(kind: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    Bytes::from(line)
}
