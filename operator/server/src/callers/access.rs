//! Authenticates and authorizes callers. The API server decides on both. It names the user of a
//! request that it forwards (`front_proxy`), or it checks the token (TokenReview). Then it grants
//! the right (SubjectAccessReview). If it does not answer, the endpoint refuses the request.

use axum::http::{HeaderMap, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use trellis_api::visibility::{self, Plan};
use trellis_dispatch::commands::WriteError;

/// Right that a caller needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequiredRight<'a> {
    /// Read the jobs of a namespace, or of all: needs `list` on trainingjobs.
    Jobs(Option<&'a str>),
    /// Submit jobs in a namespace, or in all: needs `create` on trainingjobs.
    SubmitJobs(Option<&'a str>),
    /// Read a path: needs `get` on that path.
    Path(&'a str),
    /// A resource of the API group that is served here.
    Resource(ResourceRight<'a>),
}

/// A resource, and the verb on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResourceRight<'a> {
    /// Plural name of the resource.
    pub(crate) resource: &'a str,
    /// `get`, `list` or another verb.
    pub(crate) verb: &'a str,
    /// None: all namespaces, or the resource is cluster-scoped.
    pub(crate) namespace: Option<&'a str>,
    /// None: all objects.
    pub(crate) name: Option<&'a str>,
}

/// Why a request is denied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessDenied {
    /// The caller is not authenticated.
    #[error("{0}")]
    Unauthenticated(String),
    /// The caller lacks the right.
    #[error("{0}")]
    Forbidden(String),
    /// The API server does not answer.
    #[error("your identity and rights could not be checked: {0}")]
    Unknown(String),
}

/// Denies a caller that has no token and that the front proxy does not name.
pub(super) fn deny_missing_credentials(
    headers: &HeaderMap,
    proxy_problem: Option<&str>,
) -> AccessDenied {
    let mut message = "a bearer token is needed, in the header Authorization: `kubectl create token` makes one for a ServiceAccount".to_owned();
    let claims = headers.keys().any(|h| h.as_str().starts_with("x-remote-"));
    if claims {
        let why = proxy_problem.unwrap_or("the API server's front proxy is not known yet");
        message = format!("{message}; the headers that name a user are not trusted: {why}");
    }
    AccessDenied::Unauthenticated(message)
}

/// Returns the bearer token.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get(header::AUTHORIZATION);
    let value = header.and_then(|value| value.to_str().ok());
    let (scheme, token) = value.and_then(|v| v.split_once(' ')).unwrap_or_default();
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Returns the user to whom a token belongs.
pub(super) async fn authenticate(client: &Client, token: &str) -> Result<UserInfo, AccessDenied> {
    let review = TokenReview {
        spec: TokenReviewSpec {
            token: token.to_owned(),
            audiences: None,
        },
        ..TokenReview::default()
    };
    let reviews: Api<TokenReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await;
    let answer = answer.map_err(deny_unreachable)?;
    let status = answer.status.unwrap_or_default();
    match status.user {
        Some(user) if status.authenticated == Some(true) => Ok(user),
        _ => Err(deny_unknown_token()),
    }
}

/// Denies a token that is invalid or has expired.
pub(super) fn deny_unknown_token() -> AccessDenied {
    let message = "the API server does not know the bearer token: it may have expired";
    AccessDenied::Unauthenticated(message.to_owned())
}

/// Reports the API server's own error.
fn deny_unreachable(error: kube::Error) -> AccessDenied {
    AccessDenied::Unknown(WriteError::from(error).to_string())
}

/// True if the API server grants the right.
pub(super) async fn review_access(
    client: &Client,
    review: &SubjectAccessReview,
) -> Result<bool, AccessDenied> {
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), review).await;
    let status = answer.map_err(deny_unreachable)?.status.unwrap_or_default();
    Ok(status.allowed && status.denied != Some(true))
}

/// Denies a caller that lacks the right.
pub(crate) fn deny_missing_right(user: &UserInfo, right: RequiredRight<'_>) -> AccessDenied {
    let name = user.username.as_deref().unwrap_or_default();
    AccessDenied::Forbidden(format!("{name:?} {}", missing_right_message(right)))
}

