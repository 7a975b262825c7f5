//! The certificate that a server serves.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// Longest time of a TLS handshake.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the served certificate if it is valid for this name and signed by one of these
/// authorities (PEM). The API server checks the same.
pub(crate) fn read_served_certificate(
    mut connection: TcpStream,
    name: &str,
    trusted: &[u8],
) -> Result<CertificateDer<'static>> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(trusted) {
        roots.add(authority?)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    connection.set_read_timeout(Some(READ_TIMEOUT))?;
    let server = ServerName::try_from(name.to_owned())?;
    let mut client = ClientConnection::new(Arc::new(config), server)?;
    while client.is_handshaking() {
        client
            .complete_io(&mut connection)
            .with_context(|| name.to_owned())?;
    }
    let served = client.peer_certificates().and_then(<[_]>::first);
    Ok(served.context("no certificate")?.clone().into_owned())
}
