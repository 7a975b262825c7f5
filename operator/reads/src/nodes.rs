//! The nodes, as the scheduler sees them.

use kube::Api;
use trellis_api::visibility::NodeState;

use crate::live::{LiveList, LiveObjects};
use crate::{ErrorHints, ReadError, Reader};

/// All nodes, kept current.
#[derive(Debug)]
pub struct NodeFollower(LiveList<NodeState>);

impl NodeFollower {
    /// Reads all nodes.
    ///
    /// # Errors
    /// If the nodes cannot be read.
    pub async fn start(reader: &Reader) -> Result<Self, ReadError> {
        let api = Api::<NodeState>::all(reader.client.clone());
        let mut follower = Self(LiveList::new(api, reader.scheduler_timeout));
        follower.renew().await?;
        Ok(follower)
    }

    /// Waits until the nodes are known to be current again.
    ///
    /// # Errors
    /// If the nodes cannot be read.
    pub async fn renew(&mut self) -> Result<(), ReadError> {
        let hints = ErrorHints {
            rights:
                "the ClusterRole trellis-platform has it: list nodestates.visibility.trellis.dev"
                    .to_owned(),
            without_cluster: None,
        };
        let answer = self.0.renew().await;
        let answer = answer.map_err(|error| error.into_read_error(&hints))?;
        answer.into_result(&hints.rights).map(drop)
    }

    /// The nodes of the last look.
    #[must_use]
    pub const fn nodes(&self) -> &LiveObjects<NodeState> {
        self.0.objects()
    }
}

/// Reads all nodes, in no order.
///
/// # Errors
/// If the nodes cannot be read.
pub async fn read_nodes(reader: &Reader) -> Result<Vec<NodeState>, ReadError> {
    let follower = NodeFollower::start(reader).await?;
    Ok(follower
        .nodes()
        .values()
        .map(|node| (**node).clone())
        .collect())
}
