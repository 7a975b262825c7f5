//! Places of connections. The test connections never reconnect, unlike those of a client library.

use std::net::Ipv4Addr;

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::serve::Pem;

/// Address for which places are reserved. Other clients have their own addresses, like pods.
const SERVER: u8 = 1;
const RESERVED: usize = 2;
const POD: u8 = 2;
/// Bytes of an answer that sockets cannot buffer.
const LARGE: usize = 64 << 20;

fn at(number: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, number).into()
}

/// A server, and the state of its clients.
struct ServerFixture {
    address: SocketAddr,
    tls_connector: TlsConnector,
    /// A permit for each request of `/slow`.
    slow_requests: Arc<Semaphore>,
    /// A permit for each answer to `/slow`.
    answers: Arc<Semaphore>,
}

async fn start_server_with_reserved_places() -> ServerFixture {
    let listener = bind("127.0.0.1:0".parse().unwrap(), "a test").await;
    let address = listener.local_addr().unwrap();
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(own.cert.der().clone()).unwrap();
    let knows = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let identity = Identity::default();
    let pem = Pem {
        certificate: own.cert.pem().into_bytes(),
        key: own.signing_key.serialize_pem().into_bytes(),
    };
    identity.use_certificate(&pem).unwrap();
    let [arrived, answers] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
    let (arrivals, releases) = (arrived.clone(), answers.clone());
    let slow = get(async move || {
        arrivals.add_permits(1);
        releases.acquire().await.unwrap().forget();
        "ok"
    });
    let router = Router::new()
        .route("/", get(async || "ok"))
        .route("/large", get(async || vec![b'x'; LARGE]))
        .route("/slow", slow);
    let reserved = ReservedPlaces {
        count: RESERVED,
        is_for: Arc::new(|shown| shown.address() == at(SERVER)),
    };
    let on = CancellationToken::new();
    let (identity, reserved) = (Some(identity), Some(reserved));
    tokio::spawn(serve(listener, LIMITS, identity, reserved, router, on));
    ServerFixture {
        address,
        tls_connector: TlsConnector::from(Arc::new(knows)),
        slow_requests: arrived,
        answers,
    }
}

impl ServerFixture {
    async fn connect(&self, from: u8) -> std::io::Result<TestConnection> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((at(from), 0).into())?;
        let tcp = socket.connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        Ok(TestConnection(self.tls_connector.connect(name, tcp).await?))
    }

    /// Opens a connection that gets one answer. None: it got no answer.
    async fn connect_idle(&self, from: u8) -> Option<TestConnection> {
        let mut asker = self.connect(from).await.ok()?;
        (asker.get().await? == 200).then_some(asker)
    }

    /// Opens a connection with a running request whose head has this many bytes.
    async fn connect_busy(&self, from: u8, head: usize) -> TestConnection {
        let mut asker = self.connect(from).await.unwrap();
        asker.send("/slow", head).await.unwrap();
        let arrived = tokio::time::timeout(LIMITS.head_timeout, self.slow_requests.acquire()).await;
        arrived.expect("it is not served").unwrap().forget();
        asker
    }

    /// Checks that each of these connections gets its answer in the end.
    async fn answer_all(&self, busy: Vec<TestConnection>) {
        self.answers.add_permits(busy.len());
        for mut asker in busy {
            assert_eq!(asker.read_answer().await, Some(200));
        }
    }
}

/// One connection.
struct TestConnection(TlsStream<TcpStream>);

impl TestConnection {
    async fn send(&mut self, path: &str, head: usize) -> std::io::Result<()> {
        let padding = "b".repeat(head);
        let head = format!("GET {path} HTTP/1.1\r\nhost: a\r\na: {padding}\r\n\r\n");
        self.0.write_all(head.as_bytes()).await?;
        self.0.flush().await
    }

    async fn get(&mut self) -> Option<u16> {
        self.send("/", 0).await.ok()?;
        self.read_answer().await
    }

