//! A parsed request to the API server.

use std::{fmt, sync::Arc};

use http::{Method, Uri, header, request::Parts};
use hyper::body::Bytes;
use serde_json::Value;

/// The verb of a request, as the API server names it, except that server-side apply is distinct
/// from other patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Apply,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// Returns true for verbs that change objects, unless the request is a dry run.
    pub fn is_mutating(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        })
    }
}

/// Selects requests.
pub(super) type RequestFilter = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

/// A request to the API server.
#[derive(Debug, Clone)]
pub struct Request {
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The verb.
    pub verb: Verb,
    /// Plural, group if it is not the core group, and subresource: `pods`, `pods/binding`,
    /// `podgroups.trellis.dev/status`. For other requests, the path (`/version`).
    pub resource: String,
    /// The namespace in the path.
    pub namespace: Option<String>,
    /// The name in the path. [`Request::object_name`] also finds the name of a created object.
    pub name: Option<String>,
    /// `dryRun=All`.
    pub dry_run: bool,
    /// Path and query.
    pub path: String,
    /// The body.
    pub body: Bytes,
}

impl Request {
    pub(super) fn new(parts: &Parts, body: Bytes) -> Self {
        let user_agent = parts.headers.get(header::USER_AGENT);
        let user_agent = user_agent
            .and_then(|agent| agent.to_str().ok())
            .unwrap_or_default();
        let apply = parts
            .headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/apply-patch"));
        let path = RequestPath::parse(parts.uri.path());
        let verb = match parts.method {
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH if apply => Verb::Apply,
            Method::PATCH => Verb::Patch,
            Method::DELETE if path.name.is_some() => Verb::Delete,
            Method::DELETE => Verb::DeleteCollection,
            _ if query_has(&parts.uri, "watch", &["true", "1"]) => Verb::Watch,
            _ if path.name.is_some() || path.no_resource => Verb::Get,
            _ => Verb::List,
        };
        Self {
            user_agent: user_agent.to_owned(),
            verb,
            resource: path.resource,
            namespace: path.namespace,
            name: path.name,
            dry_run: query_has(&parts.uri, "dryRun", &["All"]),
            path: parts
                .uri
                .path_and_query()
                .map(ToString::to_string)
                .unwrap_or_default(),
            body,
        }
    }

    /// Returns true if the request changes an object: it has a mutating verb, is no dry run, and
    /// creates no review (`subjectaccessreviews`, `tokenreviews`).
    pub fn is_write(&self) -> bool {
        is_write(self.verb, &self.resource, self.dry_run)
    }

    /// Returns true for leader election, which continues during every test.
    pub fn is_lease(&self) -> bool {
        is_lease(&self.resource)
    }

    /// Returns true for events of both API groups.
    pub fn is_event(&self) -> bool {
        self.resource == "events" || self.resource == "events.events.k8s.io"
    }

    /// Returns the name of the object. For a create request, it comes from the body.
    pub fn object_name(&self) -> Option<String> {
        if self.name.is_some() {
            return self.name.clone();
        }
        let body: Value = serde_json::from_slice(&self.body).ok()?;
        Some(body.pointer("/metadata/name")?.as_str()?.to_owned())
    }
}

/// See [`Request::is_lease`].
pub(super) fn is_lease(resource: &str) -> bool {
    resource == "leases.coordination.k8s.io"
}

/// See [`Request::is_write`].
pub(super) fn is_write(verb: Verb, resource: &str, dry_run: bool) -> bool {
    let asks = [".authorization.k8s.io", ".authentication.k8s.io"];
    verb.is_mutating() && !dry_run && !asks.iter().any(|group| resource.ends_with(group))
}

/// Returns true if the query sets `name` to one of `values`.
fn query_has(uri: &Uri, name: &str, values: &[&str]) -> bool {
    uri.query().unwrap_or_default().split('&').any(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        key == name && values.contains(&value)
    })
}

/// Parses the paths `/api/v1/...` and `/apis/<group>/<version>/...` like the API server's
/// RequestInfo.
#[derive(Debug, PartialEq, Eq)]
struct RequestPath {
    resource: String,
    no_resource: bool,
    namespace: Option<String>,
    name: Option<String>,
}

