//! Connections: few at once, and none for long. Whoever can reach the port must
//! not be able to take what the leader needs for its own.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

/// Connections at once; others wait to be accepted.
const CONNECTIONS: usize = 64;
/// Longest life of one, however it goes: a client that polls comes again.
const LIFE: Duration = Duration::from_secs(60);
/// Longest wait for the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// After a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(200);

/// Answers whoever connects. Never ends.
pub(super) async fn serve(
    listener: TcpListener,
    tls: impl Fn() -> Arc<ServerConfig>,
    router: Router,
) {
    let turns = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(turn) = turns.clone().acquire_owned().await else {
            return;
        };
        let tcp = match listener.accept().await {
            Ok((tcp, _)) => tcp,
            Err(error) => {
                warn!(%error, "no connection is accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (acceptor, router) = (TlsAcceptor::from(tls()), router.clone());
        tokio::spawn(async move {
            let _turn = turn;
            match tokio::time::timeout(LIFE, connection(tcp, acceptor, router)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(%error, "a connection has failed"),
                Err(_) => debug!("a connection has lived long enough"),
            }
        });
    }
}

async fn connection(tcp: TcpStream, acceptor: TlsAcceptor, router: Router) -> anyhow::Result<()> {
    let stream = tokio::time::timeout(HEAD, acceptor.accept(tcp)).await??;
    let service = TowerToHyperService::new(router);
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .await?;
    Ok(())
}
