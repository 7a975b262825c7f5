//! An attacker who reaches a port of the operator cannot block its intended clients: the API
//! server, readers of metrics, and the kubelet.

use std::net::IpAddr;
use std::time::Duration;

use futures::future::join_all;
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tower::Service as _;
use trellis_e2e::admission::operator_webhook::{self, FailurePolicy};
use trellis_e2e::control_plane::{ControlPlane, free_port};
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::wait::eventually;

use crate::operator_program;
use crate::webhook::operator_kubeconfig;

/// Legitimate clients get a response within this time during any attack. It is the shortest timeout
/// of these clients, the API server's (`timeoutSeconds` of the chart's webhooks).
const RESPONSE_LIMIT: Duration = Duration::from_secs(3);
/// Longest time until responses are in time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest time for which an attacker may hold a connection, with some margin.
const MAX_CONNECTION_TIME: Duration = Duration::from_secs(30);
/// More connections than any port accepts.
const CONNECTION_COUNT: usize = 700;
/// The address of attackers. In a cluster, each pod also has its own address.
const ATTACKER_ADDRESS: [u8; 4] = [127, 0, 0, 2];
/// The address of all clients, if the network hides theirs.
const SHARED_ADDRESS: [u8; 4] = [127, 0, 0, 1];

trait AsyncStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> AsyncStream for T {}

/// One port.
struct AttackedPort {
    name: &'static str,
    address: String,
    is_tls: bool,
}

struct AttackFixture {
    control_plane: ControlPlane,
    ports: [AttackedPort; 3],
    operator: Operator,
}

async fn start_fixture() -> AttackFixture {
    let control_plane = operator::start_control_plane().await.unwrap();
    let port = free_port().unwrap();
    operator_webhook::install(&control_plane, port, FailurePolicy::Fail)
        .await
        .unwrap();
    let launch = operator_webhook::launch_options("operator", port)
        .argument("--listen=127.0.0.1:0")
        .argument("--health=127.0.0.1:0");
    let kubeconfig = operator_kubeconfig(&control_plane).await;
    let operator =
        Operator::launch_with_options(&control_plane, operator_program(), &kubeconfig, &launch)
            .unwrap();
    operator_webhook::wait_until_called(&control_plane)
        .await
        .unwrap();
    let attacked = |name, address, is_tls| AttackedPort {
        name,
        address,
        is_tls,
    };
    let ports = [
        attacked("webhook", format!("127.0.0.1:{port}"), true),
        attacked(
            "endpoint",
            operator.wait_for_endpoint().await.unwrap(),
            true,
        ),
        attacked(
            "health",
            operator.wait_for_health_address().await.unwrap(),
            false,
        ),
    ];
    AttackFixture {
        control_plane,
        ports,
        operator,
    }
}

impl AttackedPort {
    fn tls_config(&self) -> Config {
        let scheme = if self.is_tls { "https" } else { "http" };
        let server = format!("{scheme}://{}", self.address);
        let mut config = Config::new(server.parse().unwrap());
        config.accept_invalid_certs = true;
        config.default_retry = false;
        config
    }

    /// Opens a connection and completes its handshake.
    async fn connect(&self, from: [u8; 4]) -> anyhow::Result<Box<dyn AsyncStream>> {
        let config = self.tls_config();
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_local_address(Some(IpAddr::from(from)));
        let mut connector = config.rustls_https_connector_with_connector(connector)?;
        let uri: Uri = config.cluster_url;
        let stream = connector
            .call(uri)
            .await
            .map_err(anyhow::Error::from_boxed)?;
        Ok(Box::new(TokioIo::new(stream)))
    }

    /// Opens a connection that has received no data yet.
    async fn open(&self, from: [u8; 4]) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((from, 0).into())?;
        socket.connect(self.address.parse().unwrap()).await
    }

    /// Returns the status code of a request with a token, over a new connection.
    async fn get_status(&self, path: &str, token: Option<&str>) -> anyhow::Result<u16> {
        let mut config = self.tls_config();
        config.auth_info.token = token.map(|token| token.to_owned().into());
        let client = Client::try_from(config)?;
        let request = http::Request::get(path).body(Body::empty())?;
        let answer = tokio::time::timeout(MAX_CONNECTION_TIME, client.send(request)).await??;
        Ok(answer.status().as_u16())
    }
}

/// Sends `bytes` repeatedly. Returns the data that the server sends until it closes the connection.
async fn send_and_read(mut stream: impl AsyncStream, bytes: &[u8], times: usize) -> String {
    let mut received = Vec::new();
    let exchange = async {
        for _ in 0..times {
            // The server may close the connection during this time.
            if stream.write_all(bytes).await.is_err() {
                break;
            }
        }
        let _ = stream.flush().await;
        let _ = stream.read_to_end(&mut received).await;
    };
    let ended = tokio::time::timeout(MAX_CONNECTION_TIME, exchange).await;
    assert!(
        ended.is_ok(),
        "the server does not close the connection: {:?}",
        &received
    );
    String::from_utf8_lossy(&received).into_owned()
}

