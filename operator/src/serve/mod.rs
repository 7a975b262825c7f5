//! What the operator's servers have in common: connections that are bounded in
//! number and time, and a certificate that is renewed while they serve: `tls` has one that is
//! given, `kept` one of our own; `client` is what those show who come.

mod client;
mod kept;
mod listen;
mod tls;

pub use client::Shown;
pub use kept::{Keeper, What, Whom};
pub use listen::{Limits, bind, serve, serve_plain};
pub use tls::{Certificate, Identity, Pem, Tls};
