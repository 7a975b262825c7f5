//! The network that the nodes share: a namespace of its own with a bridge, one way out, to the API
//! server, and one in, to pods. With the last process in it all of it is gone.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::fd::AsFd as _,
    path::Path,
    process::Command,
    thread::{self, sleep},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::{TcpListener, TcpStream};

use crate::{control_plane::ControlPlane, process::Process};

/// The bridge that pods are at.
pub(super) const BRIDGE_NAME: &str = "pods";
/// Its address, where names are asked for.
pub(super) const GATEWAY: &str = "10.88.0.1";
/// Addresses of pods.
pub(super) const POD_NETWORK: &str = "10.88.0.0/16";

/// Each network takes 4 addresses of 198.18.0.0/15, which is reserved for tests (RFC 2544).
const FIRST_NETWORK: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const ADDRESSES_PER_NETWORK: u32 = 4;
const NETWORK_COUNT: u32 = (1 << 17) / ADDRESSES_PER_NETWORK;

/// How long a pod may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The namespace, as long as nodes of it or this live.
#[derive(Debug)]
pub(super) struct NodeNetwork {
    /// Keeps the namespace while no node lives.
    pub(super) holder: Process,
    /// Address of the nodes.
    pub(super) node_address: Ipv4Addr,
    /// Address of this machine, as the nodes see it.
    pub(super) host_address: Ipv4Addr,
}

impl NodeNetwork {
    pub(super) fn create(control_plane: &ControlPlane) -> Result<Self> {
        let arguments = ["--net", "sleep", "infinity"].map(String::from);
        let holder = control_plane.spawn("network", Path::new("unshare"), &arguments)?;
        wait_for_namespace(holder.process_id())?;
        let (outer, inner) = free_addresses()?;
        let id = holder.process_id();
        let link = format!("trellis{id}");
        // Whichever end's namespace ends, takes the other end with it.
        run_command(
            "ip",
            &format!("link add name {link} type veth peer name out netns {id}"),
        )?;
        run_command("ip", &format!("addr add {outer}/30 dev {link}"))?;
        run_command("ip", &format!("link set {link} up"))?;
        let this = Self {
            holder,
            node_address: inner,
            host_address: outer,
        };
        for arguments in [
            "link set lo up".to_owned(),
            format!("addr add {inner}/30 dev out"),
            "link set out up".to_owned(),
            format!("link add name {BRIDGE_NAME} type bridge"),
            format!("addr add {GATEWAY}/16 dev {BRIDGE_NAME}"),
            format!("link set {BRIDGE_NAME} up"),
        ] {
            run_command(
                "nsenter",
                &format!("{} ip {arguments}", this.nsenter_argument()),
            )?;
        }
        Ok(this)
    }

    /// The argument of `nsenter` that enters this network namespace.
    pub(super) fn nsenter_argument(&self) -> String {
        format!("--net=/proc/{}/ns/net", self.holder.process_id())
    }

    /// A connection to an address of it, such as a pod's.
    pub(super) fn connect(&self, address: SocketAddr) -> Result<std::net::TcpStream> {
        connect_in_namespace(self.holder.process_id(), address)
    }

    /// Hands on what nodes say to the API server, which listens for this machine alone. Gives
    /// back where the nodes reach it.
    pub(super) fn relay_to_api_server(&self, control_plane: &ControlPlane) -> Result<String> {
        let url: http::Uri = control_plane.url().parse()?;
        let port = url.port_u16().context("the API server has no port")?;
        let listener = std::net::TcpListener::bind((self.host_address, port))
            .with_context(|| format!("listen on {}:{port}", self.host_address))?;
        listener.set_nonblocking(true)?;
        // On a thread of its own: the runtime of a test ends with the test.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        thread::spawn(move || runtime.block_on(relay_connections(listener, port)));
        Ok(format!("https://{}:{port}", self.host_address))
    }
}

async fn relay_connections(listener: std::net::TcpListener, port: u16) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (mut node, _) = listener.accept().await?;
        tokio::spawn(async move {
            // An API server that is being restarted: the node sees a connection that is closed.
            let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else {
                return;
            };
            let _ = tokio::io::copy_bidirectional(&mut node, &mut server).await;
        });
    }
}

/// A connection from within the network of a process. A socket stays in the network in which it is
/// made, and the thread that goes there to make it ends.
pub(super) fn connect_in_namespace(
    holder: u32,
    address: SocketAddr,
) -> Result<std::net::TcpStream> {
    let connect = move || {
        let network = fs::File::open(format!("/proc/{holder}/ns/net"))?;
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(network.as_fd(), kind)?;
        std::net::TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
    };
    let connected = thread::spawn(connect).join();
    let connected = connected.map_err(|_| anyhow!("connecting panicked"))?;
    connected.with_context(|| format!("connect to {address}"))
}

/// Two addresses that no interface of this machine has a network of.
fn free_addresses() -> Result<(Ipv4Addr, Ipv4Addr)> {
    let taken = Command::new("ip").args(["-o", "addr"]).output()?;
    let taken = String::from_utf8_lossy(&taken.stdout).into_owned();
    let start = std::process::id().wrapping_mul(7919) % NETWORK_COUNT;
    for offset in 0..NETWORK_COUNT {
        let first =
            u32::from(FIRST_NETWORK) + (start + offset) % NETWORK_COUNT * ADDRESSES_PER_NETWORK;
        let (outer, inner) = (Ipv4Addr::from(first + 1), Ipv4Addr::from(first + 2));
        if !taken.contains(&format!(" {outer}/")) {
            return Ok((outer, inner));
        }
    }
    bail!("no network of 198.18.0.0/15 is free")
}

/// Waits until the process is in a network namespace of its own.
fn wait_for_namespace(id: u32) -> Result<()> {
    let ours = fs::read_link("/proc/self/ns/net")?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while fs::read_link(format!("/proc/{id}/ns/net")).is_ok_and(|its| its == ours) {
        ensure!(Instant::now() < deadline, "no network namespace");
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn run_command(program: &str, arguments: &str) -> Result<()> {
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .output()
        .with_context(|| format!("start {program}"))?;
    ensure!(
        output.status.success(),
        "{program} {arguments}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
