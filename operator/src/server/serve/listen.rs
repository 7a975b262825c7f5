//! Connections: few at once, and none for long. Whoever can reach the port must
//! not be able to take what the leader needs for its own.

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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info, warn};

use super::places::{Busy, Kept, Place, Places};
use super::{Identity, Shown};

/// Headers of a request at most. The API server names each group of a user in one, and some
/// users are in hundreds.
const HEADERS: usize = 4096;

/// Bytes of a head of those for whom places are kept: those many groups have names.
const HEAD_OF_KEPT: usize = 400 << 10;

/// Why a connection is not served.
const NO_PLACE: &str = "a connection has no place: its address holds too many";

/// After a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(200);

/// After an address could not be listened on.
const AGAIN: Duration = Duration::from_secs(10);

/// Listens on the address, as soon as that can be done, and says so of `what`.
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
        tokio::time::sleep(AGAIN).await;
    }
}

/// How many connections, how large, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// At once. Who comes when all are there has a place at once, and another gives way: `places`.
    pub connections: usize,
    /// Bytes of the head of a request at most, which a connection may have us keep.
    pub head_bytes: usize,
    /// Longest wait for the head of a request, the first or the next.
    pub head: Duration,
    /// After this no further request is taken on a connection: a client comes again.
    pub life: Duration,
    /// Longest time that the last request of a connection has then.
    pub last: Duration,
}

/// Answers whoever connects, until it is told to stop: then no connection is accepted any more,
/// and the requests that are being answered are given their last time. Over TLS, if it has an
/// identity, else plainly, for what anybody may read. `kept` are places that others cannot take.
pub async fn serve(
    listener: TcpListener,
    limits: Limits,
    identity: Option<Identity>,
    kept: Option<Kept>,
    router: Router,
    stop: CancellationToken,
) {
    let of_kept = kept.as_ref().map_or(0, |kept| kept.places);
    let server = Server {
        limits,
        identity,
        router,
        stop,
        handshakes: Places::new(limits.connections.saturating_add(of_kept)),
        places: Places::new(limits.connections),
        kept: kept.map(|kept| (Places::new(kept.places), kept)),
    };
    Arc::new(server).accept(listener).await;
}

/// What connections of one server have in common.
struct Server {
    limits: Limits,
    /// None: without TLS.
    identity: Option<Identity>,
    router: Router,
    stop: CancellationToken,
    /// Of those that have not said who they are. None of them is ever busy, so that there is
    /// always one that gives way: whoever holds the others, who comes is heard out.
    handshakes: Arc<Places>,
    places: Arc<Places>,
    kept: Option<(Arc<Places>, Kept)>,
}

impl Server {
    /// Nobody waits to be accepted: whoever says nothing would be waited for too.
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
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let ip = address.ip().to_canonical();
            let Some(place) = first.enter(ip) else {
                debug!(%address, "{NO_PLACE}");
                continue;
            };
            let server = self.clone();
            connections.spawn(async move {
                if let Err(error) = server.connection(tcp, ip, place).await {
                    debug!(%error, %address, "a connection has failed");
                }
            });
        }
        drop(listener);
        connections.close();
        let _ = tokio::time::timeout(self.limits.last, connections.wait()).await;
    }

    async fn connection(
        &self,
        tcp: TcpStream,
        address: IpAddr,
        place: Place,
    ) -> anyhow::Result<()> {
        // Answers are small: none is to wait for the next.
        tcp.set_nodelay(true)?;
        let Some(identity) = &self.identity else {
            let shown = Shown::default().at(address);
            return self
                .requests(tcp, shown, place, self.limits.head_bytes)
                .await;
        };
        // Before there is a certificate nobody can be answered.
        let Some(config) = identity.config() else {
            return Ok(());
        };
        let shakes = TlsAcceptor::from(config).accept(tcp);
        let shaken = tokio::select! {
            biased;
            () = place.is_out.cancelled() => bail!("it has given way"),
            () = self.stop.cancelled() => return Ok(()),
            shaken = tokio::time::timeout(self.limits.head, shakes) => shaken,
        };
        let stream = shaken??;
        // Who asks may be told by it.
        let shown = Shown::new(stream.get_ref().1.peer_certificates()).at(address);
        let (entered, head_bytes) = self.enter(&shown);
        // From here on it has that place, or none.
        drop(place);
        let Some(place) = entered else {
            bail!(NO_PLACE);
        };
        self.requests(stream, shown, place, head_bytes).await
    }

    /// A place for who shows this, if there is one, and how large heads may be there. Those for
    /// whom some are kept have the others too, once these are taken.
    fn enter(&self, shown: &Shown) -> (Option<Place>, usize) {
        let address = shown.address();
        let kept = self.kept.as_ref().filter(|(_, kept)| (kept.of)(shown));
        let Some((places, _)) = kept else {
            return (self.places.enter(address), self.limits.head_bytes);
        };
        let place = places.enter(address);
        (place.or_else(|| self.places.enter(address)), HEAD_OF_KEPT)
    }

    async fn requests(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        shown: Shown,
        place: Place,
        head_bytes: usize,
    ) -> anyhow::Result<()> {
        let router = TowerToHyperService::new(self.router.clone());
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(shown.clone());
            let busy = Arc::new(place.busy());
            let answers = router.call(request);
            async move { answers.await.map(|answer| until_read(answer, busy)) }
        });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head)
            .max_buf_size(head_bytes)
            .max_headers(HEADERS)
            // What is written is kept as it came, not copied: `until_read`.
            .writev(true)
            .serve_connection(TokioIo::new(stream), service);
        let mut serving = pin!(serving);
        tokio::select! {
            ended = serving.as_mut() => return Ok(ended?),
            () = place.is_out.cancelled() => bail!("it has given way"),
            () = tokio::time::sleep(self.limits.life) => debug!("a connection has lived long enough"),
            () = self.stop.cancelled() => {}
        }
        serving.as_mut().graceful_shutdown();
        let last = tokio::time::timeout(self.limits.last, serving);
        tokio::select! {
            ended = last => Ok(ended??),
            () = place.is_out.cancelled() => bail!("it has given way"),
        }
    }
}

/// An answer that is busy until its body has been written, but for what sockets hold of it: that
/// is not when there is no more of it, since a body may come whole and be read slowly.
fn until_read(
    answer: Response<Body>,
    busy: Arc<Busy>,
) -> Response<impl hyper::body::Body<Data = Bytes, Error = axum::Error>> {
    answer.map(|body| {
        body.map_frame(move |frame| {
            let busy = busy.clone();
            frame.map_data(|data| Bytes::from_owner(Written { data, _busy: busy }))
        })
    })
}

/// Data of an answer, until it is written.
struct Written {
    data: Bytes,
    _busy: Arc<Busy>,
}

impl AsRef<[u8]> for Written {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
mod tests;
