//! The network that the nodes share: a network namespace with a bridge, a connection to the API
//! server, and connections to pods. It is gone when its last process ends.

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

/// The bridge of the pods.
pub(super) const BRIDGE_NAME: &str = "pods";
/// The address of the bridge, at which DNS listens.
pub(super) const GATEWAY: &str = "10.88.0.1";
/// Addresses of pods.
pub(super) const POD_NETWORK: &str = "10.88.0.0/16";

/// Each network takes 4 addresses of 198.18.0.0/15, which is reserved for tests (RFC 2544).
const FIRST_NETWORK: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const ADDRESSES_PER_NETWORK: u32 = 4;
const NETWORK_COUNT: u32 = (1 << 17) / ADDRESSES_PER_NETWORK;

/// Longest time until a pod accepts a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The network namespace. It exists as long as this value or one of its nodes.
#[derive(Debug)]
pub(super) struct NodeNetwork {
    /// Keeps the namespace while it has no node.
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
        // The end of either namespace removes both ends of the pair.
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

    /// Returns the argument of `nsenter` that enters this network namespace.
    pub(super) fn nsenter_argument(&self) -> String {
        format!("--net=/proc/{}/ns/net", self.holder.process_id())
    }

    /// Connects to an address in the network, such as the address of a pod.
    pub(super) fn connect(&self, address: SocketAddr) -> Result<std::net::TcpStream> {
        connect_in_namespace(self.holder.process_id(), address)
    }

    /// Forwards connections of the nodes to the API server, which listens only on this machine.
    /// Returns the address for the nodes.
    pub(super) fn relay_to_api_server(&self, control_plane: &ControlPlane) -> Result<String> {
        let url: http::Uri = control_plane.url().parse()?;
        let port = url.port_u16().context("the API server has no port")?;
        let listener = std::net::TcpListener::bind((self.host_address, port))
            .with_context(|| format!("listen on {}:{port}", self.host_address))?;
        listener.set_nonblocking(true)?;
        // This needs its own thread, because the runtime of a test ends with the test.
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
            // While the API server restarts, the node's connection is closed.
            let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else {
                return;
            };
            let _ = tokio::io::copy_bidirectional(&mut node, &mut server).await;
        });
    }
}

/// Connects from the network of a process. A socket stays in the network in which it was created,
/// so a separate thread enters the network, creates the socket and ends.
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

/// Returns two addresses of a network that no interface of this machine has.
fn free_addresses() -> Result<(Ipv4Addr, Ipv4Addr)> {
    let interfaces = Command::new("ip").args(["-o", "addr"]).output()?;
    let interfaces = String::from_utf8_lossy(&interfaces.stdout).into_owned();
    let start = std::process::id().wrapping_mul(7919) % NETWORK_COUNT;
    for offset in 0..NETWORK_COUNT {
        let first =
            u32::from(FIRST_NETWORK) + (start + offset) % NETWORK_COUNT * ADDRESSES_PER_NETWORK;
        let (outer, inner) = (Ipv4Addr::from(first + 1), Ipv4Addr::from(first + 2));
        if !interfaces.contains(&format!(" {outer}/")) {
            return Ok((outer, inner));
        }
    }
    bail!("no network of 198.18.0.0/15 is free")
}

/// Waits until the process is in its own network namespace.
fn wait_for_namespace(id: u32) -> Result<()> {
    let own_namespace = fs::read_link("/proc/self/ns/net")?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while fs::read_link(format!("/proc/{id}/ns/net")).is_ok_and(|its| its == own_namespace) {
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
