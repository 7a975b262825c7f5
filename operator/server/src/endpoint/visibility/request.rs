//! Parses a request: path, query and Accept header. Pure.

use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use trellis_api::visibility::{ALL_RESOURCES, GROUP, ServedResource, VERSION};

use super::query::{RequestQuery, SelectedFields, WatchOptions};
use super::table::{Format, Include, TableRow};
use crate::callers::Failure;
use crate::callers::access::ResourceRight;

/// A parsed request.
#[derive(Debug, PartialEq)]
pub(super) enum ApiRequest {
    /// A discovery document.
    Document(DiscoveryPath),
    /// Objects of a resource.
    Object(ObjectRequest),
}

/// A document that describes the served resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiscoveryPath {
    /// `/apis`: the group, or the aggregated discovery document if the Accept header requests it.
    Groups {
        /// Serve the aggregated discovery document.
        aggregated: bool,
    },
    /// `/apis/GROUP`.
    Group,
    /// `/apis/GROUP/VERSION`.
    Resources,
    /// `/openapi/v2`: empty, because kubectl uses v3.
    OpenApi2,
    /// `/openapi/v3`: the path of the schemas.
    OpenApi3,
    /// `/openapi/v3/apis/GROUP/VERSION`.
    Schemas,
}

/// A serialized document.
pub(super) struct DiscoveryDocument {
    /// Content type of the document.
    pub(super) content_type: &'static str,
    /// Bytes of the document.
    pub(super) text: Vec<u8>,
}

/// Objects of a resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ObjectRequest {
    /// Resource of the objects.
    pub(super) served: &'static ServedResource,
    /// Verb, as authorization names it.
    pub(super) verb: &'static str,
    /// None: all namespaces, or the resource is cluster-scoped.
    pub(super) namespace: Option<String>,
    /// None: all objects.
    pub(super) name: Option<String>,
    /// Objects that a field selector names, among those of the namespace.
    pub(super) selected: SelectedFields,
    /// Format of the answer.
    pub(super) format: Format,
    /// How to watch the objects, if the verb is `watch`.
    pub(super) watch: WatchOptions,
    /// Error for an unsupported request. The server returns it after authorizing the caller.
    unsupported: Option<(StatusCode, String)>,
}

impl ApiRequest {
    /// Parses a request.
    pub(super) fn parse(head: &Parts) -> Result<Self, Failure> {
        let path = head.uri.path();
        let accepted = head.headers.get(header::ACCEPT);
        let accepted = accepted.and_then(|a| a.to_str().ok()).unwrap_or_default();
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let document = |document| {
            check_get(&head.method)?;
            Ok(Self::Document(document))
        };
        match segments.as_slice() {
            ["apis"] => document(DiscoveryPath::Groups {
                aggregated: accepts_aggregated(accepted),
            }),
            ["apis", GROUP] => document(DiscoveryPath::Group),
            ["apis", GROUP, VERSION] => document(DiscoveryPath::Resources),
            ["openapi", "v2"] => document(DiscoveryPath::OpenApi2),
            ["openapi", "v3"] => document(DiscoveryPath::OpenApi3),
            ["openapi", "v3", "apis", GROUP, VERSION] => document(DiscoveryPath::Schemas),
            ["apis", GROUP, VERSION, "namespaces", namespace, plural] => {
                parse_object(head, accepted, plural, Some(namespace), None)
            }
            [
                "apis",
                GROUP,
                VERSION,
                "namespaces",
                namespace,
                plural,
                name,
            ] => parse_object(head, accepted, plural, Some(namespace), Some(name)),
            ["apis", GROUP, VERSION, plural] => parse_object(head, accepted, plural, None, None),
            ["apis", GROUP, VERSION, plural, name] => {
                parse_object(head, accepted, plural, None, Some(name))
            }
            _ => Err(Failure::no_such_path(&head.uri)),
        }
    }
}

/// Parses a request, and returns its verb, or `document`.
#[cfg(feature = "fixtures")]
pub(crate) fn parse_request(head: &Parts) -> Result<&'static str, Failure> {
    match ApiRequest::parse(head)? {
        ApiRequest::Document(_) => Ok("document"),
        ApiRequest::Object(object) => object.check_supported().map(|()| object.verb),
    }
}

