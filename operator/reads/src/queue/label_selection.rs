//! Selects jobs by labels.
//! The scheduler does not know the labels, so the API server does the selection.

use std::collections::BTreeSet;

use kube::Api;
use kube::api::ListParams;
use kube::core::ObjectMeta;
use trellis_api::TrainingJob;
use trellis_api::visibility::JobState;

use crate::ApiFailure;

/// Namespaces and names of jobs.
pub(super) type SelectedJobNames = BTreeSet<(Option<String>, Option<String>)>;

/// Lists the jobs with these labels.
pub(super) async fn list_names(
    api: &Api<TrainingJob>,
    selector: &str,
) -> Result<SelectedJobNames, ApiFailure> {
    let params = ListParams::default().labels(selector);
    let listed = api.list_metadata(&params).await;
    let listed = listed.map_err(|error| ApiFailure::new::<TrainingJob>("list", error))?;
    let jobs = listed.items.iter();
    Ok(jobs.map(|job| job_name(&job.metadata)).collect())
}

/// Keeps only these jobs.
pub(super) fn retain_named(jobs: &mut Vec<JobState>, names: &SelectedJobNames) {
    jobs.retain(|job| names.contains(&job_name(&job.metadata)));
}

fn job_name(meta: &ObjectMeta) -> (Option<String>, Option<String>) {
    (meta.namespace.clone(), meta.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_selection_matches_name_and_namespace() {
        let job = |namespace, name| JobState::new(namespace, name, "default");
        let mut jobs = vec![
            job("team-a", "llm"),
            job("team-b", "llm"),
            job("team-a", "eval"),
        ];
        let name = |text: &str| Some(text.to_owned());
        let names = [
            (name("team-a"), name("llm")),
            (name("team-z"), name("eval")),
        ];
        retain_named(&mut jobs, &names.into());
        assert_eq!(jobs, [job("team-a", "llm")]);
    }
}
