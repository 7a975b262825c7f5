//! Connections: few at once, and none for long. Whoever can reach the port must
//! not be able to take what the leader needs for its own.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info, warn};

use super::places::{Kept, Place, Places};
use super::{Identity, Shown};

/// Headers of a request at most. The API server names each group of a user in one, and some
/// users are in hundreds.
const HEADERS: usize = 4096;

/// Bytes of a head of who has a place that is kept: those many groups have names.
const HEAD_OF_KEPT: usize = 400 << 10;

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

/// Answers whoever connects over TLS, until it is told to stop: then no connection is accepted
/// any more, and the requests that are being answered are given their last time.
pub async fn serve(
    listener: TcpListener,
    limits: Limits,
    identity: Identity,
    router: Router,
    stop: CancellationToken,
) {
    Server::new(limits, Some(identity), None, router, stop)
        .accept(listener)
        .await;
}

/// The same, with places that are kept for some, whom others cannot keep out.
pub async fn serve_keeping(
    listener: TcpListener,
    limits: Limits,
    kept: Kept,
    identity: Identity,
    router: Router,
    stop: CancellationToken,
) {
    Server::new(limits, Some(identity), Some(kept), router, stop)
        .accept(listener)
        .await;
}

/// The same without TLS, for what anybody may read.
pub async fn serve_plain(
    listener: TcpListener,
    limits: Limits,
    router: Router,
    stop: CancellationToken,
) {
    Server::new(limits, None, None, router, stop)
        .accept(listener)
        .await;
}

/// What connections of one server have in common.
struct Server {
    limits: Limits,
    /// None: without TLS.
    identity: Option<Identity>,
    router: Router,
    stop: CancellationToken,
    places: Arc<Places>,
    kept: Option<(Kept, Arc<Places>)>,
}

impl Server {
    fn new(
        limits: Limits,
        identity: Option<Identity>,
        kept: Option<Kept>,
        router: Router,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let kept = kept.map(|kept| {
            let places = Places::new(kept.places);
            (kept, places)
        });
        Arc::new(Self {
            limits,
            identity,
            router,
            stop,
            places: Places::new(limits.connections),
            kept,
        })
    }

    /// Nobody waits to be accepted: whoever says nothing would be waited for too.
    async fn accept(self: Arc<Self>, listener: TcpListener) {
        let connections = TaskTracker::new();
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
            let Some(place) = self.places.enter(ip) else {
                debug!(%address, "a connection has no place: its address holds too many");
                continue;
            };
            connections.spawn(self.clone().connection(tcp, ip, place));
        }
        drop(listener);
        connections.close();
        let _ = tokio::time::timeout(self.limits.last, connections.wait()).await;
    }

    async fn connection(self: Arc<Self>, tcp: TcpStream, address: IpAddr, place: Place) {
        let served = match &self.identity {
            None => self.plain(tcp, address, place).await,
            // Before there is a certificate nobody can be answered.
            Some(identity) => match identity.config() {
                None => return,
                Some(config) => self.secure(tcp, config, address, place).await,
            },
        };
        if let Err(error) = served {
            debug!(%error, %address, "a connection has failed");
        }
    }

    async fn plain(&self, tcp: TcpStream, address: IpAddr, place: Place) -> anyhow::Result<()> {
        // Answers are small: none is to wait for the next.
        tcp.set_nodelay(true)?;
        self.requests(
            tcp,
            Shown::default().at(address),
            place,
            self.limits.head_bytes,
        )
        .await
    }

    async fn secure(
        &self,
        tcp: TcpStream,
        config: Arc<ServerConfig>,
        address: IpAddr,
        place: Place,
    ) -> anyhow::Result<()> {
        tcp.set_nodelay(true)?;
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
        let kept = self.kept.as_ref().filter(|(kept, _)| (kept.of)(&shown));
        let kept = kept.and_then(|(_, places)| places.enter(address));
        let (place, head_bytes) = match kept {
            Some(kept) => (kept, HEAD_OF_KEPT),
            None => (place, self.limits.head_bytes),
        };
        self.requests(stream, shown, place, head_bytes).await
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
            let busy = place.busy();
            let answers = router.call(request);
            async move {
                let _busy = busy;
                answers.await
            }
        });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head)
            .max_buf_size(head_bytes)
            .max_headers(HEADERS)
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

#[cfg(test)]
mod tests;
