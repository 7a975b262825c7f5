//! Accepts requests and forwards them.

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
    ProxyFault, Request, RequestKey, TrafficTotals, Verb, fault,
    state::{BoxError, ProxyState, cloned_value},
    trap::{Trap, TrapDecision},
    watch,
};
use crate::control_plane::ControlPlane;

type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;
type Connector = hyper_rustls::HttpsConnector<HttpConnector>;

/// The message for a cut connection.
const CUT_MESSAGE: &str = "cut by a test";

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

    fn build_client(&self) -> Client<Connector, Full<Bytes>> {
        Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(self.connector.clone())
    }

    /// Returns the same path on the API server.
    fn upstream_uri(&self, path: Option<&PathAndQuery>) -> Result<Uri, BoxError> {
        let mut parts = self.uri.clone().into_parts();
        parts.path_and_query = path.cloned();
        Ok(Uri::from_parts(parts)?)
    }
}

/// Serves connections until the future is dropped.
pub(super) async fn serve_connections(
    listener: TcpListener,
    upstream: Upstream,
    state: Arc<ProxyState>,
) {
    let client = upstream.build_client();
    loop {
        // An accept fails if the process has too many open files. Another connection may end soon.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        tokio::spawn(serve_connection(
            stream,
            client.clone(),
            upstream.clone(),
            Arc::clone(&state),
        ));
    }
}

async fn serve_connection(
    stream: TcpStream,
    client: Client<Connector, Full<Bytes>>,
    upstream: Upstream,
    state: Arc<ProxyState>,
) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        handle_request(
            request,
            client.clone(),
            upstream.clone(),
            Arc::clone(&state),
        )
    });
    // An error means that the client has closed the connection, or that a fault cuts it.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// Handles one request. An error cuts the connection.
async fn handle_request(
    incoming: http::Request<Incoming>,
    client: Client<Connector, Full<Bytes>>,
    upstream: Upstream,
    state: Arc<ProxyState>,
) -> Result<Response<ResponseBody>, BoxError> {
    let (mut parts, body) = incoming.into_parts();
    let body = body.collect().await?.to_bytes();
    let request = Request::new(&parts, body.clone());
    let key = RequestKey::from(&request);
    let received = TrafficTotals {
        requests: 1,
        request_bytes: body.len() as u64,
        ..TrafficTotals::default()
    };
    state.add_traffic(&key, received);

    // Subscribes before the call of the hook, so that no release after the hook's answer is missed.
    let mut released = state.release_signal.subscribe();
    let fault = state.find_fault(&request);
    match fault {
        ProxyFault::Pass | ProxyFault::DropResponse | ProxyFault::HangResponse => {}
        ProxyFault::Delay(time) => tokio::time::sleep(time).await,
        ProxyFault::Hold => drop(released.changed().await),
        ProxyFault::Status(code, retry_after) => {
            state.count_failure(&key);
            return status_response(code, retry_after);
        }
        ProxyFault::ExpireVersion => {
            state.count_failure(&key);
            return expired_response(request.verb);
        }
        ProxyFault::DropRequest => return cut_connection(&state, &key, CUT_MESSAGE),
        ProxyFault::DelayUntilHealed => {
            parts.uri = upstream.upstream_uri(parts.uri.path_and_query())?;
            parts.headers.remove(header::HOST);
            parts.headers.remove(header::CONNECTION);
            let delayed = http::Request::from_parts(parts, Full::new(body));
            tokio::spawn(async move {
                if released.changed().await.is_ok() {
                    // The client's connection is already cut, so the response is dropped.
                    let _ = client.request(delayed).await;
                }
            });
            return cut_connection(&state, &key, CUT_MESSAGE);
        }
        ProxyFault::Hang => pending().await,
    }
    let trap = cloned_value(&state.trap);
    let trap = match ask_trap(trap, &request).await {
        Some(trap) => trap,
        None => return cut_connection(&state, &key, CUT_MESSAGE),
    };

    parts.uri = upstream.upstream_uri(parts.uri.path_and_query())?;
    parts.headers.remove(header::HOST);
    parts.headers.remove(header::CONNECTION);
    if request.verb == Verb::Watch {
        // The proxy can only separate events that are not compressed.
        parts.headers.remove(header::ACCEPT_ENCODING);
    }
    let outgoing = http::Request::from_parts(parts, Full::new(body));
    let answer = match client.request(outgoing).await {
        Ok(answer) => answer,
        // The API server is down, so the client gets a connection error as without the proxy.
        Err(error) => {
            if let Some(trap) = trap {
                trap.note_answer(false).await;
            }
            return cut_connection(&state, &key, error);
        }
    };
    let (mut parts, body) = answer.into_parts();
    parts.headers.remove(header::CONNECTION);
    parts.headers.remove(header::TRANSFER_ENCODING);
    if parts.status.is_success() {
        state.count_success(&key);
    } else {
        state.count_failure(&key);
    }
    if request.verb == Verb::Watch && parts.status.is_success() {
        return Ok(Response::from_parts(
            parts,
            watch::relay_body(state, request, key, body),
        ));
    }
    let body = body.collect().await?.to_bytes();
    state.add_traffic(
        &key,
        TrafficTotals {
            response_bytes: body.len() as u64,
            ..TrafficTotals::default()
        },
    );
    if let Some(trap) = trap {
        trap.note_answer(parts.status.is_success()).await;
    }
    match fault {
        ProxyFault::DropResponse => cut_connection(&state, &key, CUT_MESSAGE),
        ProxyFault::HangResponse => pending().await,
        _ => Ok(Response::from_parts(parts, full_body(body))),
    }
}

/// Asks the trap about a request. None: the request must not pass. Some: the trap that must be
/// notified of the answer, if any.
async fn ask_trap(trap: Option<Arc<Trap>>, request: &Request) -> Option<Option<Arc<Trap>>> {
    let Some(trap) = trap else { return Some(None) };
    match trap.decide_request(request).await {
        TrapDecision::Pass { counted: true } => Some(Some(trap)),
        TrapDecision::Pass { counted: false } => Some(None),
        TrapDecision::Cut => None,
    }
}

fn cut_connection(
    state: &ProxyState,
    key: &RequestKey,
    error: impl Into<BoxError>,
) -> Result<Response<ResponseBody>, BoxError> {
    state.count_failure(key);
    Err(error.into())
}

fn status_response(
    code: u16,
    retry_after: Option<u32>,
) -> Result<Response<ResponseBody>, BoxError> {
    let code = StatusCode::from_u16(code)?;
    let body = serde_json::to_vec(&fault::status_body(code))?;
    let mut response = Response::new(full_body(body.into()));
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

fn expired_response(verb: Verb) -> Result<Response<ResponseBody>, BoxError> {
    if verb != Verb::Watch {
        return status_response(410, None);
    }
    let event = json!({"type": "ERROR", "object": fault::status_body(StatusCode::GONE)});
    let mut response = Response::new(full_body(format!("{event}\n").into()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}

fn full_body(body: Bytes) -> ResponseBody {
    Full::new(body)
        .map_err(|never| match never {})
        .boxed_unsync()
}
