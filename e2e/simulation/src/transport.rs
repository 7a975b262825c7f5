//! The connection of a replica to the API server: its requests leave as values, and the simulated
//! network answers them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt as _;
use futures::channel::{mpsc, oneshot};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tower::{BoxError, Service};

/// The body of an answer. A watch gets its frames one by one.
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;
/// An answer, or the error of a cut connection.
pub(crate) type NetworkResult = Result<http::Response<AnswerBody>, BoxError>;

/// A request that waits for its answer.
#[derive(Debug)]
pub(crate) struct SentRequest {
    pub(crate) request: http::Request<Bytes>,
    /// Fails if the client has given up.
    pub(crate) answer: oneshot::Sender<NetworkResult>,
}

/// The requests that a replica has sent, and that the network has not taken yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox(Arc<OutboxState>);

#[derive(Debug, Default)]
struct OutboxState {
    requests: Mutex<VecDeque<SentRequest>>,
    arrival: Notify,
}

impl Outbox {
    /// Waits until a request is there.
    pub(crate) async fn wait(&self) {
        while self.0.requests.lock().is_empty() {
            self.0.arrival.notified().await;
        }
    }

    pub(crate) fn take(&self) -> Vec<SentRequest> {
        self.0.requests.lock().drain(..).collect()
    }

    fn push(&self, request: SentRequest) {
        self.0.requests.lock().push_back(request);
        self.0.arrival.notify_one();
    }
}

/// A connection that gives up after a time, as kube's connector does.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    pub(crate) outbox: Outbox,
    pub(crate) timeout: Duration,
}

impl Service<http::Request<Body>> for Transport {
    type Response = http::Response<AnswerBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = NetworkResult> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let Self { outbox, timeout } = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let (answer, answered) = oneshot::channel();
            outbox.push(SentRequest {
                request: http::Request::from_parts(parts, body),
                answer,
            });
            match tokio::time::timeout(timeout, answered).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Err("the connection was closed".into()),
                Err(_) => Err("the API server does not answer".into()),
            }
        })
    }
}

/// Returns the body of a complete answer.
pub(crate) fn full_body(bytes: Bytes) -> AnswerBody {
    let body = Full::new(bytes);
    body.map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

/// The frames of a watch that the network delivers. The connection ends when this is dropped.
pub(crate) type FrameSender = mpsc::UnboundedSender<Bytes>;

/// Returns the body of a watch, and the sender of its frames.
pub(crate) fn watch_body() -> (FrameSender, AnswerBody) {
    let (sender, frames) = mpsc::unbounded();
    let frames = frames.map(|bytes| Ok::<_, BoxError>(Frame::data(bytes)));
    (sender, StreamBody::new(frames).boxed_unsync())
}
