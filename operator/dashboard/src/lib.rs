//! The web page of Trellis and its server.
//!
//! The server has no rights of its own. It speaks with the cluster as the user of the page: with
//! the user's kubeconfig on the user's machine, or in the cluster with the token that a proxy has
//! put on each request. It is not a proxy: it has a few routes, which return what the command line
//! prints with `-o json`.
//!
//! - `credential`: the user of a request.
//! - `guard`: requests that are refused, and why.
//! - `access`: the key of the page on the user's machine.
//! - `live`: lists that are read once for all tabs of a user, and their changes.
//! - `plan`: jobs that a text describes, and what the operator says about them.
//! - `routes`: the answers.

#![allow(
    clippy::disallowed_methods,
    reason = "the server runs on its user's machine, never in a simulation"
)]

mod access;
mod answer;
mod assets;
mod compression;
mod credential;
mod guard;
mod live;
mod plan;
mod routes;
mod server;

pub use access::AccessLinks;
pub use credential::{ForwardedCredentials, LocalCredentials};
pub use guard::PublicUrl;
pub use server::Dashboard;
