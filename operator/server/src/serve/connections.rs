//! Connections, limited in number and duration. A client that can reach the port must not use up
//! the resources that the leader needs for its own work.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use axum::Router;
use axum::body::{Body, Bytes};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info, warn};

use super::connection_limit::{BusyGuard, ConnectionPlace, ConnectionPlaces, ReservedPlaces};
use super::{ClientCertificates, Identity};

/// Most headers of a request. The API server sends one header for each group of a user, and some
/// users are in hundreds of groups.
const MAX_HEADERS: usize = 4096;

/// Largest request head on a reserved place. It must hold the names of many groups.
const RESERVED_HEAD_BYTES: usize = 400 << 10;

/// Why a connection is closed early.
const EVICTED: &str = "another connection has its place";

/// Why a connection is not served.
const NO_PLACE: &str = "a connection has no place: its address holds too many";

/// Pause after a failed accept.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Pause after a failed bind.
const BIND_RETRY_PAUSE: Duration = Duration::from_secs(10);

/// Binds the address, retrying until it succeeds. Logs it as the address of `what`.
pub async fn bind(address: SocketAddr, what: &str) -> TcpListener {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                let address = listener.local_addr().unwrap_or(address);
                info!(%address, "{what} listens");
                return listener;
            }
            Err(error) => error!(%address, %error, "{what} does not listen"),
        }
        tokio::time::sleep(BIND_RETRY_PAUSE).await;
    }
}

/// Limits of connections: number, size and duration.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Most connections at once. When all places are taken, a new connection takes the place of an
    /// old one (`connection_limit`).
    pub connections: usize,
    /// Largest request head, which the server has to buffer.
    pub head_bytes: usize,
    /// Longest wait for the head of a request, the first or the next.
    pub head_timeout: Duration,
    /// Lifetime of a connection. After it, the server reads no further request, and the client
    /// reconnects.
    pub max_age: Duration,
    /// Longest time for the last request of a connection after its lifetime.
    pub shutdown_timeout: Duration,
}

/// Marks an answer whose body may last for this long: the connection stays open after its lifetime
/// until the answer has ended.
#[derive(Clone, Copy, Debug)]
pub struct LongAnswer(pub Duration);

/// Serves connections until `stop` is cancelled. Then it accepts no more connections, and running
/// requests get a limited time to finish. Uses TLS with an identity, otherwise plain HTTP for
/// public content.
pub async fn serve(
    listener: TcpListener,
    limits: ConnectionLimits,
    identity: Option<Identity>,
    reserved: Option<ReservedPlaces>,
    router: Router,
    stop: CancellationToken,
) {
    let reserved_count = reserved.as_ref().map_or(0, |reserved| reserved.count);
    let server = ConnectionServer {
        limits,
        identity,
        router,
        stop,
        handshakes: ConnectionPlaces::new(limits.connections.saturating_add(reserved_count)),
        places: ConnectionPlaces::new(limits.connections),
        reserved: reserved.map(|reserved| (ConnectionPlaces::new(reserved.count), reserved)),
    };
    Arc::new(server).accept(listener).await;
}

/// State shared by the connections of one server.
struct ConnectionServer {
    limits: ConnectionLimits,
    /// None: without TLS.
    identity: Option<Identity>,
    router: Router,
    stop: CancellationToken,
    /// Places of connections whose TLS handshake has not ended. The server can always close one of
    /// them, so a new client always gets to its handshake.
    handshakes: Arc<ConnectionPlaces>,
    places: Arc<ConnectionPlaces>,
    reserved: Option<(Arc<ConnectionPlaces>, ReservedPlaces)>,
}

