//! The certificate that a server shows.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// How long a server may take to say it.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The certificate that a server shows, if it is one for this name, signed by one of these
/// authorities, as PEM: what the API server asks for too.
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
    let shown = client.peer_certificates().and_then(<[_]>::first);
    Ok(shown.context("no certificate")?.clone().into_owned())
}
