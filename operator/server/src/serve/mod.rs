//! Common base of the operator's servers: connections limited in number and time, and a certificate
//! that is renewed while they serve. `tls` serves a given certificate, `kept` the operator's own;
//! `client` holds the client certificates, `places` the connections.

mod client;
mod kept;
mod listen;
mod places;
mod tls;

pub use client::{Found, Shown};
pub use kept::{Keeper, What, Whom};
pub use listen::{Limits, bind, serve};
pub use places::Kept;
pub use tls::{Certificate, Identity, Pem, Tls};
