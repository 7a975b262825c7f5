//! Reads of the API server, and what keeps us from them.

use std::fmt::Debug;

use anyhow::anyhow;
use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::output::sanitize;

/// Objects of one answer of the API server.
const PAGE_SIZE: u32 = 500;
/// Lists that are begun anew because the pages of an earlier one have expired.
const RESTARTS: usize = 3;

/// All objects of a kind, page by page. None if the cluster does not know the kind.
///
/// # Errors
/// If they cannot be read.
pub async fn list<K>(api: &Api<K>, params: &ListParams) -> Result<Option<Vec<K>>, ApiFailure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let mut objects = Vec::new();
    let mut params = params.clone().limit(PAGE_SIZE);
    let mut restarts = 0_usize;
    loop {
        match api.list(&params).await {
            Ok(page) => {
                objects.extend(page.items);
                match page.metadata.continue_.filter(|c| !c.is_empty()) {
                    Some(token) => params.continue_token = Some(token),
                    None => return Ok(Some(objects)),
                }
            }
            Err(kube::Error::Api(status)) if status.code == 410 && restarts < RESTARTS => {
                restarts = restarts.saturating_add(1);
                objects.clear();
                params.continue_token = None;
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(ApiFailure::new::<K>("list", error)),
        }
    }
}

/// The object of that name, if it is there.
///
/// # Errors
/// If it cannot be read.
pub async fn get_optional<K>(api: &Api<K>, name: &str) -> Result<Option<K>, ApiFailure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    match api.get(name).await {
        Ok(object) => Ok(Some(object)),
        // As in a list: a kind that the cluster does not know is no "NotFound".
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(ApiFailure::new::<K>("get", error)),
    }
}

/// What to do where something cannot be read.
#[derive(Clone, Debug)]
pub struct ErrorHints {
    /// Where a right is missing.
    pub rights: String,
    /// Where the cluster is of no use at all. None: nothing but another cluster.
    pub without_cluster: Option<&'static str>,
}

/// What could not be read or done, and why.
#[derive(Debug)]
pub struct ApiFailure {
    verb: &'static str,
    kinds: String,
    error: Box<kube::Error>,
}

impl ApiFailure {
    /// That this kind could not be had so.
    pub fn new<K: Resource<DynamicType = ()>>(verb: &'static str, error: kube::Error) -> Self {
        Self {
            verb,
            kinds: K::plural(&()).into_owned(),
            error: Box::new(error),
        }
    }

    /// True if the right is missing, which no new try would change.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(&*self.error, kube::Error::Api(status) if matches!(status.code, 401 | 403))
    }

    /// What keeps us from it, and what to do about it.
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
            kube::Error::SerdeError(error) => format!("an answer does not decode: {error}"),
            error => format!(
                "the cluster cannot be reached: {}{otherwise}",
                root_cause(&error)
            ),
        };
        // Whoever prints it may be no part of this crate: what others have said in it is harmless.
        anyhow!("cannot {verb} {kinds}: {}", sanitize(&text))
    }
}

/// The innermost cause: what is around it only says that there is one.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
