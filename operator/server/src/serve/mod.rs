//! Common base of the operator's servers: connections limited in number and time, and a certificate
//! that is renewed while they serve. `tls` serves a given certificate, `kept` the operator's own;
//! `client` holds the client certificates, `places` the connections.

mod client_certificates;
mod connection_limit;
mod connections;
mod self_signed;
mod tls;

pub use client_certificates::{ClientCertificates, Verification};
pub use connection_limit::ReservedPlaces;
pub use connections::{ConnectionLimits, bind, serve};
pub use self_signed::{CertificateKeeper, ManagedCertificate, TrustObject};
pub use tls::{CertificateSource, Identity, Pem, ReloadingCertificate};
