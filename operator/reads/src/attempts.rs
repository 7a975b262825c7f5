//! The attempts of jobs that have ended.

use kube::Api;
use trellis_api::visibility::EndedAttempt;

use crate::queue::JobScope;
use crate::visibility::{VisibilityAnswer, list_objects};
use crate::{ReadError, Reader};

/// The attempts that the leader remembers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttemptReads {
    /// The attempts that the user may see, in the order of their ends.
    pub attempts: Vec<EndedAttempt>,
    /// True: the attempts are those of all namespaces.
    pub is_complete: bool,
}

/// Reads the ended attempts of these namespaces.
///
/// # Errors
/// If the attempts cannot be read.
pub async fn read_attempts(reader: &Reader, scope: JobScope) -> Result<AttemptReads, ReadError> {
    let own = || Api::<EndedAttempt>::namespaced(reader.client.clone(), &reader.namespace);
    let (first, is_whole) = match scope {
        JobScope::Own => (own(), false),
        JobScope::All | JobScope::AllOrOwn => (Api::all(reader.client.clone()), true),
    };
    let mut is_complete = is_whole;
    let mut answer = list(reader, &first).await?;
    if let VisibilityAnswer::Denied(_) = answer
        && scope == JobScope::AllOrOwn
    {
        is_complete = false;
        answer = list(reader, &own()).await?;
    }
    match answer {
        VisibilityAnswer::Available(attempts) => Ok(AttemptReads {
            attempts,
            is_complete,
        }),
        VisibilityAnswer::NotFound => Ok(AttemptReads::default()),
        VisibilityAnswer::Denied(message) => Err(ReadError::denied(format!(
            "{message}: ask for the ClusterRole trellis-view, or view"
        ))),
        VisibilityAnswer::Unauthorized(message) => Err(ReadError::unauthorized(message)),
        VisibilityAnswer::Unavailable(reason) => Err(ReadError::unavailable(reason.to_owned())),
    }
}

async fn list(
    reader: &Reader,
    api: &Api<EndedAttempt>,
) -> Result<VisibilityAnswer<Vec<EndedAttempt>>, ReadError> {
    let answer = list_objects(api, reader.scheduler_timeout).await;
    let answer = answer
        .map_err(|error| reader.read_error(error, "list endedattempts.visibility.trellis.dev"))?;
    Ok(answer.map(|list| list.items))
}