    /// Reads a whole answer. Returns its status code.
    async fn read_answer(&mut self) -> Option<u16> {
        let (code, length) = self.read_head().await?;
        let mut body = vec![0; length];
        let read = tokio::time::timeout(LIMITS.head_timeout, self.0.read_exact(&mut body)).await;
        read.ok()?.ok()?;
        Some(code)
    }

    /// Reads the head of an answer. Returns the status code and the length of the body.
    async fn read_head(&mut self) -> Option<(u16, usize)> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let read = tokio::time::timeout(LIMITS.head_timeout, self.0.read_u8()).await;
            head.push(read.ok()?.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        let length = head.split("content-length: ").nth(1)?;
        let length = length.split_once("\r\n")?.0.parse().unwrap();
        Some((head.split(' ').nth(1)?.parse().unwrap(), length))
    }
}

#[tokio::test]
async fn client_with_reserved_places_is_served_when_the_rest_are_taken() {
    let serving = start_server_with_reserved_places().await;
    let mut pods = Vec::new();
    for pod in POD..POD + u8::try_from(LIMITS.connections).unwrap() {
        pods.push(serving.connect_busy(pod, 0).await);
    }
    // No address holds more than its share, and all connections are busy.
    assert!(serving.connect_idle(100).await.is_none());
    for _ in 0..2 * RESERVED {
        assert!(serving.connect_idle(SERVER).await.is_some());
    }
    serving.answer_all(pods).await;
}

#[tokio::test]
async fn client_on_reserved_places_takes_no_common_place() {
    let serving = start_server_with_reserved_places().await;
    let mut reserved = Vec::new();
    for _ in 0..RESERVED {
        reserved.push(serving.connect_idle(SERVER).await.unwrap());
    }
    let mut pod = Vec::new();
    for _ in 0..LIMITS.connections {
        pod.push(serving.connect_busy(POD, 0).await);
    }
    assert!(serving.connect_idle(POD).await.is_none());
    for reserved in &mut reserved {
        assert_eq!(reserved.get().await, Some(200));
    }
    serving.answer_all(pod).await;
}

/// The requests name users that are in many groups.
#[tokio::test]
async fn client_with_full_reserved_places_takes_common_places() {
    let serving = start_server_with_reserved_places().await;
    let mut busy = Vec::new();
    for _ in 0..RESERVED + LIMITS.connections {
        busy.push(serving.connect_busy(SERVER, 2 * LIMITS.head_bytes).await);
    }
    assert!(serving.connect_idle(SERVER).await.is_none());
    serving.answer_all(busy).await;
}

#[tokio::test]
async fn flooding_address_does_not_evict_another_address() {
    let serving = start_server_with_reserved_places().await;
    let (busy, mut idle) = (
        serving.connect_busy(100, 0).await,
        serving.connect_idle(100).await.unwrap(),
    );
    let mut flood = Vec::new();
    for _ in 0..4 * LIMITS.connections {
        flood.push(serving.connect_idle(POD).await.unwrap());
    }
    assert_eq!(idle.get().await, Some(200));
    serving.answer_all(vec![busy]).await;
}

#[tokio::test]
async fn slowly_read_answer_is_not_cut_by_new_connections() {
    let serving = start_server_with_reserved_places().await;
    let mut reads = serving.connect(POD).await.unwrap();
    reads.send("/large", 0).await.unwrap();
    assert_eq!(reads.read_head().await, Some((200, LARGE)));
    let mut flood = Vec::new();
    for _ in 0..4 * LIMITS.connections {
        flood.push(serving.connect_idle(POD).await.unwrap());
    }
    let mut body = vec![0; LARGE];
    reads.0.read_exact(&mut body).await.unwrap();
    assert!(body.iter().all(|byte| *byte == b'x'));
    assert_eq!(reads.get().await, Some(200));
}
