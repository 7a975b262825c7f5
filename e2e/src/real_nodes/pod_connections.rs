//! Connections to pods, which are in another network than the API server and the tests.

use std::net::SocketAddr;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};

use super::{RealNodes, network};
use crate::control_plane::{ControlPlane, egress};

/// The longest request for a connection.
const MAX_REQUEST_HEAD: usize = 1024;

impl RealNodes {
    /// Serves the API server's requests for connections to pods
    /// ([`ControlPlaneOptions::tunnels_to_pods`](crate::control_plane::ControlPlaneOptions::tunnels_to_pods)).
    ///
    /// # Errors
    ///
    /// When this was called before.
    pub fn serve_pod_connections(&self, control_plane: &ControlPlane) -> Result<()> {
        let socket = egress::socket_path(control_plane.folder());
        let listener = std::os::unix::net::UnixListener::bind(socket)?;
        listener.set_nonblocking(true)?;
        // This needs its own thread, because the runtime of a test ends with the test.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let holder = self.network.holder.process_id();
        thread::spawn(move || runtime.block_on(accept_connections(listener, holder)));
        Ok(())
    }

    /// Connects to a pod.
    ///
    /// # Errors
    ///
    /// When no process accepts the connection.
    pub fn connect_to_pod(&self, address: SocketAddr) -> Result<std::net::TcpStream> {
        self.network.connect(address)
    }
}

async fn accept_connections(listener: std::os::unix::net::UnixListener, holder: u32) -> Result<()> {
    let listener = UnixListener::from_std(listener)?;
    loop {
        let (asks, _) = listener.accept().await?;
        tokio::spawn(async move {
            // If the pod is gone, the API server's connection is closed.
            let _ = relay_connection(asks, holder).await;
        });
    }
}

async fn relay_connection(mut asks: UnixStream, holder: u32) -> Result<()> {
    let address = read_connect_address(&mut asks).await?;
    let pod =
        tokio::task::spawn_blocking(move || network::connect_in_namespace(holder, address)).await?;
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

/// Returns the address of `CONNECT ADDRESS HTTP/1.1`. The bytes after the head are for the pod.
async fn read_connect_address(asks: &mut UnixStream) -> Result<SocketAddr> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < MAX_REQUEST_HEAD, "no request for a connection");
        head.push(asks.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let address = head.strip_prefix("CONNECT ").context("no CONNECT")?;
    let address = address.split(' ').next().context("no address")?;
    address.parse().with_context(|| address.to_owned())
}
