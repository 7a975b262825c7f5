//! A real control plane, and the tests, demo and benchmarks that run on it.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use trellis_e2e::cluster::NodeTemplate;
//! use trellis_e2e::control_plane::ControlPlane;
//! use trellis_e2e::site::namespace::TestNamespace;
//!
//! let control_plane = ControlPlane::shared().await?;
//! let nodes = NodeTemplate::new(4).gpus(8).racks(2).scope("example").create(control_plane).await?;
//! let namespace = TestNamespace::create(control_plane, "example").await?;
//! nodes.kill_kubelet(&nodes.names()[0]).await?;
//! # Ok(())
//! # }
//! ```

pub mod admission;
pub mod answers;
pub mod argocd;
pub mod audit_log;
pub mod binaries;
pub mod cert_manager;
pub mod cluster;
pub mod control_plane;
pub mod endpoint;
pub mod external_secrets;
pub mod folder;
pub mod helm;
pub mod karpenter;
pub mod kubelet;
pub mod operator;
mod oracle;
pub mod process;
pub mod programs;
pub mod proxy;
pub mod real_nodes;
pub mod rights;
pub mod site;
pub mod visibility;
pub mod volumes;
pub mod wait;
