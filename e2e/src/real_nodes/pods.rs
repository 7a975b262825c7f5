//! The way to pods, which are in another network than the API server and the tests.

use std::net::SocketAddr;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};

use super::{RealNodes, network};
use crate::control_plane::{ControlPlane, egress};

/// The longest request for a connection.
const HEAD: usize = 1024;

impl RealNodes {
    /// Gives the API server the connections to pods that it asks for
    /// ([`Options::asks_for_pods`](crate::control_plane::Options::asks_for_pods)).
    ///
    /// # Errors
    ///
    /// When this has been called already.
    pub fn serve_pods(&self, control_plane: &ControlPlane) -> Result<()> {
        let socket = egress::socket(control_plane.folder());
        let listener = std::os::unix::net::UnixListener::bind(socket)?;
        listener.set_nonblocking(true)?;
        // On a thread of its own: the runtime of a test ends with the test.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let holder = self.network.holder.id();
        thread::spawn(move || runtime.block_on(serve(listener, holder)));
        Ok(())
    }

    /// Connects to a pod.
    ///
    /// # Errors
    ///
    /// When no process accepts the connection.
    pub fn connect(&self, address: SocketAddr) -> Result<std::net::TcpStream> {
        self.network.connect(address)
    }
}

async fn serve(listener: std::os::unix::net::UnixListener, holder: u32) -> Result<()> {
    let listener = UnixListener::from_std(listener)?;
    loop {
        let (asks, _) = listener.accept().await?;
        tokio::spawn(async move {
            // A pod that is gone: the API server sees a connection that is closed.
            let _ = hand_on(asks, holder).await;
        });
    }
}

async fn hand_on(mut asks: UnixStream, holder: u32) -> Result<()> {
    let address = wanted(&mut asks).await?;
    let pod = tokio::task::spawn_blocking(move || network::connect(holder, address)).await?;
    let pod = match pod {
        Ok(pod) => pod,
        Err(error) => {
            let answer = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n";
            asks.write_all(answer).await?;
            return Err(error);
        }
    };
    pod.set_nonblocking(true)?;
    let mut pod = TcpStream::from_std(pod)?;
    asks.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    copy_bidirectional(&mut asks, &mut pod).await?;
    Ok(())
}

/// The address of `CONNECT ADDRESS HTTP/1.1`. The bytes after the head are for the pod.
async fn wanted(asks: &mut UnixStream) -> Result<SocketAddr> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < HEAD, "no request for a connection");
        head.push(asks.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let address = head.strip_prefix("CONNECT ").context("no CONNECT")?;
    let address = address.split(' ').next().context("no address")?;
    address.parse().with_context(|| address.to_owned())
}
