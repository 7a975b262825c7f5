//! Parses requests as the RequestInfo of the API server.

use std::collections::BTreeMap;

use http::{HeaderMap, Method, Uri, header};

/// The action and the object that a method and a path ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    pub(crate) verb: &'static str,
    /// Segments of a path that names no resource, such as `/version`. Otherwise empty.
    pub(crate) other_path: Option<String>,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    /// Empty: all namespaces, or a kind without namespaces.
    pub(crate) namespace: String,
    /// Empty: the collection.
    pub(crate) name: String,
    /// Number of segments after the subresource.
    pub(crate) surplus_segments: usize,
    pub(crate) query: Query,
}

/// The parameters of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    fn parse(uri: &Uri) -> Self {
        let pairs = uri.query().unwrap_or_default().split('&');
        let pairs = pairs.filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode_percent(name), decode_percent(value))
        });
        Self(decoded.collect())
    }

    /// Returns a parameter. Empty if it is absent.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        matches!(self.get(name), "true" | "1")
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.get("dryRun") == "All"
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name).parse().ok()
    }
}

impl RequestInfo {
    pub(crate) fn parse(method: &Method, uri: &Uri) -> Self {
        let query = Query::parse(uri);
        let segments: Vec<String> = uri
            .path()
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(decode_percent)
            .collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let mut info = Self {
            verb: "get",
            other_path: None,
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            surplus_segments: 0,
            query,
        };
        let rest = match segments.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => {
                info.version = (*version).to_owned();
                rest
            }
            ["apis", group, version, rest @ ..] if !rest.is_empty() => {
                (info.group, info.version) = ((*group).to_owned(), (*version).to_owned());
                rest
            }
            _ => {
                info.other_path = Some(format!("/{}", segments.join("/")));
                &[]
            }
        };
        let rest = match rest {
            // A namespace has these two subresources. Any other name here is a resource in it.
            ["namespaces", namespace, inner @ ..] if !inner.is_empty() => {
                info.namespace = (*namespace).to_owned();
                if matches!(inner, ["status" | "finalize"]) {
                    rest
                } else {
                    inner
                }
            }
            ["namespaces", name] => {
                info.namespace = (*name).to_owned();
                rest
            }
            other => other,
        };
        let segment = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        info.resource = segment(0);
        info.name = segment(1);
        info.subresource = segment(2);
        info.surplus_segments = rest.len().saturating_sub(3);
        info.verb = info.verb_of(method);
        info
    }

    fn verb_of(&self, method: &Method) -> &'static str {
        let is_collection = self.name.is_empty();
        match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if is_collection => "deletecollection",
            Method::DELETE => "delete",
            Method::GET | Method::HEAD if self.other_path.is_some() => "get",
            Method::GET | Method::HEAD if self.query.is_true("watch") => "watch",
            Method::GET | Method::HEAD if is_collection => "list",
            Method::GET | Method::HEAD => "get",
            _ => "",
        }
    }

    /// Returns the namespace for kinds that have one. The objects of the kind Namespace have none.
    pub(crate) fn object_namespace(&self, namespaced: bool) -> &str {
        if namespaced { &self.namespace } else { "" }
    }
}

fn decode_percent(text: &str) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = digits.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
                continue;
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(*first),
        }
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The form of the objects in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The whole objects.
    Whole,
    /// The metadata alone: `PartialObjectMetadata`.
    Metadata,
}

/// Returns the view that the `Accept` header prefers, or None if the server supports none of its
/// media types.
pub(crate) fn requested_view(headers: &HeaderMap) -> Option<View> {
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok());
    let Some(accept) = accept.filter(|accept| !accept.is_empty()) else {
        return Some(View::Whole);
    };
    accept.split(',').find_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        if !matches!(parts.next()?, "application/json" | "application/*" | "*/*") {
            return None;
        }
        match parts.find_map(|part| part.strip_prefix("as=")) {
            None => Some(View::Whole),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Some(View::Metadata),
            Some(_) => None,
        }
    })
}

/// Returns the content type without its parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE);
    let value = value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: Method, uri: &str) -> RequestInfo {
        RequestInfo::parse(&method, &uri.parse().expect("a valid URI"))
    }

    #[test]
    fn path_names_resource_namespace_name_and_subresource() {
        let cases = [
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/p",
                "get",
                "pods",
                "",
                "a",
                "p",
            ),
            (
                Method::GET,
                "/api/v1/pods?limit=500",
                "list",
                "pods",
                "",
                "",
                "",
            ),
            (
                Method::GET,
                "/api/v1/pods?watch=1",
                "watch",
                "pods",
                "",
                "",
                "",
            ),
            (
                Method::GET,
                "/api/v1/namespaces",
                "list",
                "namespaces",
                "",
                "",
                "",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a",
                "get",
                "namespaces",
                "",
                "a",
                "a",
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/a/finalize",
                "update",
                "namespaces",
                "finalize",
                "a",
                "a",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/status",
                "get",
                "namespaces",
                "status",
                "a",
                "a",
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods/p/binding",
                "create",
                "pods",
                "binding",
                "a",
                "p",
            ),
            (
                Method::DELETE,
                "/apis/apps/v1/namespaces/a/daemonsets/d",
                "delete",
                "daemonsets",
                "",
                "a",
                "d",
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/pods",
                "deletecollection",
                "pods",
                "",
                "a",
                "",
            ),
            (
                Method::PATCH,
                "/apis/x.y/v1/things/t/status",
                "patch",
                "things",
                "status",
                "",
                "t",
            ),
        ];
        for (method, uri, verb, resource, subresource, namespace, name) in cases {
            let info = parse(method, uri);
            let parsed = [
                &info.resource,
                &info.subresource,
                &info.namespace,
                &info.name,
            ];
            assert_eq!(parsed, [resource, subresource, namespace, name], "{uri}");
            assert_eq!(info.verb, verb, "{uri}");
        }
        assert_eq!(
            parse(Method::GET, "/version").other_path.as_deref(),
            Some("/version")
        );
    }

    #[test]
    fn query_is_decoded() {
        let info = parse(
            Method::GET,
            "/api/v1/pods?labelSelector=a%3Db%2Cc+in+%28d%29&x",
        );
        assert_eq!(info.query.get("labelSelector"), "a=b,c in (d)");
        assert_eq!(info.query.get("absent"), "");
    }
}
