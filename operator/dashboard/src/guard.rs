//! Requests that are refused before they are read. Pure.
//!
//! A page of another origin makes the user's browser send requests here (cross-site request
//! forgery), or gives its own name the address of this server (DNS rebinding). Both reach a server
//! on the loopback interface, too. The checks follow the Fetch Metadata specification and the
//! advice of OWASP.

use std::fmt;
use std::str::FromStr;

use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{Method, Uri};

use crate::answer::Refusal;

/// Header of the key of the page.
pub(crate) const KEY_HEADER: &str = "trellis-key";

/// Names of this machine for itself.
const LOOPBACK_HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// The origin of the page, as the browser knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnOrigin {
    /// A loopback name with any port, so that `ssh -L` may use another port.
    Loopback,
    /// The URL of the proxy in front of the server.
    Public(PublicUrl),
}

/// The URL under which users open the page, such as `https://trellis.example.org`. It has no path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    scheme: Scheme,
    authority: Authority,
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        let advice = "write the URL that users open, such as https://trellis.example.org";
        let url: Uri = written
            .parse()
            .map_err(|error| format!("{error}: {advice}"))?;
        let parts = url.into_parts();
        let is_root = parts.path_and_query.is_none_or(|path| path.as_str() == "/");
        match (parts.scheme, parts.authority) {
            (Some(scheme), Some(authority))
                if is_root
                    && !authority.as_str().contains('@')
                    && (scheme == Scheme::HTTP || scheme == Scheme::HTTPS) =>
            {
                Ok(Self { scheme, authority })
            }
            (Some(_), Some(_)) if !is_root => Err(format!(
                "a path is not supported, because the page needs its own host name: {advice}"
            )),
            _ => Err(advice.to_owned()),
        }
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}", self.scheme, self.authority)
    }
}

impl OwnOrigin {
    /// Refuses a request for another host.
    pub(crate) fn check_host(&self, head: &Parts) -> Result<(), Refusal> {
        let mut hosts = head.headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let host = host.filter(|_| hosts.next().is_none());
        match host {
            Some(host) if self.is_own_host(host) => Ok(()),
            host => Err(Refusal::misdirected(self.describe_host(host))),
        }
    }

    fn is_own_host(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else {
            return false;
        };
        match self {
            Self::Loopback => {
                let is_loopback = |own: &&str| own.eq_ignore_ascii_case(authority.host());
                !host.contains('@') && LOOPBACK_HOSTS.iter().any(is_loopback)
            }
            Self::Public(url) => authority == url.authority,
        }
    }

    fn describe_host(&self, host: Option<&str>) -> String {
        let seen = host.map_or_else(|| "no host".to_owned(), |host| format!("host {host:?}"));
        match self {
            Self::Loopback => format!(
                "the request names {seen}, but this page is only for 127.0.0.1, localhost and [::1]; to serve it under another name, use `trellis dashboard --in-cluster --public-url URL` behind a proxy that signs users in"
            ),
            Self::Public(url) => format!(
                "the request names {seen}, but the page has the URL {url}: open that URL, or set --public-url (chart value dashboard.publicUrl)"
            ),
        }
    }

    /// Refuses a request that a page of another origin made.
    pub(crate) fn check_origin(&self, head: &Parts) -> Result<(), Refusal> {
        let text = |name: &str| {
            let value = head.headers.get(name)?;
            Some(value.to_str().unwrap_or("?"))
        };
        let site = text("sec-fetch-site");
        let origin = text(ORIGIN.as_str());
        let is_own = match (site, origin) {
            (Some(site), None) => site == "same-origin",
            (Some(site), Some(origin)) => site == "same-origin" && self.is_own_origin(head, origin),
            (None, Some(origin)) => self.is_own_origin(head, origin),
            // No browser sent the request: browsers send one of both.
            (None, None) => head.method == Method::GET,
        };
        match is_own {
            true => Ok(()),
            false => Err(Refusal::foreign_origin(
                "the request comes from a page of another origin",
            )),
        }
    }

    fn is_own_origin(&self, head: &Parts, origin: &str) -> bool {
        match self {
            Self::Loopback => {
                let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
                host.is_some_and(|host| origin == format!("http://{host}"))
            }
            Self::Public(url) => origin == url.to_string(),
        }
    }
}

