//! What the operator's servers have in common: connections that are bounded in
//! number and time, and a certificate that is renewed while they serve.

mod listen;
mod tls;

pub use listen::{Limits, bind, serve, serve_plain};
pub use tls::{Certificate, Identity, Pem, Tls};
