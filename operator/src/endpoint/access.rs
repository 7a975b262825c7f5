//! Who asks, and whether they may know. The API server says both: the token is
//! one that it knows (TokenReview), and the right is one that it gives
//! (SubjectAccessReview). What cannot be found out is refused.

use axum::http::{HeaderMap, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::commands::WriteError;

/// What somebody wants to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants<'a> {
    /// What is known of the jobs of a namespace, or of all: for who may list them.
    Jobs(Option<&'a str>),
    /// What is at a path: for who may get that path.
    Path(&'a str),
}

/// Why it is not for them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Denied {
    /// Nobody knows who they are.
    #[error("{0}")]
    Unauthenticated(String),
    /// They lack the right.
    #[error("{0}")]
    Forbidden(String),
    /// The API server does not say.
    #[error("it is not known who you are and what you may: {0}")]
    Unknown(String),
}

/// Lets through who bears a token of someone with the right.
pub(crate) async fn check(
    client: &Client,
    headers: &HeaderMap,
    wants: Wants<'_>,
) -> Result<(), Denied> {
    let token = token(headers)?;
    let user = authenticate(client, token).await?;
    authorize(client, user, wants).await
}

fn token(headers: &HeaderMap) -> Result<&str, Denied> {
    let header = headers.get(header::AUTHORIZATION);
    let value = header.and_then(|value| value.to_str().ok());
    let (scheme, token) = value.and_then(|v| v.split_once(' ')).unwrap_or_default();
    let token = token.trim();
    if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() {
        Ok(token)
    } else {
        Err(Denied::Unauthenticated(
            "a bearer token is needed, in the header Authorization: `kubectl create token` makes one for a ServiceAccount".to_owned(),
        ))
    }
}

async fn authenticate(client: &Client, token: &str) -> Result<UserInfo, Denied> {
    let review = TokenReview {
        spec: TokenReviewSpec {
            token: token.to_owned(),
            audiences: None,
        },
        ..TokenReview::default()
    };
    let reviews: Api<TokenReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await;
    let answer = answer.map_err(unknown)?;
    let status = answer.status.unwrap_or_default();
    match status.user {
        Some(user) if status.authenticated == Some(true) => Ok(user),
        _ => Err(Denied::Unauthenticated(
            "the API server does not know the bearer token: it may have expired".to_owned(),
        )),
    }
}

/// In the API server's own words.
fn unknown(error: kube::Error) -> Denied {
    Denied::Unknown(WriteError::from(error).to_string())
}

async fn authorize(client: &Client, user: UserInfo, wants: Wants<'_>) -> Result<(), Denied> {
    let name = user.username.clone().unwrap_or_default();
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews
        .create(&PostParams::default(), &review(user, wants))
        .await;
    let answer = answer.map_err(unknown)?;
    let status = answer.status.unwrap_or_default();
    if status.allowed && status.denied != Some(true) {
        return Ok(());
    }
    Err(Denied::Forbidden(format!("{name:?} {}", lacks(wants))))
}

fn review(user: UserInfo, wants: Wants<'_>) -> SubjectAccessReview {
    let (resource, path) = match wants {
        Wants::Jobs(namespace) => {
            let jobs = ResourceAttributes {
                group: Some("trellis.dev".to_owned()),
                resource: Some("trainingjobs".to_owned()),
                verb: Some("list".to_owned()),
                namespace: namespace.map(str::to_owned),
                ..ResourceAttributes::default()
            };
            (Some(jobs), None)
        }
        Wants::Path(path) => {
            let path = NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some("get".to_owned()),
            };
            (None, Some(path))
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

fn lacks(wants: Wants<'_>) -> String {
    match wants {
        Wants::Jobs(None) => "may not list trainingjobs.trellis.dev in all namespaces: ask for one with ?namespace=NAME, or for the right".to_owned(),
        Wants::Jobs(Some(namespace)) => {
            format!("may not list trainingjobs.trellis.dev in namespace {namespace:?}")
        }
        Wants::Path(path) => format!("may not get {path:?}: a ClusterRole gives that with nonResourceURLs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_bearer_token() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            token(&headers).map(str::to_owned).ok()
        };
        assert_eq!(of("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(of("bearer  abc ").as_deref(), Some("abc"));
        for refused in ["", "abc", "Basic abc", "Bearer", "Bearer "] {
            assert_eq!(of(refused), None, "{refused:?}");
        }
        assert!(token(&HeaderMap::new()).is_err());
    }

    #[test]
    fn no_namespace_is_all_of_them() {
        let user = UserInfo {
            username: Some("ann".to_owned()),
            groups: Some(vec!["team-a".to_owned()]),
            ..UserInfo::default()
        };
        let asked = review(user.clone(), Wants::Jobs(None)).spec;
        assert_eq!(asked.groups.unwrap(), ["team-a"]);
        assert_eq!(asked.resource_attributes.unwrap().namespace, None);
        assert_eq!(asked.non_resource_attributes, None);
        let asked = review(user, Wants::Path("/v1alpha1/snapshot")).spec;
        assert_eq!(asked.resource_attributes, None);
        let path = asked.non_resource_attributes.unwrap().path;
        assert_eq!(path.as_deref(), Some("/v1alpha1/snapshot"));
    }
}
