//! All pending and placed jobs, and the queues.

mod follow;
mod label_selection;

use kube::Api;
use trellis_api::TrainingJob;
use trellis_api::visibility::{JobState, QueueState};

use crate::{ReadError, Reader};

pub use follow::QueueFollower;

/// The state of the queues at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueReads {
    /// The jobs that the user may see, in no order.
    pub jobs: Vec<JobState>,
    /// None: the user may not see the queues.
    pub queues: Option<Vec<QueueState>>,
    /// Facts that are missing from the output, with the reasons.
    pub notes: Vec<String>,
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
    let follower = QueueFollower::start(reader, scope).await?;
    let mut reads = follower.reads();
    if let Some(selector) = selector {
        let api = match follower.is_complete() {
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
        label_selection::retain_named(&mut reads.jobs, &labelled);
    }
    Ok(reads)
}
