//! What the operator's servers have in common: connections that are bounded in
//! number and time, and a certificate that is renewed while they serve: `tls` has one that is
//! given, `kept` one of our own; `client` is what those show who come, `places` how many are there.

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
