//! A server of a test, and how connections to it fare.

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
async fn serving(limits: Limits) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
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

/// A server that keeps a place for whom it says.
async fn keeping(known: bool) -> SocketAddr {
    let listener = bind("127.0.0.1:0".parse().unwrap(), "a test").await;
    let address = listener.local_addr().unwrap();
    let own = Certificate::Own(vec!["localhost".to_owned()]);
    let identity = Tls::new(own).unwrap().identity();
    let router = Router::new().route("/", get(async || "ok"));
    let kept = Kept {
        places: 1,
        of: Arc::new(move |_| known),
    };
    let on = CancellationToken::new();
    tokio::spawn(serve_keeping(listener, LIMITS, kept, identity, router, on));
    address
}

#[tokio::test]
async fn who_says_nothing_gives_way_to_who_comes_after() {
    let address = keeping(false).await;
    let mut silent = Vec::new();
    for _ in 0..4 * LIMITS.connections {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let began = Instant::now();
    assert_eq!(ask(&client(address)).await, Some(200));
    assert!(began.elapsed() < LIMITS.head / 2, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_place_is_kept_while_others_hold_all_that_are_open() {
    for known in [true, false] {
        let address = keeping(known).await;
        let mut idle = Vec::new();
        for _ in 0..LIMITS.connections {
            let client = client(address);
            assert_eq!(ask(&client).await, Some(200));
            idle.push(client);
        }
        let asked = client(address);
        let answer = tokio::time::timeout(SLOW, ask(&asked)).await;
        assert_eq!(answer.is_ok(), known, "{answer:?}");
    }
}
