//! The stream of a watch, cut anywhere.

use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use kube::{Client, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tower::BoxError;
use trellis_cache::watch::{Pulse, Sink, follow};
use trellis_gang::key::Key;

use crate::Target;

/// The target. A follower continues after any bytes of a watch, and never from a later version than
/// it has seen.
pub const TARGET: Target = Target {
    check,
    words: &[
        "type",
        "object",
        "ADDED",
        "MODIFIED",
        "DELETED",
        "BOOKMARK",
        "ERROR",
        "metadata",
        "name",
        "uid",
        "resourceVersion",
        "code",
        "410",
        "reason",
        "Expired",
        "}\n{",
        "\n",
        "\r\n",
        "18446744073709551615",
    ],
    inputs_per_case: 16,
};

/// Version of the list.
const LISTED: u64 = 5;
/// Time for which a follower is observed.
const OBSERVED: Duration = Duration::from_secs(900);
/// Size of one piece of the stream, in bytes.
const PIECE: usize = 7;

fn check(input: &[u8]) {
    let list = format!(r#"{{"metadata": {{"resourceVersion": "{LISTED}"}}, "items": []}}"#);
    let mut answers = Answers::new(list);
    answers.watch = Some(input.to_vec());
    let requests = answers.requests.clone();
    let has_ended = follow_answers::<ConfigMap, _>(answers, Arc::new(NoSink));
    let requests = requests.lock();
    let versions: Vec<u64> = requests
        .iter()
        .filter_map(|request| request.watched)
        .collect();
    assert!(versions.is_sorted(), "{versions:?}");
    // A cluster that was put back to an earlier time ends the follower.
    let is_continued =
        versions.len() > 1 || requests.iter().filter(|r| r.watched.is_none()).count() > 1;
    assert!(
        has_ended || is_continued,
        "the follower is stuck after {requests:?}"
    );
    let text = String::from_utf8_lossy(input);
    if !text.contains("\\u") {
        let sent = text
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|word| word.parse().ok());
        let latest = sent.max().unwrap_or(0).max(LISTED);
        assert!(
            versions.iter().all(|version| *version <= latest),
            "{versions:?}"
        );
    }
}

/// Answers of an API server to one follower.
pub(super) struct Answers {
    list: String,
    /// Body of the first watch. Later watches are silent.
    watch: Option<Vec<u8>>,
    requests: Arc<Mutex<Vec<SentRequest>>>,
}

/// A request of the follower.
#[derive(Debug)]
struct SentRequest {
    /// The version from which it watches. None: it lists.
    watched: Option<u64>,
}

impl Answers {
    pub(super) fn new(list: String) -> Self {
        Self {
            list,
            watch: None,
            requests: Arc::default(),
        }
    }

    fn answer(&mut self, request: &Request<Body>) -> Response<AnswerBody> {
        let query = request.uri().query().unwrap_or_default();
        let version = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("resourceVersion="));
        let is_watch = query.contains("watch=true");
        let watched = version
            .and_then(|version| version.parse().ok())
            .filter(|_| is_watch);
        self.requests.lock().push(SentRequest { watched });
        let pieces: Vec<Bytes> = match (is_watch, self.watch.take()) {
            (false, before) => {
                self.watch = before;
                vec![Bytes::from(self.list.clone())]
            }
            (true, Some(body)) => body.chunks(PIECE).map(Bytes::copy_from_slice).collect(),
            (true, None) => return Response::new(AnswerBody::new(pieces_of(Vec::new(), true))),
        };
        Response::new(AnswerBody::new(pieces_of(pieces, false)))
    }
}

type AnswerBody = StreamBody<Pieces>;
type Pieces = futures::stream::BoxStream<'static, Result<Frame<Bytes>, BoxError>>;

fn pieces_of(pieces: Vec<Bytes>, is_open: bool) -> Pieces {
    use futures::StreamExt as _;
    let pieces = stream::iter(pieces).map(|piece| Ok(Frame::data(piece)));
    if is_open {
        pieces.chain(stream::pending()).boxed()
    } else {
        pieces.boxed()
    }
}

/// Follows these answers for a while in virtual time. Returns true if the follower ends.
pub(super) fn follow_answers<K, S>(answers: Answers, sink: Arc<S>) -> bool
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
    S: Sink<K>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async move {
        let answers = Arc::new(Mutex::new(answers));
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = answers.lock().answer(&request);
            async move { Ok::<_, BoxError>(answer) }
        });
        let client = Client::new(service, "default");
        let followed = follow::<K, S>(client, None, sink, Pulse::default());
        tokio::time::timeout(OBSERVED, followed).await.is_ok()
    })
}

/// Drops all objects.
struct NoSink;

impl Sink<ConfigMap> for NoSink {
    fn apply(&self, _: Key, _: ConfigMap) {}

    fn delete(&self, _: &Key, _: &str) {}

    fn synced(&self) {}
}
