//! Taking requests in and sending them on.

use std::{future::pending, sync::Arc};

use anyhow::Result;
use http::{HeaderValue, Response, StatusCode, Uri, header, uri::PathAndQuery};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use kube::client::ConfigExt as _;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use super::{
    Fault, Key, Request, State, Tally, Verb, fault, get,
    trap::{Admitted, Trap},
    watch,
};
use crate::control_plane::ControlPlane;

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, BoxError>;
type Connector = hyper_rustls::HttpsConnector<HttpConnector>;

/// Why a connection is cut.
const BY_A_TEST: &str = "cut by a test";

/// The API server.
#[derive(Debug, Clone)]
pub(super) struct Upstream {
    connector: Connector,
    uri: Uri,
}

impl Upstream {
    pub(super) fn new(control_plane: &ControlPlane) -> Result<Self> {
        let connector = control_plane.client_config().rustls_https_connector()?;
        Ok(Self {
            connector,
            uri: control_plane.url().parse()?,
        })
    }

    fn client(&self) -> Client<Connector, Full<Bytes>> {
        Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(self.connector.clone())
    }

    /// The same path on the API server.
    fn uri(&self, path: Option<&PathAndQuery>) -> Result<Uri, BoxError> {
        let mut parts = self.uri.clone().into_parts();
        parts.path_and_query = path.cloned();
        Ok(Uri::from_parts(parts)?)
    }
}

/// Serves connections for ever.
pub(super) async fn serve(listener: TcpListener, upstream: Upstream, state: Arc<State>) {
    let client = upstream.client();
    loop {
        // An accept fails when files run out: some other connection may free one.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        tokio::spawn(connection(
            stream,
            client.clone(),
            upstream.clone(),
            Arc::clone(&state),
        ));
    }
}

async fn connection(
    stream: TcpStream,
    client: Client<Connector, Full<Bytes>>,
    upstream: Upstream,
    state: Arc<State>,
) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        handle(
            request,
            client.clone(),
            upstream.clone(),
            Arc::clone(&state),
        )
    });
    // An error means that the client went away, or that a fault cuts the connection.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// An `Err` cuts the connection.
async fn handle(
    incoming: http::Request<Incoming>,
    client: Client<Connector, Full<Bytes>>,
    upstream: Upstream,
    state: Arc<State>,
) -> Result<Response<Body>, BoxError> {
    let (mut parts, body) = incoming.into_parts();
    let body = body.collect().await?.to_bytes();
    let request = Request::new(&parts, body.clone());
    let key = Key::from(&request);
    let came = Tally {
        requests: 1,
        request_bytes: body.len() as u64,
        ..Tally::default()
    };
    count(&state, &key, came);

    // Before the hook is asked: a heal after its answer must not be missed.
    let mut released = state.released.subscribe();
    let fault = get(&state.hook).map_or(Fault::Pass, |hook| hook(&request));
    match fault {
        Fault::Pass | Fault::DropAnswer | Fault::HangAnswer => {}
        Fault::Delay(time) => tokio::time::sleep(time).await,
        Fault::Hold => drop(released.changed().await),
        Fault::Status(code, retry_after) => {
            count_failure(&state, &key);
            return status(code, retry_after);
        }
        Fault::Expired => {
            count_failure(&state, &key);
            return expired(request.verb);
        }
        Fault::DropRequest => return cut(&state, &key, BY_A_TEST),
        Fault::Late => {
            parts.uri = upstream.uri(parts.uri.path_and_query())?;
            parts.headers.remove(header::HOST);
            parts.headers.remove(header::CONNECTION);
            let late = http::Request::from_parts(parts, Full::new(body));
            tokio::spawn(async move {
                if released.changed().await.is_ok() {
                    // The client's connection is already cut, so the response is dropped.
                    let _ = client.request(late).await;
                }
            });
            return cut(&state, &key, BY_A_TEST);
        }
        Fault::Hang => pending().await,
    }
    let trap = get(&state.trap);
    let trap = match admit(trap, &request).await {
        Some(trap) => trap,
        None => return cut(&state, &key, BY_A_TEST),
    };

    parts.uri = upstream.uri(parts.uri.path_and_query())?;
    parts.headers.remove(header::HOST);
    parts.headers.remove(header::CONNECTION);
    if request.verb == Verb::Watch {
        // The proxy can only separate events that are not compressed.
        parts.headers.remove(header::ACCEPT_ENCODING);
    }
    let outgoing = http::Request::from_parts(parts, Full::new(body));
    let answer = match client.request(outgoing).await {
        Ok(answer) => answer,
        // The API server is not there: the client sees what it would without us.
        Err(error) => return cut(&state, &key, error),
    };
    let (mut parts, body) = answer.into_parts();
    parts.headers.remove(header::CONNECTION);
    parts.headers.remove(header::TRANSFER_ENCODING);
    if !parts.status.is_success() {
        count_failure(&state, &key);
    }
    if request.verb == Verb::Watch && parts.status.is_success() {
        return Ok(Response::from_parts(
            parts,
            watch::body(state, request, key, body),
        ));
    }
    let body = body.collect().await?.to_bytes();
    count(
        &state,
        &key,
        Tally {
            response_bytes: body.len() as u64,
            ..Tally::default()
        },
    );
    if let Some(trap) = trap {
        trap.answered().await;
    }
    match fault {
        Fault::DropAnswer => cut(&state, &key, BY_A_TEST),
        Fault::HangAnswer => pending().await,
        _ => Ok(Response::from_parts(parts, full(body))),
    }
}

/// `None` when the request must not go on; else the trap that wants to know of its answer.
async fn admit(trap: Option<Arc<Trap>>, request: &Request) -> Option<Option<Arc<Trap>>> {
    let Some(trap) = trap else { return Some(None) };
    match trap.admit(request).await {
        Admitted::Pass { counted: true } => Some(Some(trap)),
        Admitted::Pass { counted: false } => Some(None),
        Admitted::Cut => None,
    }
}

fn cut(state: &State, key: &Key, why: impl Into<BoxError>) -> Result<Response<Body>, BoxError> {
    count_failure(state, key);
    Err(why.into())
}

fn status(code: u16, retry_after: Option<u32>) -> Result<Response<Body>, BoxError> {
    let code = StatusCode::from_u16(code)?;
    let body = serde_json::to_vec(&fault::status_body(code))?;
    let mut response = Response::new(full(body.into()));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    if let Some(seconds) = retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    Ok(response)
}

fn expired(verb: Verb) -> Result<Response<Body>, BoxError> {
    if verb != Verb::Watch {
        return status(410, None);
    }
    let event = json!({"type": "ERROR", "object": fault::status_body(StatusCode::GONE)});
    let mut response = Response::new(full(format!("{event}\n").into()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}

fn full(body: Bytes) -> Body {
    Full::new(body)
        .map_err(|never| match never {})
        .boxed_unsync()
}

pub(super) fn count(state: &State, key: &Key, tally: Tally) {
    let mut counts = state
        .counts
        .write()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    counts.add(key, tally);
}

fn count_failure(state: &State, key: &Key) {
    count(
        state,
        key,
        Tally {
            failures: 1,
            ..Tally::default()
        },
    );
}
