//! The attempts of jobs that have ended.

use std::sync::Arc;

use trellis_api::visibility::EndedAttempt;

use crate::live::list_in_scope;
use crate::queue::JobScope;
use crate::{ReadError, Reader};

/// The attempts that the leader remembers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttemptReads {
    /// The attempts that the user may see, in the order of their ends.
    pub attempts: Vec<Arc<EndedAttempt>>,
    /// True: the attempts are those of all namespaces.
    pub is_complete: bool,
}

/// Reads the ended attempts of these namespaces.
///
/// # Errors
/// If the attempts cannot be read.
pub async fn read_attempts(reader: &Reader, scope: JobScope) -> Result<AttemptReads, ReadError> {
    let right = "list endedattempts.visibility.trellis.dev";
    let listed = list_in_scope::<EndedAttempt>(reader, scope, right).await?;
    let seen = listed
        .answer
        .into_result("ask for the ClusterRole trellis-view, or view")?;
    let mut attempts: Vec<_> = listed.list.objects().values().cloned().collect();
    attempts.sort_by_key(|ended| ended.ended.0);
    Ok(AttemptReads {
        attempts,
        is_complete: listed.is_complete && seen.is_some(),
    })
}
