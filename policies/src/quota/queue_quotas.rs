//! The quota of queues, and their parents.

use std::collections::BTreeMap;

use trellis_api::QueueSpec;
use trellis_api::queue::ResourceGroup;

/// Fields of a queue that quota policies look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueQuota {
    parent: Option<String>,
    groups: Vec<ResourceGroup>,
}

impl From<&QueueSpec> for QueueQuota {
    fn from(spec: &QueueSpec) -> Self {
        Self {
            parent: spec.parent_name.clone(),
            groups: spec.resource_groups.clone(),
        }
    }
}

/// Parent and resource groups of queues, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct QueueQuotas(pub(super) BTreeMap<String, QueueQuota>);

impl QueueQuotas {
    /// The quota in and below a queue.
    pub(super) fn groups_in_and_below<'a>(
        &'a self,
        queue: &'a str,
    ) -> impl Iterator<Item = &'a ResourceGroup> {
        let all = self.0.iter();
        let below = all.filter(move |(name, _)| self.queue_with_ancestors(name).contains(&queue));
        below.flat_map(|(_, of)| &of.groups)
    }

    /// A queue and all above it. A cycle of parents ends the list.
    pub(super) fn queue_with_ancestors<'a>(&'a self, queue: &'a str) -> Vec<&'a str> {
        let mut path = vec![queue];
        let mut at = queue;
        while let Some(parent) = self.0.get(at).and_then(|of| of.parent.as_ref()) {
            if path.contains(&parent.as_str()) {
                break;
            }
            path.push(parent);
            at = parent;
        }
        path
    }
}
