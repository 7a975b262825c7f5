//! Reads from the API server, and the errors of these reads.

use std::fmt::Debug;

use anyhow::anyhow;
use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::text::sanitize;
use crate::{ReadError, ReadFailure};

/// Number of objects in one page of a list.
const PAGE_SIZE: u32 = 500;
/// Number of restarts of a list after its continue token has expired.
const RESTARTS: usize = 3;

/// Lists all objects of a kind, page by page.
/// Returns None if the cluster does not know the kind.
///
/// # Errors
/// If the objects cannot be read.
pub async fn list<K>(api: &Api<K>, params: &ListParams) -> Result<Option<Vec<K>>, ApiFailure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    list_parts(api, params, Some).await
}

/// Lists a part of each object of a kind, page by page. No more than one page of whole objects is
/// in memory. Returns None if the cluster does not know the kind.
///
/// # Errors
/// If the objects cannot be read.
pub async fn list_parts<K, T>(
    api: &Api<K>,
    params: &ListParams,
    take_part: impl Fn(K) -> Option<T>,
) -> Result<Option<Vec<T>>, ApiFailure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let mut parts = Vec::new();
    let mut params = params.clone().limit(PAGE_SIZE);
    let mut restarts = 0_usize;
    loop {
        match api.list(&params).await {
            Ok(page) => {
                parts.extend(page.items.into_iter().filter_map(&take_part));
                match page.metadata.continue_.filter(|c| !c.is_empty()) {
                    Some(token) => params.continue_token = Some(token),
                    None => return Ok(Some(parts)),
                }
            }
            Err(kube::Error::Api(status)) if status.code == 410 && restarts < RESTARTS => {
                restarts = restarts.saturating_add(1);
                parts.clear();
                params.continue_token = None;
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(ApiFailure::new::<K>("list", error)),
        }
    }
}

/// Gets the object of that name, if it exists.
///
/// # Errors
/// If the object cannot be read.
pub async fn get_optional<K>(api: &Api<K>, name: &str) -> Result<Option<K>, ApiFailure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    match api.get(name).await {
        Ok(object) => Ok(Some(object)),
        // An unknown kind also returns 404, but its reason is not "NotFound". `list` makes the same
        // distinction.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(ApiFailure::new::<K>("get", error)),
    }
}

/// Advice for users if a read fails.
#[derive(Clone, Debug)]
pub struct ErrorHints {
    /// Advice if the user lacks a right.
    pub rights: String,
    /// Advice for work without a cluster. None: only another cluster helps.
    pub without_cluster: Option<&'static str>,
}

/// A failed request to the API server.
#[derive(Debug)]
pub struct ApiFailure {
    verb: &'static str,
    kinds: String,
    error: Box<kube::Error>,
}

impl ApiFailure {
    /// A failed request with this verb for the kind `K`.
    pub fn new<K: Resource<DynamicType = ()>>(verb: &'static str, error: kube::Error) -> Self {
        Self {
            verb,
            kinds: K::plural(&()).into_owned(),
            error: Box::new(error),
        }
    }

    /// Returns true if the user lacks the right. A retry does not help then.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self.kind(), ReadFailure::Denied | ReadFailure::Unauthorized)
    }

    /// The kind of the failure.
    #[must_use]
    pub fn kind(&self) -> ReadFailure {
        match &*self.error {
            kube::Error::Api(status) => match status.code {
                401 => ReadFailure::Unauthorized,
                403 => ReadFailure::Denied,
                400 | 422 => ReadFailure::Invalid,
                _ => ReadFailure::Unreachable,
            },
            _ => ReadFailure::Unreachable,
        }
    }

    /// The error for the user, with its kind.
    #[must_use]
    pub fn into_read_error(self, hints: &ErrorHints) -> ReadError {
        ReadError {
            failure: self.kind(),
            message: self.explain(hints),
        }
    }

    /// Describes the failure and how to fix it.
    #[must_use]
    pub fn explain(self, hints: &ErrorHints) -> anyhow::Error {
        let Self { verb, kinds, error } = self;
        let otherwise = hints.without_cluster.map(|hint| format!(" ({hint})"));
        let otherwise = otherwise.unwrap_or_default();
        let text = match *error {
            kube::Error::Api(status) if matches!(status.code, 401 | 403) => {
                let hint = hints.without_cluster.map(|hint| format!("; {hint}"));
                format!(
                    "the right to do so is missing: {} ({}{})",
                    status.message,
                    hints.rights,
                    hint.unwrap_or_default(),
                )
            }
            kube::Error::Api(status) => status.message.clone(),
            kube::Error::SerdeError(error) => format!("the answer cannot be decoded: {error}"),
            error => format!(
                "the cluster cannot be reached: {}{otherwise}",
                root_cause(&error)
            ),
        };
        // The text contains data from other systems. The caller may print the error without
        // sanitizing it.
        anyhow!("cannot {verb} {kinds}: {}", sanitize(&text))
    }
}

/// Returns the innermost cause. The outer errors add no information.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
