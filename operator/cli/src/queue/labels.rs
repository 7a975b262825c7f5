//! Jobs by their labels, which the scheduler does not know: the API server is asked for them.

use std::collections::BTreeSet;

use kube::Api;
use kube::api::ListParams;
use kube::core::ObjectMeta;
use trellis_api::TrainingJob;
use trellis_api::visibility::JobState;

use crate::cluster::Unread;

/// Namespaces and names of jobs.
pub(super) type Names = BTreeSet<(Option<String>, Option<String>)>;

/// The jobs that have these labels.
pub(super) async fn list(api: &Api<TrainingJob>, selector: &str) -> Result<Names, Unread> {
    let params = ListParams::default().labels(selector);
    let listed = api.list_metadata(&params).await;
    let listed = listed.map_err(|error| Unread::new::<TrainingJob>("list", error))?;
    let jobs = listed.items.iter();
    Ok(jobs.map(|job| name(&job.metadata)).collect())
}

/// Keeps those alone.
pub(super) fn keep(jobs: &mut Vec<JobState>, names: &Names) {
    jobs.retain(|job| names.contains(&name(&job.metadata)));
}

fn name(meta: &ObjectMeta) -> (Option<String>, Option<String>) {
    (meta.namespace.clone(), meta.name.clone())
}
