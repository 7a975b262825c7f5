//! Connections: few at once, and none for long. Whoever can reach the port must
//! not be able to take what the leader needs for its own.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::places::Places;
use super::{Identity, Kept, Shown};

/// Headers of a request at most. The API server names each group of a user in one, and some
/// users are in hundreds.
const HEADERS: usize = 4096;

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

/// How many connections, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// At once; others wait to be accepted.
    pub connections: usize,
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
    accept(listener, limits, Some(identity), router, stop).await;
}

/// The same, with places that some need not wait for. A handshake takes no place, and who waits
/// for one too long gives way to who comes after.
pub async fn serve_keeping(
    listener: TcpListener,
    limits: Limits,
    kept: Kept,
    identity: Identity,
    router: Router,
    stop: CancellationToken,
) {
    let places = Places::new(limits.connections, kept);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Some(tcp) = taken(accepted).await else {
            continue;
        };
        // Before there is a certificate nobody can be answered.
        let Some(config) = identity.config() else {
            continue;
        };
        let (guest, places) = (places.enter(), places.clone());
        let (router, stop) = (router.clone(), stop.clone());
        tokio::spawn(async move {
            let enters = async {
                let (stream, shown) = handshake(tcp, config, limits).await?;
                let place = tokio::time::timeout(limits.head, places.take(&shown)).await?;
                anyhow::Ok((stream, shown, place))
            };
            let entered = tokio::select! {
                biased;
                () = guest.is_out.cancelled() => return debug!("a connection has given way"),
                () = stop.cancelled() => return,
                entered = enters => entered,
            };
            drop(guest);
            let served = match entered {
                Ok((stream, shown, Some(_place))) => {
                    let router = router.layer(axum::Extension(shown));
                    requests(stream, router, limits, stop).await
                }
                Ok((.., None)) => return,
                Err(error) => Err(error),
            };
            if let Err(error) = served {
                debug!(%error, "a connection has failed");
            }
        });
    }
}

/// The same without TLS, for what anybody may read.
pub async fn serve_plain(
    listener: TcpListener,
    limits: Limits,
    router: Router,
    stop: CancellationToken,
) {
    accept(listener, limits, None, router, stop).await;
}

async fn accept(
    listener: TcpListener,
    limits: Limits,
    identity: Option<Identity>,
    router: Router,
    stop: CancellationToken,
) {
    let turns = Arc::new(Semaphore::new(limits.connections));
    loop {
        let next = async {
            let turn = turns.clone().acquire_owned().await.ok()?;
            Some((turn, listener.accept().await))
        };
        let next = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            next = next => next,
        };
        let Some((turn, accepted)) = next else { return };
        let Some(tcp) = taken(accepted).await else {
            continue;
        };
        let config = match &identity {
            None => None,
            Some(identity) => match identity.config() {
                Some(config) => Some(config),
                // Before there is a certificate nobody can be answered.
                None => continue,
            },
        };
        let (router, stop) = (router.clone(), stop.clone());
        tokio::spawn(async move {
            let _turn = turn;
            if let Err(error) = connection(tcp, config, router, limits, stop).await {
                debug!(%error, "a connection has failed");
            }
        });
    }
    drop(listener);
    // Each connection holds a turn for as long as it lives.
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(limits.last, turns.acquire_many(all)).await;
}

/// None: not this time.
async fn taken(accepted: std::io::Result<(TcpStream, SocketAddr)>) -> Option<TcpStream> {
    match accepted {
        Ok((tcp, _)) => Some(tcp),
        Err(error) => {
            warn!(%error, "no connection is accepted");
            tokio::time::sleep(PAUSE).await;
            None
        }
    }
}

/// A connection over TLS, and what its client has shown.
async fn handshake(
    tcp: TcpStream,
    config: Arc<ServerConfig>,
    limits: Limits,
) -> anyhow::Result<(TlsStream<TcpStream>, Shown)> {
    // Answers are small: none is to wait for the next.
    tcp.set_nodelay(true)?;
    let acceptor = TlsAcceptor::from(config);
    let stream = tokio::time::timeout(limits.head, acceptor.accept(tcp)).await??;
    let shown = Shown::new(stream.get_ref().1.peer_certificates());
    Ok((stream, shown))
}

async fn connection(
    tcp: TcpStream,
    config: Option<Arc<ServerConfig>>,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let Some(config) = config else {
        // Answers are small: none is to wait for the next.
        tcp.set_nodelay(true)?;
        return requests(tcp, router, limits, stop).await;
    };
    // Who asks may be told by it.
    let (stream, shown) = handshake(tcp, config, limits).await?;
    let router = router.layer(axum::Extension(shown));
    requests(stream, router, limits, stop).await
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let service = TowerToHyperService::new(router);
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = pin!(serving);
    tokio::select! {
        ended = serving.as_mut() => return Ok(ended?),
        () = tokio::time::sleep(limits.life) => debug!("a connection has lived long enough"),
        () = stop.cancelled() => {}
    }
    serving.as_mut().graceful_shutdown();
    Ok(tokio::time::timeout(limits.last, serving).await??)
}

#[cfg(test)]
mod tests;
