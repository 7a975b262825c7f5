//! The nodes as the scheduler sees them.

use kube::Api;
use trellis_api::visibility::NodeState;

use crate::visibility::{self, VisibilityAnswer};
use crate::{ErrorHints, ReadError, Reader};

/// Reads all nodes, in no order.
///
/// # Errors
/// If the nodes cannot be read.
pub async fn read_nodes(reader: &Reader) -> Result<Vec<NodeState>, ReadError> {
    let api = Api::<NodeState>::all(reader.client.clone());
    let answer = visibility::list_objects(&api, reader.scheduler_timeout).await;
    let answer = answer.map_err(|error| ReadError {
        failure: error.kind(),
        message: error.explain(&hints()),
    })?;
    match answer {
        VisibilityAnswer::Available(nodes) => Ok(nodes),
        VisibilityAnswer::NotFound => Ok(Vec::new()),
        VisibilityAnswer::Denied(message) => {
            let reason = format!("{message}: {}", hints().rights);
            Err(ReadError::denied(reason))
        }
        VisibilityAnswer::Unauthorized(message) => Err(ReadError::unauthorized(message)),
        VisibilityAnswer::Unavailable(reason) => Err(ReadError::unavailable(reason.to_owned())),
    }
}

fn hints() -> ErrorHints {
    ErrorHints {
        rights: "the ClusterRole trellis-platform has it: list nodestates.visibility.trellis.dev"
            .to_owned(),
        without_cluster: None,
    }
}