/// Refuses a request with a body that is not JSON. A form of another origin cannot send JSON
/// without asking first, and this server allows no other origin.
pub(crate) fn check_body(head: &Parts) -> Result<(), Refusal> {
    if head.method != Method::POST {
        return Ok(());
    }
    let kind = head.headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match kind.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err(Refusal::invalid(
            "the body must be JSON: Content-Type application/json",
        )),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn head(method: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri("/api/queue");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn public() -> OwnOrigin {
        OwnOrigin::Public("https://trellis.example.org/".parse().unwrap())
    }

    #[test]
    fn loopback_page_serves_loopback_names_only() {
        let check = |host: &str| OwnOrigin::Loopback.check_host(&head("GET", &[("host", host)]));
        for own in [
            "127.0.0.1",
            "127.0.0.1:8123",
            "localhost:1",
            "LOCALHOST",
            "[::1]:8123",
        ] {
            assert!(check(own).is_ok(), "{own}");
        }
        for other in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil.example",
            "evil.example@127.0.0.1",
            "",
            "192.168.1.1:8123",
            "[::2]",
        ] {
            let refusal = check(other).unwrap_err();
            assert_eq!(
                refusal.status(),
                http::StatusCode::MISDIRECTED_REQUEST,
                "{other}"
            );
            assert!(refusal.message().contains("--public-url"), "{other}");
        }
        assert!(OwnOrigin::Loopback.check_host(&head("GET", &[])).is_err());
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert!(OwnOrigin::Loopback.check_host(&head("GET", &two)).is_err());
    }

    #[test]
    fn public_page_serves_its_own_name_only() {
        let check = |host: &str| public().check_host(&head("GET", &[("host", host)]));
        assert!(check("trellis.example.org").is_ok());
        for other in ["localhost", "trellis.example.org.evil", "example.org", ""] {
            let refusal = check(other).unwrap_err();
            assert!(refusal.message().contains("dashboard.publicUrl"), "{other}");
        }
    }

    #[test]
    fn requests_of_other_origins_are_refused() {
        let own = ("host", "localhost:8123");
        for (method, headers, is_own) in [
            ("GET", &[own][..], true),
            ("POST", &[own], false),
            ("GET", &[own, ("sec-fetch-site", "same-origin")], true),
            ("GET", &[own, ("sec-fetch-site", "cross-site")], false),
            ("GET", &[own, ("sec-fetch-site", "same-site")], false),
            ("GET", &[own, ("sec-fetch-site", "none")], false),
            ("POST", &[own, ("origin", "http://localhost:8123")], true),
            ("POST", &[own, ("origin", "http://localhost:9")], false),
            ("POST", &[own, ("origin", "https://localhost:8123")], false),
            ("POST", &[own, ("origin", "null")], false),
            (
                "POST",
                &[
                    own,
                    ("sec-fetch-site", "same-origin"),
                    ("origin", "http://evil.example"),
                ],
                false,
            ),
        ] {
            let result = OwnOrigin::Loopback.check_origin(&head(method, headers));
            assert_eq!(result.is_ok(), is_own, "{method} {headers:?}");
        }
        let own = ("host", "trellis.example.org");
        let origin = ("origin", "https://trellis.example.org");
        assert!(public().check_origin(&head("POST", &[own, origin])).is_ok());
        let origin = ("origin", "http://trellis.example.org");
        assert!(
            public()
                .check_origin(&head("POST", &[own, origin]))
                .is_err()
        );
    }

    #[test]
    fn only_json_bodies_are_read() {
        let check = |kind: &str| check_body(&head("POST", &[("content-type", kind)]));
        assert!(check("application/json").is_ok());
        assert!(check("application/json; charset=utf-8").is_ok());
        for form in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "",
            "multipart/form-data",
        ] {
            assert!(check(form).is_err(), "{form}");
        }
        assert!(check_body(&head("POST", &[])).is_err());
        assert!(check_body(&head("GET", &[])).is_ok());
    }

    #[test]
    fn public_url_is_an_origin() {
        for wrong in [
            "trellis.example.org",
            "ftp://a",
            "https://a/b",
            "https://u@a",
            "https://a/?q",
            "",
        ] {
            assert!(wrong.parse::<PublicUrl>().is_err(), "{wrong}");
        }
        let url: PublicUrl = "https://a.example:8443".parse().unwrap();
        assert_eq!(url.to_string(), "https://a.example:8443");
    }
}
