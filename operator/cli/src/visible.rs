//! What the engine alone knows, read through the API server ([`trellis_api::visibility`]).

use std::fmt::Debug;

use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::cluster::Unread;

/// What came of asking.
#[derive(Debug)]
pub enum Visible<T> {
    /// It is so.
    Told(T),
    /// There is no such object.
    Nothing,
    /// The cluster does not serve it now, and why.
    Unserved(&'static str),
    /// The right is missing, and in whose words.
    Denied(String),
}

impl<T> Visible<T> {
    /// What was told, if anything was.
    #[must_use]
    pub fn told(self) -> Option<T> {
        match self {
            Self::Told(told) => Some(told),
            _ => None,
        }
    }
}

const NOT_INSTALLED: &str = "the cluster does not serve visibility.trellis.dev: install the chart with visibility.enabled, which is its default";
const NO_LEADER: &str =
    "no scheduler answers now: `kubectl get apiservice v1alpha1.visibility.trellis.dev` says why";

/// All that there is of a kind, as of one moment.
///
/// # Errors
/// If the cluster cannot be reached.
pub async fn all<K>(api: &Api<K>) -> Result<Visible<Vec<K>>, Unread>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    // Not page by page: pages of different moments tell no queue.
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(Visible::Told(list.items)),
        Err(error) => sorted::<K, _>("list", error, true),
    }
}

/// The object of that name.
///
/// # Errors
/// If the cluster cannot be reached.
pub async fn one<K>(api: &Api<K>, name: &str) -> Result<Visible<K>, Unread>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    match api.get(name).await {
        Ok(object) => Ok(Visible::Told(object)),
        Err(error) => sorted::<K, _>("get", error, false),
    }
}

fn sorted<K, T>(verb: &'static str, error: kube::Error, is_list: bool) -> Result<Visible<T>, Unread>
where
    K: Resource<DynamicType = ()>,
{
    let kube::Error::Api(status) = &error else {
        return Err(Unread::new::<K>(verb, error));
    };
    match status.code {
        401 | 403 => Ok(Visible::Denied(status.message.clone())),
        // A list of a kind that is known is never not found.
        404 if is_list || status.reason != "NotFound" => Ok(Visible::Unserved(NOT_INSTALLED)),
        404 => Ok(Visible::Nothing),
        429 | 500..=599 => Ok(Visible::Unserved(NO_LEADER)),
        _ => Err(Unread::new::<K>(verb, error)),
    }
}
