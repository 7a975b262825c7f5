//! Terms of leaders at an API server that keeps one LeaderTerm.

use std::sync::Arc;

use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Router, http};
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::leader::transitions_of;

const TERMS: &str = "/apis/trellis.dev/v1alpha1/namespaces/ns/leaderterms";

/// The state of the API server.
#[derive(Default)]
struct Server {
    term: Option<Value>,
    version: u64,
    has_kind: bool,
    /// Pod in the token of each client.
    pod: Option<(&'static str, &'static str)>,
    /// A term that another replica writes before the next write.
    rival: Option<Value>,
}

type Shared = Arc<Mutex<Server>>;

fn failure(code: StatusCode) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": code.canonical_reason().unwrap_or_default().replace(' ', ""), "message": "test", "code": code.as_u16(),
    });
    (code, Json(status)).into_response()
}

impl Server {
    fn store(&mut self, mut term: Value) -> Response {
        self.version = self.version.saturating_add(1);
        term["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.term = Some(term.clone());
        Json(term).into_response()
    }

    fn let_rival_write(&mut self) {
        if let Some(rival) = self.rival.take() {
            let _ = self.store(rival);
        }
    }

    fn epoch(&self) -> Option<i64> {
        self.term.as_ref()?["spec"]["epoch"].as_i64()
    }
}

async fn read_term(State(server): State<Shared>) -> Response {
    let server = server.lock();
    if !server.has_kind {
        return (StatusCode::NOT_FOUND, "404 page not found\n").into_response();
    }
    match &server.term {
        Some(term) => Json(term.clone()).into_response(),
        None => failure(StatusCode::NOT_FOUND),
    }
}

async fn create_term(State(server): State<Shared>, Json(term): Json<Value>) -> Response {
    let mut server = server.lock();
    server.let_rival_write();
    match &server.term {
        Some(_) => failure(StatusCode::CONFLICT),
        None => server.store(term),
    }
}

async fn replace_term(State(server): State<Shared>, Json(term): Json<Value>) -> Response {
    let mut server = server.lock();
    server.let_rival_write();
    if term["metadata"]["resourceVersion"] != json!(server.version.to_string()) {
        return failure(StatusCode::CONFLICT);
    }
    server.store(term)
}

async fn review(State(server): State<Shared>) -> Response {
    let extra = server.lock().pod.map(|(name, uid)| {
        json!({
            "authentication.kubernetes.io/pod-name": [name],
            "authentication.kubernetes.io/pod-uid": [uid],
        })
    });
    let review = json!({
        "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {}, "status": {"userInfo": {"username": "u", "extra": extra}},
    });
    (http::StatusCode::CREATED, Json(review)).into_response()
}

async fn start_server(server: Server) -> (Shared, Client) {
    let server = Arc::new(Mutex::new(server));
    let router = Router::new()
        .route(TERMS, post(create_term))
        .route(
            &format!("{TERMS}/trellis-operator"),
            get(read_term).put(replace_term),
        )
        .route(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            post(review),
        )
        .with_state(server.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    (server, Client::try_from(config).unwrap())
}

fn term(epoch: i64, identity: &str) -> Value {
    let spec = LeaderTermSpec {
        epoch,
        identity: identity.to_owned(),
        pod: None,
        since: Time(Timestamp::UNIX_EPOCH),
    };
    json!(LeaderTerm::new(LEADER_TERM_NAME, spec))
}

fn stored(server: &Shared) -> LeaderTermSpec {
    let term = server.lock().term.clone().unwrap();
    serde_json::from_value::<LeaderTerm>(term).unwrap().spec
}

/// Returns a server that has the kind and stores this term.
async fn server_with(term: Option<Value>) -> (Shared, Client) {
    let version = u64::from(term.is_some());
    let term = term.map(|mut term| {
        term["metadata"]["resourceVersion"] = json!("1");
        term
    });
    start_server(Server {
        term,
        version,
        has_kind: true,
        pod: Some(("p", "u")),
        ..Server::default()
    })
    .await
}

/// Raises the epoch in the Lease as often as the leader asks for it.
async fn renew(leadership: Leadership) {
    let mut wanted = leadership.wanted_epoch.subscribe();
    while wanted.changed().await.is_ok() {
        let epoch = *wanted.borrow_and_update();
        leadership.record_transitions(transitions_of(epoch).unwrap());
    }
}

fn writer(client: Client, leadership: &Leadership) -> TermWriter {
    TermWriter::new(client, "ns", "me".to_owned(), leadership.clone())
}

#[tokio::test]
async fn new_leader_writes_its_epoch_and_its_pod_once() {
    for before in [None, Some(term(0, "other"))] {
        let (server, client) = server_with(before).await;
        let leadership = Leadership::for_test();
        let mut writer = writer(client, &leadership);
        writer.begin().await.unwrap();
        let spec = stored(&server);
        assert_eq!((spec.epoch, spec.identity.as_str()), (1, "me"));
        let pod = spec.pod.unwrap();
        assert_eq!((pod.name.as_str(), pod.uid.as_str()), ("p", "u"));
        let version = server.lock().version;
        writer.begin().await.unwrap();
        assert_eq!(server.lock().version, version, "the term is stored already");
    }
}

#[tokio::test]
async fn term_of_a_token_without_a_pod_names_no_pod() {
    let (server, client) = server_with(None).await;
    server.lock().pod = None;
    let leadership = Leadership::for_test();
    writer(client, &leadership).begin().await.unwrap();
    assert_eq!(stored(&server).pod, None);
}

/// A term of the same epoch belongs to the leader of a Lease that was deleted.
#[tokio::test]
async fn leader_raises_its_epoch_above_the_stored_term() {
    for epoch in [1, 7] {
        let (server, client) = server_with(Some(term(epoch, "other"))).await;
        let leadership = Leadership::for_test();
        let renewal = tokio::spawn(renew(leadership.clone()));
        tokio::task::yield_now().await;
        writer(client, &leadership).begin().await.unwrap();
        assert_eq!(stored(&server).epoch, epoch + 1);
        assert_eq!(leadership.check(), Ok(Epoch(epoch + 1)));
        renewal.abort();
    }
}

/// Another replica has taken the Lease, so the epoch in the Lease cannot be raised.
#[tokio::test]
async fn replica_with_a_lower_epoch_does_not_write_its_term() {
    let (server, client) = server_with(Some(term(0, "earlier"))).await;
    server.lock().rival = Some(term(2, "newer"));
    let leadership = Leadership::with_remaining(Duration::from_millis(500));
    let mut writer = writer(client, &leadership);
    let begun = writer.begin();
    let begun = tokio::time::timeout(Duration::from_secs(2), begun).await;
    assert!(begun.is_err() || begun == Ok(Err(NotLeading)), "{begun:?}");
    assert_eq!(stored(&server).identity, "newer");
}

#[tokio::test]
async fn leader_goes_on_without_the_kind_and_writes_its_term_later() {
    let (server, client) = start_server(Server::default()).await;
    let leadership = Leadership::for_test();
    let mut writer = writer(client, &leadership);
    writer.begin().await.unwrap();
    assert!(server.lock().term.is_none());
    server.lock().has_kind = true;
    writer.begin().await.unwrap();
    assert_eq!(stored(&server).epoch, 1);
}

#[tokio::test]
async fn term_follows_the_epoch_of_the_leader() {
    let (server, client) = server_with(None).await;
    let leadership = Leadership::for_test();
    let mut writer = writer(client, &leadership);
    writer.begin().await.unwrap();
    let maintained = tokio::spawn(writer.maintain());
    leadership.record_transitions(8);
    while server.lock().epoch() != Some(9) {
        assert!(!maintained.is_finished());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    maintained.abort();
}
