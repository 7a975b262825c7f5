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
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::{Identity, Shown};

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
        let tcp = match accepted {
            Ok((tcp, _)) => tcp,
            Err(error) => {
                warn!(%error, "no connection is accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
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

async fn connection(
    tcp: TcpStream,
    config: Option<Arc<ServerConfig>>,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    // Answers are small: none is to wait for the next.
    tcp.set_nodelay(true)?;
    let Some(config) = config else {
        return requests(tcp, router, limits, stop).await;
    };
    let acceptor = TlsAcceptor::from(config);
    let stream = tokio::time::timeout(limits.head, acceptor.accept(tcp)).await??;
    // Who asks may be told by it.
    let shown = Shown::new(stream.get_ref().1.peer_certificates());
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
mod tests {
    use axum::routing::get;
    use http::Request;
    use kube::client::Body;
    use kube::{Client, Config};
    use tokio::time::Instant;

    use super::*;
    use crate::serve::{Certificate, Tls};

    const SLOW: Duration = Duration::from_millis(500);
    const LIMITS: Limits = Limits {
        connections: 4,
        head: Duration::from_secs(5),
        life: Duration::from_secs(60),
        last: Duration::from_secs(5),
    };

    fn client(address: SocketAddr) -> Client {
        let mut config = Config::new(format!("https://{address}").parse().unwrap());
        config.accept_invalid_certs = true;
        config.default_retry = false;
        Client::try_from(config).unwrap()
    }

    async fn ask(client: &Client) -> Option<u16> {
        let request = Request::get("/").body(Body::empty()).unwrap();
        let answer = client.send(request).await.ok()?;
        Some(answer.status().as_u16())
    }

    /// A server whose answers take a while, how to stop it, and its end.
    async fn serving(
        limits: Limits,
    ) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
        let listener = bind("127.0.0.1:0".parse().unwrap(), "a test").await;
        let address = listener.local_addr().unwrap();
        let own = Certificate::Own(vec!["localhost".to_owned()]);
        let identity = Tls::new(own).unwrap().identity();
        let router = Router::new().route(
            "/",
            get(async || {
                tokio::time::sleep(SLOW).await;
                "ok"
            }),
        );
        let stop = CancellationToken::new();
        let served = tokio::spawn(serve(listener, limits, identity, router, stop.clone()));
        (address, stop, served)
    }

    #[tokio::test]
    async fn what_is_being_answered_is_answered_after_it_was_told_to_stop() {
        let (address, stop, served) = serving(LIMITS).await;
        let kept = client(address);
        assert_eq!(ask(&kept).await, Some(200));
        let asked = tokio::spawn(async move { (ask(&kept).await, kept) });
        tokio::time::sleep(SLOW / 2).await;
        stop.cancel();
        let (answered, kept) = asked.await.unwrap();
        assert_eq!(answered, Some(200));
        served.await.unwrap();
        assert_eq!(ask(&kept).await, None, "nobody is there");
    }

    #[tokio::test]
    async fn a_connection_that_has_lived_long_enough_answers_what_it_has_begun() {
        let (address, _stop, _served) = serving(Limits {
            life: SLOW / 2,
            ..LIMITS
        })
        .await;
        let client = client(address);
        for _ in 0..3 {
            assert_eq!(ask(&client).await, Some(200));
        }
    }

    #[tokio::test]
    async fn a_user_of_many_groups_is_heard_out() {
        let (address, _stop, _served) = serving(LIMITS).await;
        let mut request = Request::get("/");
        for group in 0..1_000 {
            request = request.header("x-remote-group", format!("team-{group}"));
        }
        let request = request.body(Body::empty()).unwrap();
        let answer = client(address).send(request).await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
    }

    #[tokio::test]
    async fn who_says_nothing_holds_a_connection_for_a_while_only() {
        let (address, _stop, _served) = serving(Limits {
            head: SLOW,
            ..LIMITS
        })
        .await;
        let mut silent = Vec::new();
        for _ in 0..LIMITS.connections {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let began = Instant::now();
        assert_eq!(ask(&client(address)).await, Some(200));
        assert!(began.elapsed() >= SLOW, "{:?}", began.elapsed());
    }
}
