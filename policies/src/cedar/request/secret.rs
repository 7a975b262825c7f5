//! A Secret, or a secret in an external store, as a resource.

use cedar_policy::RestrictedExpression as Value;
use trellis_api::job::SecretStoreKind;
use trellis_api::job_policy::TestResource;
use trellis_compiler::RemoteSecret;

use super::object_name::NamespacedName;
use super::resource::{
    InvalidTestRequest, RequestBuildError, Resource, ResourceEntity, collect_attributes,
    string_value,
};

/// A secret that a job reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretRef {
    /// A Secret of the cluster.
    Cluster(NamespacedName),
    /// A secret in a store outside the cluster.
    Store(RemoteSecretRef),
}

/// A secret in an external store, and the requesting namespace, which holds the SecretStore.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemoteSecretRef {
    /// The namespace.
    pub namespace: String,
    /// The store, and the path in it.
    pub secret: RemoteSecret,
}

impl SecretRef {
    /// The secret in words, without a namespace.
    pub(super) fn short_description(&self) -> String {
        match self {
            Self::Cluster(object) => format!("the Secret {:?}", object.name),
            Self::Store(remote) => remote.describe(),
        }
    }

    /// How a job avoids the request.
    pub(super) fn remedy(&self) -> String {
        match self {
            Self::Cluster(_) => "do without it",
            Self::Store(_) => {
                "have a policy permit UseSecret on it, or remove it from spec.secrets"
            }
        }
        .to_owned()
    }
}

impl RemoteSecretRef {
    /// `ClusterSecretStore/<store>/<path>`, or `SecretStore/<store>/<path>`. No name of a Secret
    /// has a `/`, so the two cannot be equal.
    fn policy_name(&self) -> String {
        let RemoteSecret { kind, store, path } = &self.secret;
        format!("{}/{store}/{path}", kind.as_str())
    }

    fn describe(&self) -> String {
        let RemoteSecret { kind, store, path } = &self.secret;
        format!("{path:?} of {} {store:?}", kind.as_str())
    }

    fn entity(&self) -> Result<ResourceEntity<'_>, RequestBuildError> {
        let (name, secret) = (self.policy_name(), &self.secret);
        let store = Value::new_record(
            [
                ("kind", secret.kind.as_str()),
                ("name", &secret.store),
                ("path", &secret.path),
            ]
            .map(|(key, value)| (key.to_owned(), string_value(value))),
        )?;
        let id = match secret.kind {
            SecretStoreKind::SecretStore => format!("{}/{name}", self.namespace),
            SecretStoreKind::ClusterSecretStore => name.clone(),
        };
        Ok(ResourceEntity {
            id,
            attributes: collect_attributes([
                ("name", Some(string_value(&name))),
                ("store", Some(store)),
            ]),
            // A permit for a namespace's own Secrets must not cover a store.
            namespace: None,
        })
    }
}

impl Resource for SecretRef {
    fn from_test(namespace: &str, resource: &TestResource) -> Result<Self, InvalidTestRequest> {
        let Some(store) = &resource.store else {
            return NamespacedName::from_test(namespace, resource).map(Self::Cluster);
        };
        Ok(Self::Store(RemoteSecretRef {
            namespace: namespace.to_owned(),
            secret: RemoteSecret {
                kind: store.kind,
                store: store.name.clone(),
                path: store.path.clone(),
            },
        }))
    }

    fn entity(&self) -> Result<Option<ResourceEntity<'_>>, RequestBuildError> {
        match self {
            Self::Cluster(object) => object.entity(),
            Self::Store(remote) => remote.entity().map(Some),
        }
    }

    fn longest_text(&self) -> &str {
        match self {
            Self::Cluster(object) => &object.name,
            Self::Store(remote) => &remote.secret.path,
        }
    }

    fn describe(&self, kind: &str) -> Option<String> {
        match self {
            Self::Cluster(object) => object.describe(kind),
            Self::Store(remote) => Some(format!("secret {}", remote.describe())),
        }
    }
}