impl ConnectionServer {
    /// Accepts connections without waiting for any of them, so that a silent client blocks no
    /// other.
    async fn accept(self: Arc<Self>, listener: TcpListener) {
        let connections = TaskTracker::new();
        let first = match &self.identity {
            Some(_) => &self.handshakes,
            None => &self.places,
        };
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let (tcp, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "no connection is accepted");
                    tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
                    continue;
                }
            };
            let ip = address.ip().to_canonical();
            let Some(place) = first.take_place(ip) else {
                debug!(%address, "{NO_PLACE}");
                continue;
            };
            let server = self.clone();
            connections.spawn(async move {
                if let Err(error) = server.serve_connection(tcp, ip, place).await {
                    debug!(%error, %address, "a connection has failed");
                }
            });
        }
        drop(listener);
        connections.close();
        let _ = tokio::time::timeout(self.limits.shutdown_timeout, connections.wait()).await;
    }

    async fn serve_connection(
        &self,
        tcp: TcpStream,
        address: IpAddr,
        place: ConnectionPlace,
    ) -> anyhow::Result<()> {
        // Answers are small, so the socket sends each at once.
        tcp.set_nodelay(true)?;
        let Some(identity) = &self.identity else {
            let certificates = ClientCertificates::default().with_address(address);
            return self
                .serve_requests(tcp, certificates, place, self.limits.head_bytes)
                .await;
        };
        // Without a certificate no request can be served yet.
        let Some(config) = identity.config() else {
            return Ok(());
        };
        let handshake = TlsAcceptor::from(config).accept(tcp);
        let result = tokio::select! {
            biased;
            () = place.evicted.cancelled() => bail!(EVICTED),
            () = self.stop.cancelled() => return Ok(()),
            result = tokio::time::timeout(self.limits.head_timeout, handshake) => result,
        };
        let stream = result??;
        // A handler may authenticate the client by its certificate.
        let certificates =
            ClientCertificates::new(stream.get_ref().1.peer_certificates()).with_address(address);
        let (final_place, head_bytes) = self.assign_place(&certificates);
        // From here on, the connection has its final place, or none.
        drop(place);
        let Some(final_place) = final_place else {
            bail!(NO_PLACE);
        };
        self.serve_requests(stream, certificates, final_place, head_bytes)
            .await
    }

    /// Returns a place for this client, if one is available, and the largest request head for it.
    /// Clients with reserved places may also take other places when the reserved places are full.
    fn assign_place(&self, certificates: &ClientCertificates) -> (Option<ConnectionPlace>, usize) {
        let address = certificates.address();
        let reserved = self
            .reserved
            .as_ref()
            .filter(|(_, reserved)| (reserved.is_for)(certificates));
        let Some((places, _)) = reserved else {
            return (self.places.take_place(address), self.limits.head_bytes);
        };
        let place = places.take_place(address);
        (
            place.or_else(|| self.places.take_place(address)),
            RESERVED_HEAD_BYTES,
        )
    }

    async fn serve_requests(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        certificates: ClientCertificates,
        place: ConnectionPlace,
        head_bytes: usize,
    ) -> anyhow::Result<()> {
        let router = TowerToHyperService::new(self.router.clone());
        let longest_answer = Mutex::new(self.limits.shutdown_timeout);
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(certificates.clone());
            let busy = Arc::new(place.mark_busy());
            let answers = router.call(request);
            let longest_answer = &longest_answer;
            async move {
                let answer = answers.await?;
                if let Some(LongAnswer(time)) = answer.extensions().get() {
                    *longest_answer.lock() = self.limits.shutdown_timeout.max(*time);
                }
                Ok::<_, std::convert::Infallible>(busy_until_written(answer, busy))
            }
        });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_timeout)
            .max_buf_size(head_bytes)
            .max_headers(MAX_HEADERS)
            // Queues written data without a copy, as `busy_until_written` requires.
            .writev(true)
            .serve_connection(TokioIo::new(stream), service);
        let mut serving = pin!(serving);
        tokio::select! {
            ended = serving.as_mut() => return Ok(ended?),
            () = place.evicted.cancelled() => bail!(EVICTED),
            () = tokio::time::sleep(self.limits.max_age) => debug!("a connection has lived long enough"),
            () = self.stop.cancelled() => {}
        }
        serving.as_mut().graceful_shutdown();
        let stop = async {
            self.stop.cancelled().await;
            tokio::time::sleep(self.limits.shutdown_timeout).await;
        };
        let longest_answer = *longest_answer.lock();
        tokio::select! {
            ended = tokio::time::timeout(longest_answer, serving) => Ok(ended??),
            () = stop => bail!("the server stops"),
            () = place.evicted.cancelled() => bail!(EVICTED),
        }
    }
}

/// Returns an answer that counts as busy until the socket has taken its whole body. The end of the
/// body stream would be too early: a handler may send a body as a whole, and the client may read it
/// slowly.
fn busy_until_written(
    answer: Response<Body>,
    busy: Arc<BusyGuard>,
) -> Response<impl hyper::body::Body<Data = Bytes, Error = axum::Error>> {
    answer.map(|body| {
        body.map_frame(move |frame| {
            let busy = busy.clone();
            frame.map_data(|data| Bytes::from_owner(ResponseData { data, _busy: busy }))
        })
    })
}

/// Data of an answer until they are written.
struct ResponseData {
    data: Bytes,
    _busy: Arc<BusyGuard>,
}

impl AsRef<[u8]> for ResponseData {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
mod tests;
