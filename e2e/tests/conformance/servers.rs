//! The two servers.

use std::time::Duration;

use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use trellis_api_server::{ApiServer, Kind, Response, User, WatchPoll};

use crate::script::Step;

/// Kinds that the admission plugins of kube-apiserver read through a watch.
const WATCHED_BY_ADMISSION: [&str; 3] = ["resourcequotas", "limitranges", "priorityclasses"];
/// Time until that watch has shown a write.
const ADMISSION_DELAY: Duration = Duration::from_secs(1);

/// Code and body of an answer. The body of a watch is the list of its events.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

pub(crate) trait Server {
    async fn send(&mut self, step: &Step) -> Answer;
}

fn build_request<B>(step: &Step, body: impl FnOnce(Vec<u8>) -> B) -> Request<B> {
    let bytes = match &step.body {
        Value::Null => Vec::new(),
        Value::String(text) => text.clone().into_bytes(),
        value => value.to_string().into_bytes(),
    };
    let accept = step.accept.as_deref().unwrap_or("application/json");
    let request = Request::builder()
        .method(step.method())
        .uri(step.path())
        .header("content-type", step.content_type())
        .header("accept", accept)
        // Each event of a compressed watch is a gzip member of its own, and the client decodes only the
        // first one. `Client::request_events` sends this header, too.
        .header("accept-encoding", "identity")
        .header("user-agent", "conformance/1");
    request.body(body(bytes)).expect("a valid request")
}

fn parse_lines(text: &[u8]) -> Value {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_str::<Value>(line).expect("an event is JSON"))
        .collect()
}

fn parse_body(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|_| json!({"text": String::from_utf8_lossy(text)}))
}

/// A real kube-apiserver.
pub(crate) struct RealServer {
    client: Client,
}

impl RealServer {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }
}

impl Server for RealServer {
    async fn send(&mut self, step: &Step) -> Answer {
        let request = build_request(step, Body::from);
        let response = self.client.send(request).await.expect("the server answers");
        let code = response.status().as_u16();
        let text = response
            .into_body()
            .collect()
            .await
            .unwrap_or_else(|error| panic!("{step}: {error}"))
            .to_bytes();
        let body = match step.is_watch() && code == 200 {
            true => parse_lines(&text),
            false => parse_body(&text),
        };
        let mut watched = WATCHED_BY_ADMISSION.iter();
        if step.method() != "GET" && watched.any(|kind| step.path().contains(kind)) {
            tokio::time::sleep(ADMISSION_DELAY).await;
        }
        Answer { code, body }
    }
}

/// The server of `trellis-api-server`.
pub(crate) struct SimulatedServer {
    server: ApiServer,
    user: User,
}

impl SimulatedServer {
    pub(crate) fn new(crd: &str) -> Self {
        let crd: Value = serde_saphyr::from_str(crd).expect("a CRD is YAML");
        let mut server = ApiServer::new(Kind::with_crds([crd]).expect("a valid CRD"));
        server.require_service_accounts();
        let user = User {
            name: "admin".to_owned(),
            ..User::default()
        };
        let mut simulated = Self { server, user };
        // A real server creates it at its start.
        let default = json!({"metadata": {"name": "default"}});
        let default = Step::post("/api/v1/namespaces", default);
        let answer = simulated.answer(&default);
        assert_eq!(answer.code, 201, "{}", answer.body);
        simulated
    }
}

impl Server for SimulatedServer {
    async fn send(&mut self, step: &Step) -> Answer {
        self.answer(step)
    }
}

impl SimulatedServer {
    fn answer(&mut self, step: &Step) -> Answer {
        let request = build_request(step, Bytes::from);
        let now = jiff::Timestamp::now();
        let mut watch = match self.server.handle(&self.user, &request, now) {
            Response::Answer(answer) => {
                return Answer {
                    code: answer.status().as_u16(),
                    body: parse_body(answer.body()),
                };
            }
            Response::Watch(watch) => watch,
        };
        let mut text = Vec::new();
        while let WatchPoll::Event(frame) = self.server.poll_watch(&mut watch, now) {
            text.extend_from_slice(&frame.line);
        }
        Answer {
            code: 200,
            body: parse_lines(&text),
        }
    }
}
