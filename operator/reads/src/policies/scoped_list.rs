//! Lists one kind in the namespaces that the user may see.

use std::fmt::Debug;

use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::{ApiFailure, ErrorHints, ReadError, Reader, list_parts};

/// Where the objects of one kind are read.
#[derive(Debug)]
pub(super) struct ListPlaces<K> {
    first: Api<K>,
    /// The place to read if the user lacks the right to the first one.
    narrower: Option<Api<K>>,
    /// The first place in words.
    first_words: String,
}

/// A part of each object of one kind.
#[derive(Debug)]
pub(super) struct KindRead<T> {
    pub(super) parts: Vec<T>,
    /// Which objects are missing, and why.
    pub(super) note: Option<String>,
}

impl<K> ListPlaces<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    /// Objects without a namespace.
    pub(super) fn cluster(reader: &Reader) -> Self {
        Self {
            first: Api::all(reader.client.clone()),
            narrower: None,
            first_words: "the cluster".to_owned(),
        }
    }

    /// Objects of all namespaces, or of the reader's namespace if the user may not see all of them.
    pub(super) fn all_or_own(reader: &Reader) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
    {
        Self {
            first: Api::all(reader.client.clone()),
            narrower: Some(Api::namespaced(reader.client.clone(), &reader.namespace)),
            first_words: "all namespaces".to_owned(),
        }
    }

    /// Objects of the reader's namespace.
    pub(super) fn own(reader: &Reader) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
    {
        Self {
            first: Api::namespaced(reader.client.clone(), &reader.namespace),
            narrower: None,
            first_words: format!("namespace {:?}", reader.namespace),
        }
    }

    /// Reads a part of each object.
    ///
    /// # Errors
    /// If the user may read none of the places, or the API server fails.
    pub(super) async fn read<T>(
        &self,
        reader: &Reader,
        take_part: impl Fn(K) -> Option<T>,
    ) -> Result<KindRead<T>, ReadError> {
        let all = ListParams::default();
        let right = format!("list {}.{}", K::plural(&()), K::group(&()));
        match (
            list_parts(&self.first, &all, &take_part).await,
            &self.narrower,
        ) {
            (Err(failure), Some(narrower)) if failure.is_denied() => {
                let parts = list_parts(narrower, &all, &take_part).await;
                let parts = parts.map_err(|failure| reader.read_error(failure, &right))?;
                let note = format!(
                    "only {} of namespace {:?}: to see all, you need the right to {right} in all namespaces",
                    K::plural(&()),
                    reader.namespace
                );
                Ok(to_kind_read(parts, Some(note), &right))
            }
            (Err(failure), _) => Err(self.explain(failure, &right)),
            (Ok(parts), _) => Ok(to_kind_read(parts, None, &right)),
        }
    }

    fn explain(&self, failure: ApiFailure, right: &str) -> ReadError {
        failure.into_read_error(&ErrorHints {
            rights: format!(
                "the ClusterRole trellis-view has it: {right} in {}",
                self.first_words
            ),
            without_cluster: None,
        })
    }
}

fn to_kind_read<T>(parts: Option<Vec<T>>, note: Option<String>, right: &str) -> KindRead<T> {
    match parts {
        Some(parts) => KindRead { parts, note },
        None => KindRead {
            parts: Vec::new(),
            note: Some(format!(
                "cannot {right}: the cluster does not know the kind: install the CRDs of the chart"
            )),
        },
    }
}
