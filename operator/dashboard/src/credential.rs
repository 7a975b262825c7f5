//! The user of a request.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::AUTHORIZATION;
use kube::{Client, Config};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use trellis_reads::Reader;

use crate::answer::Refusal;

/// Longest time for which the client of a token is kept.
const CLIENT_LIFETIME: Duration = Duration::from_secs(600);

/// Most clients at once, of as many tokens.
const MAX_CLIENTS: usize = 256;

/// Where the credential of a request comes from.
#[derive(Debug)]
pub(crate) enum Credentials {
    /// The kubeconfig of the user who has started the server.
    Local(LocalCredentials),
    /// The request: a proxy has put the user's token on it.
    Forwarded(Box<ForwardedCredentials>),
}

/// The user of a kubeconfig.
#[derive(Debug)]
pub struct LocalCredentials {
    /// Reads with the rights of the user.
    pub reader: Reader,
    /// The context of the kubeconfig, if it has a name.
    pub context: Option<String>,
}

/// The users of a proxy. Each token has its own client.
pub struct ForwardedCredentials {
    cluster: Config,
    scheduler_timeout: Duration,
    clients: Mutex<HashMap<Identity, (Client, Instant)>>,
}

impl std::fmt::Debug for ForwardedCredentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ForwardedCredentials")
            .field("cluster", &self.cluster.cluster_url)
            .finish_non_exhaustive()
    }
}

/// Tells users apart: the SHA-256 of the credential. The user of a kubeconfig has no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity(Option<[u8; 32]>);

/// The user of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) identity: Identity,
    pub(crate) reader: Reader,
}

impl Credentials {
    /// Returns the user of a request with these headers.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        match self {
            Self::Local(local) => Ok(Caller {
                identity: Identity(None),
                reader: local.reader.clone(),
            }),
            Self::Forwarded(forwarded) => forwarded.caller(headers),
        }
    }

    /// Returns the namespace of the kubeconfig's context. None: no kubeconfig is used.
    pub(crate) fn context_namespace(&self) -> Option<&str> {
        match self {
            Self::Local(local) => Some(local.reader.namespace.as_str()),
            Self::Forwarded(_) => None,
        }
    }
}

impl ForwardedCredentials {
    /// Uses this cluster, with the token of each request. A credential in the configuration is not
    /// used.
    #[must_use]
    pub fn new(mut cluster: Config, scheduler_timeout: Duration) -> Self {
        cluster.auth_info = kube::config::AuthInfo::default();
        Self {
            cluster,
            scheduler_timeout,
            clients: Mutex::default(),
        }
    }

    fn caller(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let token = bearer_token(headers)?;
        let identity = Identity(Some(Sha256::digest(token.as_bytes()).into()));
        let client = self.client(identity, token)?;
        Ok(Caller {
            identity,
            reader: Reader {
                client,
                namespace: "default".to_owned(),
                scheduler_timeout: Some(self.scheduler_timeout),
            },
        })
    }

    fn client(&self, identity: Identity, token: &str) -> Result<Client, Refusal> {
        let now = Instant::now();
        let mut clients = self.clients.lock();
        clients.retain(|_, (_, expires)| now < *expires);
        if let Some((client, _)) = clients.get(&identity) {
            return Ok(client.clone());
        }
        let mut config = self.cluster.clone();
        config.auth_info.token = Some(token.to_owned().into());
        let client = Client::try_from(config)
            .map_err(|error| Refusal::internal(format!("no client for this token: {error}")))?;
        if let Some(expires) = now.checked_add(CLIENT_LIFETIME)
            && clients.len() < MAX_CLIENTS
        {
            clients.insert(identity, (client.clone(), expires));
        }
        Ok(client)
    }
}

/// Returns the only bearer token of a request.
fn bearer_token(headers: &HeaderMap) -> Result<&str, Refusal> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, more) = (values.next(), values.next());
    let Some(value) = value else {
        return Err(Refusal::unauthorized(
            "the request carries no token: open the page through its proxy, which must forward the access token of the user",
        ));
    };
    let token = value.to_str().ok();
    let token = token.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then_some(token.trim())
    });
    match token.filter(|token| !token.is_empty() && more.is_none()) {
        Some(token) => Ok(token),
        None => Err(Refusal::unauthorized(
            "the request carries no bearer token: the proxy of the page must forward the access token of the user in the header Authorization",
        )),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn request_carries_exactly_one_bearer_token() {
        assert_eq!(bearer_token(&headers(&["Bearer abc"])).unwrap(), "abc");
        assert_eq!(bearer_token(&headers(&["bearer  abc "])).unwrap(), "abc");
        for wrong in [
            &[][..],
            &["Basic abc"],
            &["Bearer "],
            &["Bearer"],
            &["Bearer a", "Bearer b"],
        ] {
            let refusal = bearer_token(&headers(wrong)).unwrap_err();
            assert_eq!(
                refusal.status(),
                http::StatusCode::UNAUTHORIZED,
                "{wrong:?}"
            );
        }
    }

    #[tokio::test]
    async fn each_token_has_its_own_client_and_identity() {
        let mut cluster = Config::new("http://127.0.0.1:1".parse().unwrap());
        cluster.auth_info.token = Some("server's own".to_owned().into());
        let forwarded = ForwardedCredentials::new(cluster, Duration::from_secs(5));
        assert!(forwarded.cluster.auth_info.token.is_none());
        let first = forwarded.caller(&headers(&["Bearer a"])).unwrap();
        let again = forwarded.caller(&headers(&["Bearer a"])).unwrap();
        let other = forwarded.caller(&headers(&["Bearer b"])).unwrap();
        assert_eq!(first.identity, again.identity);
        assert_ne!(first.identity, other.identity);
        assert_eq!(forwarded.clients.lock().len(), 2);
    }
}
