//! A test server, and how it treats connections.

use axum::routing::get;
use http::Request;
use kube::client::Body;
use kube::{Client, Config};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::*;
use crate::serve::{CertificateSource, ReloadingCertificate};

mod connection_limit;

const SLOW: Duration = Duration::from_millis(500);
const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 4,
    head_bytes: 64 << 10,
    head_timeout: Duration::from_secs(5),
    max_age: Duration::from_secs(60),
    shutdown_timeout: Duration::from_secs(5),
};

fn client(address: SocketAddr) -> Client {
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

async fn get_root(client: &Client) -> Option<u16> {
    let request = Request::get("/").body(Body::empty()).unwrap();
    let answer = client.send(request).await.ok()?;
    Some(answer.status().as_u16())
}

/// Starts a server whose answers take a while. Returns its address, the token that stops it, and
/// its task.
async fn start_server(
    limits: ConnectionLimits,
) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
    let listener = bind("127.0.0.1:0".parse().unwrap(), "a test").await;
    let address = listener.local_addr().unwrap();
    let own = CertificateSource::SelfSigned(vec!["localhost".to_owned()]);
    let identity = ReloadingCertificate::new(own).unwrap().identity();
    let router = Router::new().route(
        "/",
        get(async || {
            tokio::time::sleep(SLOW).await;
            "ok"
        }),
    );
    let stop = CancellationToken::new();
    let served = tokio::spawn(serve(
        listener,
        limits,
        Some(identity),
        None,
        router,
        stop.clone(),
    ));
    (address, stop, served)
}

#[tokio::test]
async fn running_request_is_answered_after_the_stop() {
    let (address, stop, served) = start_server(LIMITS).await;
    let client = client(address);
    assert_eq!(get_root(&client).await, Some(200));
    let running_request = tokio::spawn(async move { (get_root(&client).await, client) });
    tokio::time::sleep(SLOW / 2).await;
    stop.cancel();
    let (answered, client) = running_request.await.unwrap();
    assert_eq!(answered, Some(200));
    served.await.unwrap();
    assert_eq!(get_root(&client).await, None, "nobody is there");
}

#[tokio::test]
async fn expired_connection_answers_its_running_request() {
    let (address, _stop, _served) = start_server(ConnectionLimits {
        max_age: SLOW / 2,
        ..LIMITS
    })
    .await;
    let client = client(address);
    for _ in 0..3 {
        assert_eq!(get_root(&client).await, Some(200));
    }
}

#[tokio::test]
async fn request_of_a_user_in_many_groups_is_answered() {
    let (address, _stop, _served) = start_server(LIMITS).await;
    let mut request = Request::get("/");
    for group in 0..1_000 {
        request = request.header("x-remote-group", format!("team-{group}"));
    }
    let request = request.body(Body::empty()).unwrap();
    let answer = client(address).send(request).await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
}

/// Sends these bytes on a connection. Returns the time until the server closes it, and the received
/// bytes.
async fn time_until_closed(address: SocketAddr, says: &[u8]) -> (Duration, Vec<u8>) {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let began = Instant::now();
    let _ = connection.write_all(says).await;
    let mut answer = Vec::new();
    let end = tokio::time::timeout(LIMITS.head_timeout, connection.read_to_end(&mut answer));
    // A client that is cut off while it sends may get an error.
    let _ = end.await.unwrap();
    (began.elapsed(), answer)
}

#[tokio::test]
async fn silent_connection_is_closed_after_the_head_timeout() {
    let (address, _stop, _served) = start_server(ConnectionLimits {
        head_timeout: SLOW,
        ..LIMITS
    })
    .await;
    for says in ["", "\u{16}\u{3}\u{1}"] {
        let (after, _) = time_until_closed(address, says.as_bytes()).await;
        assert!(after >= SLOW, "{says:?}: {after:?}");
    }
    let (after, _) = time_until_closed(address, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(after < SLOW, "it is no TLS: {after:?}");
}

/// A head that is too large, lines that are no headers, and a line that does not end.
#[tokio::test]
async fn malformed_request_is_refused_and_its_connection_closed() {
    let listener = bind("127.0.0.1:0".parse().unwrap(), "a test").await;
    let address = listener.local_addr().unwrap();
    let limits = ConnectionLimits {
        head_timeout: SLOW,
        head_bytes: 8 << 10,
        ..LIMITS
    };
    let router = Router::new().route("/", get(async || "ok"));
    let on = CancellationToken::new();
    tokio::spawn(serve(listener, limits, None, None, router, on));
    let large = format!("GET / HTTP/1.1\r\na: {}\r\n", "b".repeat(9 << 10));
    let many = format!(
        "GET / HTTP/1.1\r\n{}\r\n",
        "a:b\r\n".repeat(MAX_HEADERS + 1)
    );
    let huge = format!("POST /a HTTP/1.1\r\ncontent-length: {}\r\n\r\n", 100 << 20);
    let huge = [huge.into_bytes(), vec![b'x'; 1 << 20]].concat();
    for (says, code) in [
        (large.into_bytes(), "431"),
        (many.into_bytes(), "431"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n".to_vec(), "400"),
        (b"MEND\r\n\r\n".to_vec(), "400"),
        (
            b"GET / HTTP/1.1\r\ncontent-length: -1\r\n\r\n".to_vec(),
            "400",
        ),
        (b"GET / HTTP/1.1\r\nhost: a\r\n".to_vec(), ""),
    ] {
        let (after, answer) = time_until_closed(address, &says).await;
        let answer = String::from_utf8(answer).unwrap();
        let says = String::from_utf8_lossy(&says[..says.len().min(80)]);
        let status_line = answer.strip_prefix("HTTP/1.1 ").unwrap_or_default();
        assert!(status_line.starts_with(code), "{says:?}: {answer:?}");
        assert!(!status_line.starts_with('2'), "{says:?}: {answer:?}");
        assert!(after < LIMITS.head_timeout / 2, "{says:?}: {after:?}");
    }
    // A request that is never read is rejected, too.
    let (_, answer) = time_until_closed(address, &huge).await;
    assert!(!answer.starts_with(b"HTTP/1.1 2"), "{answer:?}");
}

#[tokio::test]
async fn silent_connection_is_evicted_for_a_new_connection() {
    let (address, _stop, _served) = start_server(LIMITS).await;
    let mut silent = Vec::new();
    for _ in 0..4 * LIMITS.connections {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let began = Instant::now();
    assert_eq!(get_root(&client(address)).await, Some(200));
    assert!(
        began.elapsed() < LIMITS.head_timeout / 2,
        "{:?}",
        began.elapsed()
    );
    // An answered connection that stays silent does not keep its place either.
    let idle: Vec<_> = (0..2 * LIMITS.connections)
        .map(|_| client(address))
        .collect();
    for idle in &idle {
        assert_eq!(get_root(idle).await, Some(200));
    }
}
