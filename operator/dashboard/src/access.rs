//! The key of the page on the user's machine. Other users of the machine can connect to the port,
//! too, so each request carries a key that only the user's browser knows.
//!
//! A link has a code in its fragment, which browsers do not send. The page exchanges the code for
//! the key, once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

/// Time in which a link must be opened.
const LINK_LIFETIME: Duration = Duration::from_secs(600);

/// Bytes of a code and of a key.
const SECRET_BYTES: usize = 32;

/// The links and keys of one server.
#[derive(Debug, Default)]
pub struct AccessLinks {
    state: Mutex<LinkState>,
    /// Wakes the streams of pages whose keys are void.
    voided: Arc<Notify>,
}

#[derive(Debug, Default)]
struct LinkState {
    /// The link that was not opened yet.
    open: Option<(SecretHash, Instant)>,
    /// Codes of links that were opened.
    used: Vec<SecretHash>,
    /// Keys of pages.
    keys: Vec<SecretHash>,
}

/// The SHA-256 of a secret. The comparison of two hashes tells nothing about the secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SecretHash([u8; 32]);

impl SecretHash {
    fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }
}

/// The answer to a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// The key of the page.
    Key(String),
    /// No such link, or it is too old.
    Unknown,
    /// The link was opened before. All keys are void now: one of the two readers of the link may be
    /// another user of the machine.
    Reused,
}

impl AccessLinks {
    /// Creates a link, and returns its code. An earlier link that was not opened is void.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn create_code(&self) -> anyhow::Result<String> {
        let code = random_secret()?;
        let expires = Instant::now().checked_add(LINK_LIFETIME);
        let expires = expires.ok_or_else(|| anyhow::anyhow!("the clock has ended"))?;
        self.state.lock().open = Some((SecretHash::of(&code), expires));
        Ok(code)
    }

    /// Exchanges a code for a key.
    pub(crate) fn exchange(&self, code: &str) -> anyhow::Result<Exchange> {
        let hash = SecretHash::of(code);
        let mut state = self.state.lock();
        if state.used.contains(&hash) {
            state.keys.clear();
            state.open = None;
            self.voided.notify_waiters();
            return Ok(Exchange::Reused);
        }
        match state.open {
            Some((open, expires)) if open == hash && Instant::now() < expires => {}
            _ => return Ok(Exchange::Unknown),
        }
        let key = random_secret()?;
        state.open = None;
        state.used.push(hash);
        state.keys.push(SecretHash::of(&key));
        Ok(Exchange::Key(key))
    }

    /// Ends when all keys have become void.
    pub(crate) fn until_void(&self) -> impl Future<Output = ()> + Send + 'static {
        self.voided.clone().notified_owned()
    }

    /// Returns true for the key of a page.
    pub(crate) fn admits(&self, key: &str) -> bool {
        self.state.lock().keys.contains(&SecretHash::of(key))
    }
}

/// Returns 256 random bits in hexadecimal.
fn random_secret() -> anyhow::Result<String> {
    let mut bytes = [0_u8; SECRET_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random bytes: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(exchange: Exchange) -> String {
        match exchange {
            Exchange::Key(key) => key,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn code_gives_one_key() {
        let links = AccessLinks::default();
        let code = links.create_code().unwrap();
        assert!(!links.admits(&code), "a code is no key");
        let first = key(links.exchange(&code).unwrap());
        assert!(links.admits(&first));
        assert_eq!(first.len(), 64);
        assert!(!links.admits(""));
        assert_eq!(links.exchange("guess").unwrap(), Exchange::Unknown);
    }

    #[tokio::test]
    async fn second_use_of_a_code_ends_what_goes_on() {
        let links = AccessLinks::default();
        let code = links.create_code().unwrap();
        key(links.exchange(&code).unwrap());
        let void = links.until_void();
        links.exchange(&code).unwrap();
        tokio::time::timeout(Duration::from_secs(5), void)
            .await
            .unwrap();
    }

    #[test]
    fn second_use_of_a_code_voids_all_keys() {
        let links = AccessLinks::default();
        let code = links.create_code().unwrap();
        let first = key(links.exchange(&code).unwrap());
        assert_eq!(links.exchange(&code).unwrap(), Exchange::Reused);
        assert!(!links.admits(&first));
        let next = links.create_code().unwrap();
        let second = key(links.exchange(&next).unwrap());
        assert!(links.admits(&second));
    }

    #[test]
    fn new_link_voids_the_one_before() {
        let links = AccessLinks::default();
        let first = links.create_code().unwrap();
        let second = links.create_code().unwrap();
        assert_eq!(links.exchange(&first).unwrap(), Exchange::Unknown);
        assert!(matches!(links.exchange(&second), Ok(Exchange::Key(_))));
    }
}