impl RequestPath {
    fn parse(path: &str) -> Self {
        let segments: Vec<&str> = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .collect();
        let (group, rest) = match segments.as_slice() {
            ["api", _version, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _version, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => {
                let resource = path.to_owned();
                return Self {
                    resource,
                    no_resource: true,
                    namespace: None,
                    name: None,
                };
            }
        };
        let (namespace, rest) = match rest {
            // A namespace has these two subresources. Any other name here is a resource in the
            // namespace.
            ["namespaces", namespace, inner @ ..]
                if !inner.is_empty() && !matches!(inner, ["status" | "finalize"]) =>
            {
                (Some((*namespace).to_owned()), inner)
            }
            other => (None, other),
        };
        let mut resource = rest.first().copied().unwrap_or_default().to_owned();
        if !group.is_empty() {
            resource = format!("{resource}.{group}");
        }
        if let Some(subresource) = rest.get(2) {
            resource = format!("{resource}/{subresource}");
        }
        let name = rest.get(1).map(|name| (*name).to_owned());
        Self {
            resource,
            no_resource: false,
            namespace,
            name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, uri: &str, content_type: &str, body: &str) -> Request {
        let (parts, ()) = http::Request::builder()
            .method(method)
            .uri(uri)
            .header("user-agent", "trellis/0.1")
            .header("content-type", content_type)
            .body(())
            .unwrap()
            .into_parts();
        Request::new(&parts, Bytes::copy_from_slice(body.as_bytes()))
    }

    #[test]
    fn requests_are_parsed() {
        let cases = [
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/p",
                Verb::Get,
                "pods",
                Some("a"),
                Some("p"),
            ),
            (
                Method::GET,
                "/api/v1/pods?limit=500",
                Verb::List,
                "pods",
                None,
                None,
            ),
            (
                Method::GET,
                "/api/v1/pods?watch=true&a=b",
                Verb::Watch,
                "pods",
                None,
                None,
            ),
            (
                Method::GET,
                "/api/v1/namespaces",
                Verb::List,
                "namespaces",
                None,
                None,
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a",
                Verb::Get,
                "namespaces",
                None,
                Some("a"),
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/a/finalize",
                Verb::Update,
                "namespaces/finalize",
                None,
                Some("a"),
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods",
                Verb::Create,
                "pods",
                Some("a"),
                None,
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods/p/binding",
                Verb::Create,
                "pods/binding",
                Some("a"),
                Some("p"),
            ),
            (
                Method::PATCH,
                "/apis/trellis.dev/v1alpha1/namespaces/a/podgroups/g/status",
                Verb::Patch,
                "podgroups.trellis.dev/status",
                Some("a"),
                Some("g"),
            ),
            (
                Method::DELETE,
                "/apis/apps/v1/namespaces/a/deployments/d",
                Verb::Delete,
                "deployments.apps",
                Some("a"),
                Some("d"),
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/pods",
                Verb::DeleteCollection,
                "pods",
                Some("a"),
                None,
            ),
            (Method::GET, "/version", Verb::Get, "/version", None, None),
            (
                Method::GET,
                "/apis/apps/v1",
                Verb::Get,
                "/apis/apps/v1",
                None,
                None,
            ),
        ];
        for (method, uri, verb, resource, namespace, name) in cases {
            let request = request(method, uri, "application/json", "");
            assert_eq!(request.verb, verb, "{uri}");
            assert_eq!(request.resource, resource, "{uri}");
            assert_eq!(request.namespace.as_deref(), namespace, "{uri}");
            assert_eq!(request.name.as_deref(), name, "{uri}");
        }
    }

    #[test]
    fn reviews_and_dry_runs_are_no_writes() {
        let pods = "/api/v1/namespaces/a/pods";
        let body = r#"{"metadata": {"name": "p"}}"#;
        let create = request(Method::POST, pods, "application/json", body);
        assert!(create.is_write());
        assert_eq!(create.object_name().as_deref(), Some("p"));
        let dry = request(
            Method::POST,
            &format!("{pods}?dryRun=All"),
            "application/json",
            body,
        );
        assert!(dry.dry_run && !dry.is_write());
        let apply = request(
            Method::PATCH,
            &format!("{pods}/p"),
            "application/apply-patch+yaml",
            "",
        );
        assert_eq!(apply.verb, Verb::Apply);
        let review = request(
            Method::POST,
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            "application/json",
            "{}",
        );
        assert!(!review.is_write());
    }
}
