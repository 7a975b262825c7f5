//! Reads objects of a cluster into a snapshot.

use std::fmt::Debug;

use kube::api::ListParams;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use trellis_api::TrainingJob;
use trellis_reads::{ApiFailure, get_optional, list};

use crate::plan::snapshot::{ClusterSnapshot, SnapshotKind};

/// Lists all objects of a kind.
pub(super) async fn list_all<K>(client: &Client) -> Result<Vec<K>, ApiFailure>
where
    K: SnapshotKind + Clone + DeserializeOwned + Debug,
{
    let objects = list(&Api::all(client.clone()), &ListParams::default()).await?;
    Ok(objects.unwrap_or_default())
}

/// Adds all objects of a kind to the snapshot.
/// Returns false if the cluster does not know the kind.
pub(super) async fn read_all<K>(
    client: &Client,
    snapshot: &mut ClusterSnapshot,
) -> Result<bool, ApiFailure>
where
    K: SnapshotKind + Clone + DeserializeOwned + Debug,
{
    let all: Api<K> = Api::all(client.clone());
    read_selected(&all, &ListParams::default(), snapshot).await
}

/// Adds the objects that match the parameters to the snapshot.
/// Returns false if the cluster does not know the kind.
pub(super) async fn read_selected<K>(
    api: &Api<K>,
    params: &ListParams,
    snapshot: &mut ClusterSnapshot,
) -> Result<bool, ApiFailure>
where
    K: SnapshotKind + Clone + DeserializeOwned + Debug,
{
    let objects = list(api, params).await?;
    let is_known = objects.is_some();
    for object in objects.into_iter().flatten() {
        snapshot.add(object);
    }
    Ok(is_known)
}

/// Gets these jobs from the cluster. Jobs that do not exist there are left out.
pub(super) async fn get_named_jobs(
    client: &Client,
    jobs: &[TrainingJob],
) -> Result<Vec<TrainingJob>, ApiFailure> {
    let mut found = Vec::new();
    for job in jobs {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let api = Api::<TrainingJob>::namespaced(client.clone(), &part(&job.metadata.namespace));
        found.extend(get_optional(&api, &part(&job.metadata.name)).await?);
    }
    Ok(found)
}
