//! Common base of the operator's servers: limits on the number and duration of connections, and a
//! certificate that is renewed while the server runs. `tls` serves a given certificate,
//! `self_signed` the operator's own. `client_certificates` holds the client certificates,
//! `connection_limit` the places of connections. `body` reads bodies of requests.

mod body;
mod client_certificates;
mod connection_limit;
mod connections;
mod self_signed;
mod tls;

pub(crate) use body::{late_body, read_body, too_large};
pub use client_certificates::{ClientCertificates, Verification};
pub use connection_limit::ReservedPlaces;
pub use connections::{ConnectionLimits, LongAnswer, bind, serve};
pub use self_signed::{CertificateKeeper, ManagedCertificate, TrustObject};
pub use tls::{CertificateSource, Identity, Pem, ReloadingCertificate};