fn parse_object(
    head: &Parts,
    accepted: &str,
    plural: &str,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<ApiRequest, Failure> {
    let served = ALL_RESOURCES.iter().find(|served| served.plural == plural);
    let served = served.ok_or_else(|| Failure::no_such_resource(plural))?;
    let is_one_of_none = namespace.is_none() && name.is_some();
    if served.namespaced && is_one_of_none || !served.namespaced && namespace.is_some() {
        return Err(Failure::no_such_path(&head.uri));
    }
    let query = head.uri.query().unwrap_or_default();
    let query: Result<RequestQuery, _> = axum::extract::Query::try_from_uri(&head.uri)
        .map(|query| query.0)
        .map_err(|error| {
            format!(
                "the query {query:?} is not understood: {}",
                error.body_text()
            )
        });
    let is_watched = query.as_ref().is_ok_and(RequestQuery::is_watch);
    let verb = match (&head.method, name) {
        (&Method::GET, _) if is_watched => "watch",
        (&Method::GET, None) => "list",
        (&Method::GET, Some(_)) => "get",
        (&Method::POST, None) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, None) => "deletecollection",
        (&Method::DELETE, Some(_)) => "delete",
        _ => return Err(method_not_allowed(&head.method)),
    };
    let mut refused = query.as_ref().err().cloned();
    refused = refused.or_else(|| query.as_ref().ok()?.unsupported_parameter());
    let mut watch = WatchOptions::default();
    let mut selected = SelectedFields::default();
    if let Ok(query) = &query {
        match query.selected_fields() {
            Ok(fields) => selected = fields,
            Err(why) => refused = refused.or(Some(why)),
        }
        match query.watch_options() {
            Ok(options) if is_watched => watch = options,
            Err(why) if is_watched => refused = refused.or(Some(why)),
            _ => {}
        }
    }
    let mut refused = refused.map(|why| (StatusCode::BAD_REQUEST, why));
    if !served.verbs.contains(&verb) {
        let verbs = served.verbs.join(", ");
        let why = format!("{plural} cannot be asked to {verb}: the verbs are {verbs}");
        refused = Some((StatusCode::METHOD_NOT_ALLOWED, why));
    }
    let include = query.ok().and_then(|query| query.include_object);
    let include = match include.as_deref() {
        None | Some("" | "Metadata") => Some(Include::Metadata),
        Some("None") => Some(Include::None),
        Some("Object") => Some(Include::Object),
        Some(_) => None,
    };
    if include.is_none() && refused.is_none() {
        let why = "includeObject must be None, Metadata or Object".to_owned();
        refused = Some((StatusCode::BAD_REQUEST, why));
    }
    let format = Format::from_accept(accepted, include.unwrap_or(Include::Metadata));
    if format.is_none() && refused.is_none() {
        let why = "only application/json is served, and Table of meta.k8s.io/v1 of it: ask for one of them in Accept".to_owned();
        refused = Some((StatusCode::NOT_ACCEPTABLE, why));
    }
    Ok(ApiRequest::Object(ObjectRequest {
        served,
        verb,
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        selected,
        format: format.unwrap_or(Format::Json),
        watch,
        unsupported: refused,
    }))
}

impl ObjectRequest {
    /// The right that the request needs.
    pub(super) fn right(&self) -> ResourceRight<'_> {
        let one = self.name.as_deref().or(self.selected.name.as_deref());
        ResourceRight {
            resource: self.served.plural,
            verb: self.verb,
            namespace: self.namespace.as_deref(),
            name: one,
        }
    }

    /// Returns true if the request asks for this object.
    pub(super) fn selects(&self, row: &impl TableRow) -> bool {
        let metadata = row.metadata();
        let is_there = |asked: &Option<String>, own: &Option<String>| {
            asked.is_none() || asked.as_deref() == own.as_deref()
        };
        is_there(&self.namespace, &metadata.namespace)
            && is_there(&self.name, &metadata.name)
            && is_there(&self.selected.namespace, &metadata.namespace)
            && is_there(&self.selected.name, &metadata.name)
    }

    /// Fails if the request is not supported.
    pub(super) fn check_supported(&self) -> Result<(), Failure> {
        match &self.unsupported {
            None => Ok(()),
            Some((code, why)) => Err(Failure::new(*code, why)),
        }
    }
}

fn check_get(method: &Method) -> Result<(), Failure> {
    if method == Method::GET {
        Ok(())
    } else {
        Err(method_not_allowed(method))
    }
}

fn method_not_allowed(method: &Method) -> Failure {
    let message = format!("{method} is not served here");
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, message)
}

/// Returns true if the client accepts the aggregated discovery document.
fn accepts_aggregated(accepted: &str) -> bool {
    accepted.split(',').any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_json = parts.next() == Some("application/json");
        let parts: Vec<&str> = parts.collect();
        let parameters = ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"];
        is_json && parameters.iter().all(|part| parts.contains(part))
    })
}

#[cfg(test)]
impl ObjectRequest {
    /// Returns the request of a GET below the group's path.
    pub(super) fn get(path: &str) -> Self {
        let uri = format!("/apis/{GROUP}/{VERSION}{path}");
        let request = axum::http::Request::get(uri).body(()).unwrap();
        match ApiRequest::parse(&request.into_parts().0).unwrap() {
            ApiRequest::Object(object) => object,
            ApiRequest::Document(document) => panic!("{document:?}"),
        }
    }
}

#[cfg(test)]
mod tests;