fn job_attributes(verb: &str, namespace: Option<&str>) -> ResourceAttributes {
    ResourceAttributes {
        group: Some("trellis.dev".to_owned()),
        resource: Some("trainingjobs".to_owned()),
        verb: Some(verb.to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ResourceAttributes::default()
    }
}

/// Returns the review that asks for a right.
pub(super) fn build_review(user: UserInfo, right: RequiredRight<'_>) -> SubjectAccessReview {
    let (resource, path) = match right {
        RequiredRight::Jobs(namespace) => (Some(job_attributes("list", namespace)), None),
        RequiredRight::SubmitJobs(namespace) => (Some(job_attributes("create", namespace)), None),
        RequiredRight::Path(path) => {
            let path = NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some("get".to_owned()),
            };
            (None, Some(path))
        }
        RequiredRight::Resource(visible) => {
            let resource = ResourceAttributes {
                group: Some(visibility::GROUP.to_owned()),
                version: Some(visibility::VERSION.to_owned()),
                resource: Some(visible.resource.to_owned()),
                verb: Some(visible.verb.to_owned()),
                namespace: visible.namespace.map(str::to_owned),
                name: visible.name.map(str::to_owned),
                ..ResourceAttributes::default()
            };
            (Some(resource), None)
        }
    };
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            resource_attributes: resource,
            non_resource_attributes: path,
        },
        ..SubjectAccessReview::default()
    }
}

fn missing_right_message(right: RequiredRight<'_>) -> String {
    match right {
        RequiredRight::Jobs(None) => "may not list trainingjobs.trellis.dev in all namespaces: ask for one with ?namespace=NAME, or for the right".to_owned(),
        RequiredRight::Jobs(Some(namespace)) => {
            format!("may not list trainingjobs.trellis.dev in namespace {namespace:?}")
        }
        RequiredRight::SubmitJobs(namespace) => {
            let scope = namespace.map_or_else(
                || "in all namespaces".to_owned(),
                |namespace| format!("in namespace {namespace:?}"),
            );
            format!("may not create trainingjobs.trellis.dev {scope}")
        }
        RequiredRight::Path(path) => format!("may not get {path:?}: a ClusterRole gives that with nonResourceURLs"),
        RequiredRight::Resource(ResourceRight { resource, verb, namespace, .. }) => {
            let scope = match namespace {
                Some(namespace) => format!("in namespace {namespace:?}"),
                None => "at the cluster scope".to_owned(),
            };
            let group = visibility::GROUP;
            let roles = match resource == Plan::SERVED.plural {
                true => "the ClusterRole trellis-edit gives that",
                false => "the ClusterRoles trellis-view and trellis-platform give that",
            };
            format!("may not {verb} resource {resource:?} in API group {group:?} {scope}: {roles}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bearer_tokens_are_read() {
        let token_in = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            token(&headers).map(str::to_owned)
        };
        assert_eq!(token_in("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(token_in("bearer  abc ").as_deref(), Some("abc"));
        for refused in ["", "abc", "Basic abc", "Bearer", "Bearer "] {
            assert_eq!(token_in(refused), None, "{refused:?}");
        }
        assert_eq!(token(&HeaderMap::new()), None);
    }

    #[test]
    fn review_without_a_namespace_covers_all_namespaces() {
        let user = UserInfo {
            username: Some("ann".to_owned()),
            groups: Some(vec!["team-a".to_owned()]),
            ..UserInfo::default()
        };
        let review = build_review(user.clone(), RequiredRight::Jobs(None)).spec;
        assert_eq!(review.groups.unwrap(), ["team-a"]);
        assert_eq!(review.resource_attributes.unwrap().namespace, None);
        assert_eq!(review.non_resource_attributes, None);
        let visible = ResourceRight {
            resource: "jobstates",
            verb: "get",
            namespace: Some("team-a"),
            name: Some("llm"),
        };
        let review = build_review(user.clone(), RequiredRight::Resource(visible)).spec;
        assert_eq!(review.non_resource_attributes, None);
        let review = review.resource_attributes.unwrap();
        assert_eq!(review.group.as_deref(), Some("visibility.trellis.dev"));
        assert_eq!(review.namespace.as_deref(), Some("team-a"));
        assert_eq!(review.name.as_deref(), Some("llm"));
        let review = build_review(user, RequiredRight::Path("/v1alpha1/snapshot")).spec;
        assert_eq!(review.resource_attributes, None);
        let path = review.non_resource_attributes.unwrap().path;
        assert_eq!(path.as_deref(), Some("/v1alpha1/snapshot"));
    }
}