impl AttackFixture {
    /// Checks that each port answers its intended clients in time.
    async fn check_answers_in_time(&self, what: &str) {
        let [webhook, endpoint, health] = &self.ports;
        let token = Some(self.control_plane.admin_token());
        for (port, path) in [
            (webhook, "/metrics"),
            (webhook, "/readyz"),
            (endpoint, "/metrics"),
            (health, "/readyz"),
            (health, "/livez"),
        ] {
            // A client with the address of a flood may lose its connection, and connects again.
            let answer = eventually(PATIENCE, || async {
                tokio::time::timeout(RESPONSE_LIMIT, port.get_status(path, token)).await?
            });
            let code = answer
                .await
                .unwrap_or_else(|error| panic!("{what}: {} {path}: {error:#}", port.name));
            assert_eq!(code, 200, "{what}: {} {path}", port.name);
        }
        // The API server itself is also answered in time.
        let answered = eventually(PATIENCE, || async {
            tokio::time::timeout(
                RESPONSE_LIMIT,
                operator_webhook::wait_until_called(&self.control_plane),
            )
            .await?
        });
        answered
            .await
            .unwrap_or_else(|error| panic!("{what}: {error:#}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_and_oversized_requests_are_refused_on_each_port() {
    let stage = start_fixture().await;
    let line = |line: &str| format!("{line}\r\nhost: a\r\n").into_bytes();
    let head = [
        line("GET /metrics HTTP/1.1"),
        b"a: ".to_vec(),
        vec![b'b'; 1 << 20],
    ]
    .concat();
    let lines = [
        line("GET /metrics HTTP/1.1"),
        b"a: b\r\n".repeat(5000),
        b"\r\n".to_vec(),
    ]
    .concat();
    let unframed = [
        line("POST /validate HTTP/1.1"),
        b"transfer-encoding: chunked\r\n\r\nzz\r\n".to_vec(),
    ];
    let cases: [(&str, Vec<u8>, usize, &[&str]); 6] = [
        ("a head of a megabyte", head, 1, &["431", ""]),
        ("a head of five thousand lines", lines, 1, &["431", ""]),
        ("bytes", vec![0xff; 4096], 1, &["400"]),
        (
            "no method",
            b"\r\n\r\nMEND / \r\n\r\n".to_vec(),
            1,
            &["400"],
        ),
        (
            "two lengths",
            b"GET /readyz HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n".to_vec(),
            1,
            &["400"],
        ),
        (
            "chunks that are none",
            unframed.concat(),
            1,
            &["400", "404", "401", "405"],
        ),
    ];
    for port in &stage.ports {
        for (what, bytes, times, codes) in &cases {
            let stream = port.connect(ATTACKER_ADDRESS).await.unwrap();
            let received = send_and_read(stream, bytes, *times).await;
            let code = received
                .strip_prefix("HTTP/1.1 ")
                .map_or("", |received| &received[..3]);
            assert!(codes.contains(&code), "{} {what}: {received:?}", port.name);
        }
        // Sends a hundred megabytes, with and without a Content-Length.
        for length in [
            "content-length: 104857600\r\n\r\n",
            "transfer-encoding: chunked\r\n\r\n100000\r\n",
        ] {
            for path in [
                "/validate",
                "/metrics",
                "/apis/visibility.trellis.dev/v1alpha1/x",
            ] {
                let mut stream = port.connect(ATTACKER_ADDRESS).await.unwrap();
                let head = [line(&format!("POST {path} HTTP/1.1")), length.into()].concat();
                stream.write_all(&head).await.unwrap();
                let received = send_and_read(stream, &vec![b' '; 1 << 20], 100).await;
                assert!(
                    !received.starts_with("HTTP/1.1 2"),
                    "{} {path}: {received:?}",
                    port.name
                );
            }
        }
        if port.is_tls {
            for bytes in [
                &b"GET / HTTP/1.1\r\n\r\n"[..],
                &[0x16, 3, 1, 0xff, 0xff],
                &[0; 1 << 16],
            ] {
                let stream = port.open(ATTACKER_ADDRESS).await.unwrap();
                let received = send_and_read(stream, bytes, 1).await;
                assert!(
                    !received.contains("HTTP/1.1 2"),
                    "{}: {received:?}",
                    port.name
                );
            }
        }
        stage.check_answers_in_time(port.name).await;
    }
    // The operator has not read the body into memory.
    let resident = stage.operator.resident_bytes().unwrap();
    assert!(resident < f64::from(300 << 20), "{resident}");
}

/// Opens connections repeatedly that send no data, or an endless head.
fn hold_silent_connections(
    port: &AttackedPort,
    from: [u8; 4],
    bytes: &'static [u8],
) -> JoinHandle<()> {
    let port = AttackedPort {
        name: port.name,
        address: port.address.clone(),
        is_tls: port.is_tls,
    };
    tokio::spawn(async move {
        let mut connections = std::collections::VecDeque::new();
        loop {
            // Opens all allowed connections, and then further ones one after the other.
            let opened = join_all((0..20).map(|_| port.open(from))).await;
            for mut stream in opened.into_iter().flatten() {
                let _ = stream.write_all(bytes).await;
                connections.push_back(stream);
            }
            while connections.len() > CONNECTION_COUNT {
                connections.pop_front();
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_do_not_block_other_clients() {
    let stage = start_fixture().await;
    for (from, bytes) in [
        (ATTACKER_ADDRESS, &b""[..]),
        (ATTACKER_ADDRESS, b"GET /metrics HTTP/1.1\r\na: b\r\n"),
        (SHARED_ADDRESS, b""),
    ] {
        let floods: Vec<_> = stage
            .ports
            .iter()
            .map(|port| hold_silent_connections(port, from, bytes))
            .collect();
        // Waits until the attackers have all connections that they can get.
        tokio::time::sleep(Duration::from_secs(3)).await;
        for _ in 0..5 {
            stage
                .check_answers_in_time(&format!("{from:?} {bytes:?}"))
                .await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        for flood in floods {
            assert!(!flood.is_finished());
            flood.abort();
        }
    }
}
