//! Reads the facts.

use std::fmt::Debug;

use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use trellis_api::visibility::{Explanation, GangName, JobState, QueueState};

use super::{ExplainFacts, ExplainedObject};
use crate::visibility::{self, VisibilityAnswer};
use crate::{ApiFailure, ReadError, Reader, events};

/// Reads all facts. Returns None if the object does not exist.
///
/// # Errors
/// If the object cannot be read, or another object explains it. The error names that object.
pub async fn read_facts(
    reader: &Reader,
    name: &GangName,
) -> Result<Option<ExplainFacts>, ReadError> {
    let Some(subject) = ExplainedObject::get(reader, name).await? else {
        return Ok(None);
    };
    let mut notes = Vec::new();
    let row = match subject {
        ExplainedObject::Job(_) => None,
        _ => get_first_known::<JobState>(reader, &subject.gang_names(), &mut notes).await?,
    };
    // The explanation must come from the same gang as the row.
    let (row_gang, job_state) = row.unzip();
    let gangs = row_gang
        .clone()
        .map_or_else(|| subject.gang_names(), |gang| vec![gang]);
    let found = get_first_known::<Explanation>(reader, &gangs, &mut notes).await?;
    let (explained_gang, explanation) = found.unzip();
    // Both reads may report the same missing service.
    notes.dedup();
    let written = subject.job_status().and_then(|status| status.queue.clone());
    let queue = written.or_else(|| job_state.as_ref().map(|state| state.queue.clone()));
    let queue = match queue {
        Some(queue) => {
            let api = Api::<QueueState>::all(reader.client.clone());
            let denied = |error: ApiFailure| {
                reader.read_error(error, "get queuestates.visibility.trellis.dev")
            };
            visibility::get_object(&api, &queue, reader.scheduler_timeout)
                .await
                .map_err(denied)?
                .into_option()
        }
        None => None,
    };
    let events = events::list_events(reader, subject.kind(), subject.metadata()).await;
    let events = events.unwrap_or_else(|error| {
        notes.push(
            reader
                .explain_core(error, "list events.events.k8s.io")
                .to_string(),
        );
        Vec::new()
    });
    Ok(Some(ExplainFacts {
        subject,
        gang_name: row_gang.or(explained_gang),
        job_state,
        explanation,
        queue,
        events,
        notes,
    }))
}

/// Returns the object of the first gang in the list that the engine knows.
/// Returns None if the engine knows none of them, or the read fails. A failed read adds a note.
async fn get_first_known<K>(
    reader: &Reader,
    gangs: &[GangName],
    notes: &mut Vec<String>,
) -> Result<Option<(GangName, K)>, ReadError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + DeserializeOwned + Debug,
{
    let api = Api::<K>::namespaced(reader.client.clone(), &reader.namespace);
    let right = format!("get {}.{}", K::plural(&()), K::group(&()));
    for gang in gangs {
        let answer =
            visibility::get_object(&api, &gang.object_name(), reader.scheduler_timeout).await;
        match answer.map_err(|error| reader.read_error(error, &right))? {
            VisibilityAnswer::Available(answer) => return Ok(Some((gang.clone(), answer))),
            VisibilityAnswer::NotFound => {}
            VisibilityAnswer::Unavailable(reason) => {
                notes.push(reason.to_owned());
                break;
            }
            VisibilityAnswer::Denied(message) => {
                notes.push(format!(
                    "{message}: the ClusterRole trellis-view has the right"
                ));
                break;
            }
            VisibilityAnswer::Unauthorized(message) => {
                notes.push(message);
                break;
            }
        }
    }
    Ok(None)
}
