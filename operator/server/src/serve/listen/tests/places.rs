//! Places of connections, tested with connections that are never remade by a client library.

use std::net::Ipv4Addr;

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::serve::Pem;

/// Address for which places are reserved. Other clients have their own addresses, as pods have.
const SERVER: u8 = 1;
const KEPT: usize = 2;
const POD: u8 = 2;
/// More than sockets buffer.
const LARGE: usize = 64 << 20;

fn at(number: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, number).into()
}

/// A server, and what its clients need.
struct Serving {
    address: SocketAddr,
    knows: TlsConnector,
    /// One for each that has asked for `/slow`.
    asked: Arc<Semaphore>,
    /// One for each of them that is answered.
    answers: Arc<Semaphore>,
}

async fn keeping() -> Serving {
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
    identity.take(&pem).unwrap();
    let [asked, answers] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
    let (asks, let_go) = (asked.clone(), answers.clone());
    let slow = get(async move || {
        asks.add_permits(1);
        let_go.acquire().await.unwrap().forget();
        "ok"
    });
    let router = Router::new()
        .route("/", get(async || "ok"))
        .route("/large", get(async || vec![b'x'; LARGE]))
        .route("/slow", slow);
    let kept = Kept {
        places: KEPT,
        of: Arc::new(|shown| shown.address() == at(SERVER)),
    };
    let on = CancellationToken::new();
    let (identity, kept) = (Some(identity), Some(kept));
    tokio::spawn(serve(listener, LIMITS, identity, kept, router, on));
    Serving {
        address,
        knows: TlsConnector::from(Arc::new(knows)),
        asked,
        answers,
    }
}

impl Serving {
    async fn connect(&self, from: u8) -> std::io::Result<Asker> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((at(from), 0).into())?;
        let tcp = socket.connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        Ok(Asker(self.knows.connect(name, tcp).await?))
    }

    /// One that has been answered once. None: it was not.
    async fn idle(&self, from: u8) -> Option<Asker> {
        let mut asker = self.connect(from).await.ok()?;
        (asker.ask().await? == 200).then_some(asker)
    }

    /// One that is being answered, with so many bytes of head.
    async fn busy(&self, from: u8, head: usize) -> Asker {
        let mut asker = self.connect(from).await.unwrap();
        asker.send("/slow", head).await.unwrap();
        let asked = tokio::time::timeout(LIMITS.head, self.asked.acquire()).await;
        asked.expect("it is not served").unwrap().forget();
        asker
    }

    /// All of these are answered after all.
    async fn answered(&self, busy: Vec<Asker>) {
        self.answers.add_permits(busy.len());
        for mut asker in busy {
            assert_eq!(asker.heard().await, Some(200));
        }
    }
}

/// One connection.
struct Asker(TlsStream<TcpStream>);

impl Asker {
    async fn send(&mut self, path: &str, head: usize) -> std::io::Result<()> {
        let padding = "b".repeat(head);
        let head = format!("GET {path} HTTP/1.1\r\nhost: a\r\na: {padding}\r\n\r\n");
        self.0.write_all(head.as_bytes()).await?;
        self.0.flush().await
    }

    async fn ask(&mut self) -> Option<u16> {
        self.send("/", 0).await.ok()?;
        self.heard().await
    }

    /// The code of an answer, once all of it is there.
    async fn heard(&mut self) -> Option<u16> {
        let (code, length) = self.head().await?;
        let mut body = vec![0; length];
        let read = tokio::time::timeout(LIMITS.head, self.0.read_exact(&mut body)).await;
        read.ok()?.ok()?;
        Some(code)
    }

    /// The code, and how long what follows is.
    async fn head(&mut self) -> Option<(u16, usize)> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let read = tokio::time::timeout(LIMITS.head, self.0.read_u8()).await;
            head.push(read.ok()?.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        let length = head.split("content-length: ").nth(1)?;
        let length = length.split_once("\r\n")?.0.parse().unwrap();
        Some((head.split(' ').nth(1)?.parse().unwrap(), length))
    }
}

#[tokio::test]
async fn who_has_places_kept_is_heard_whoever_holds_the_others() {
    let serving = keeping().await;
    let mut pods = Vec::new();
    for pod in POD..POD + u8::try_from(LIMITS.connections).unwrap() {
        pods.push(serving.busy(pod, 0).await);
    }
    // No address holds more than its share, and all connections are busy.
    assert!(serving.idle(100).await.is_none());
    for _ in 0..2 * KEPT {
        assert!(serving.idle(SERVER).await.is_some());
    }
    serving.answered(pods).await;
}

#[tokio::test]
async fn who_has_a_place_that_is_kept_has_no_other_beside_it() {
    let serving = keeping().await;
    let mut kept = Vec::new();
    for _ in 0..KEPT {
        kept.push(serving.idle(SERVER).await.unwrap());
    }
    let mut pod = Vec::new();
    for _ in 0..LIMITS.connections {
        pod.push(serving.busy(POD, 0).await);
    }
    assert!(serving.idle(POD).await.is_none());
    for kept in &mut kept {
        assert_eq!(kept.ask().await, Some(200));
    }
    serving.answered(pod).await;
}

/// With users that are in many groups.
#[tokio::test]
async fn who_has_all_places_that_are_kept_has_the_others_too() {
    let serving = keeping().await;
    let mut busy = Vec::new();
    for _ in 0..KEPT + LIMITS.connections {
        busy.push(serving.busy(SERVER, 2 * LIMITS.head_bytes).await);
    }
    assert!(serving.idle(SERVER).await.is_none());
    serving.answered(busy).await;
}

#[tokio::test]
async fn who_asks_much_takes_nothing_from_another_address() {
    let serving = keeping().await;
    let (busy, mut idle) = (serving.busy(100, 0).await, serving.idle(100).await.unwrap());
    let mut flood = Vec::new();
    for _ in 0..4 * LIMITS.connections {
        flood.push(serving.idle(POD).await.unwrap());
    }
    assert_eq!(idle.ask().await, Some(200));
    serving.answered(vec![busy]).await;
}

#[tokio::test]
async fn an_answer_that_is_being_read_is_not_cut_for_who_comes_after() {
    let serving = keeping().await;
    let mut reads = serving.connect(POD).await.unwrap();
    reads.send("/large", 0).await.unwrap();
    assert_eq!(reads.head().await, Some((200, LARGE)));
    let mut flood = Vec::new();
    for _ in 0..4 * LIMITS.connections {
        flood.push(serving.idle(POD).await.unwrap());
    }
    let mut body = vec![0; LARGE];
    reads.0.read_exact(&mut body).await.unwrap();
    assert!(body.iter().all(|byte| *byte == b'x'));
    assert_eq!(reads.ask().await, Some(200));
}
