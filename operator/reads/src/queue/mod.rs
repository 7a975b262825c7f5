//! All pending and placed jobs, and the queues.

mod label_selection;

use kube::Api;
use serde::Serialize;
use trellis_api::TrainingJob;
use trellis_api::visibility::{JobState, QueueState};

use crate::visibility::{self, VisibilityAnswer};
use crate::{ApiFailure, ReadError, Reader};

/// The state of the queues at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueReads {
    /// The jobs that the user may see, in no order.
    pub jobs: Vec<JobState>,
    /// None: the user may not see the queues.
    pub queues: Option<Vec<QueueState>>,
    /// Facts that are missing from the output, with the reasons.
    pub notes: Vec<String>,
    /// True: the jobs are those of all namespaces.
    #[serde(skip)]
    pub is_complete: bool,
}

/// The namespaces whose jobs are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobScope {
    /// All namespaces. The read fails if the user may not see all of them.
    All,
    /// All namespaces, or the namespace of the reader if the user may not see all of them.
    AllOrOwn,
    /// The namespace of the reader.
    Own,
}

/// Reads the jobs, those with these labels if a selector is given, and the queues.
///
/// # Errors
/// If the jobs cannot be read. Queues that the user may not see are no error.
pub async fn read_queues(
    reader: &Reader,
    scope: JobScope,
    selector: Option<&str>,
) -> Result<QueueReads, ReadError> {
    let (mut jobs, notes, all_seen) = read_jobs(reader, scope).await?;
    if let Some(selector) = selector {
        let api = match all_seen {
            true => Api::<TrainingJob>::all(reader.client.clone()),
            false => reader.jobs(),
        };
        let labelled = label_selection::list_names(&api, selector).await;
        let labelled = labelled.map_err(|error| {
            let failure = error.kind();
            let message = reader.explain(error, "list trainingjobs.trellis.dev");
            ReadError {
                failure,
                message: message.context(format!("--selector {selector:?}")),
            }
        })?;
        label_selection::retain_named(&mut jobs, &labelled);
    }
    let api = Api::<QueueState>::all(reader.client.clone());
    let queues = visibility::list_objects(&api, reader.scheduler_timeout).await;
    let queues = queues.map_err(|error| explain_list(reader, error))?;
    Ok(QueueReads {
        jobs,
        queues: queues.into_option(),
        notes,
        is_complete: all_seen && selector.is_none(),
    })
}

/// Reads the jobs. Returns them with notes, and whether all namespaces were read.
async fn read_jobs(
    reader: &Reader,
    scope: JobScope,
) -> Result<(Vec<JobState>, Vec<String>, bool), ReadError> {
    let mut notes = Vec::new();
    let mut all_seen = scope != JobScope::Own;
    let mut jobs = match all_seen {
        true => list_jobs(reader, Api::all(reader.client.clone())).await?,
        false => VisibilityAnswer::Denied(String::new()),
    };
    if let VisibilityAnswer::Denied(_) = jobs
        && scope != JobScope::All
    {
        all_seen = false;
        let api = Api::namespaced(reader.client.clone(), &reader.namespace);
        jobs = list_jobs(reader, api).await?;
        if scope == JobScope::AllOrOwn {
            notes.push(format!(
                "only jobs of namespace {:?}: to see all jobs, you need the right to list jobstates.visibility.trellis.dev in all namespaces",
                reader.namespace
            ));
        }
    }
    match jobs {
        VisibilityAnswer::Available(jobs) => Ok((jobs, notes, all_seen)),
        VisibilityAnswer::NotFound => Ok((Vec::new(), notes, all_seen)),
        VisibilityAnswer::Denied(message) => {
            let place = match scope {
                JobScope::All => {
                    "all namespaces; without -A, the command reads the namespace of the context"
                        .to_owned()
                }
                JobScope::AllOrOwn | JobScope::Own => format!("namespace {:?}", reader.namespace),
            };
            Err(ReadError::denied(format!(
                "{message}: ask for the ClusterRole trellis-view, or view, in {place}"
            )))
        }
        VisibilityAnswer::Unauthorized(message) => Err(ReadError::unauthorized(message)),
        VisibilityAnswer::Unavailable(reason) => Err(ReadError::unavailable(format!(
            "{reason}; `kubectl get tj -A` shows phases and reasons without it"
        ))),
    }
}

async fn list_jobs(
    reader: &Reader,
    api: Api<JobState>,
) -> Result<VisibilityAnswer<Vec<JobState>>, ReadError> {
    let answer = visibility::list_objects(&api, reader.scheduler_timeout).await;
    answer.map_err(|error| explain_list(reader, error))
}

fn explain_list(reader: &Reader, error: ApiFailure) -> ReadError {
    reader.read_error(error, "list jobstates.visibility.trellis.dev")
}
