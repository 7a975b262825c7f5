//! The smallest change that would let a job start, in the form of the API.

use trellis_api::visibility::{Explanation, FreedOn, RaisedLimit, RaisedQuota, SmallestChange};
use trellis_gang::engine;
use trellis_scheduler::{ResourceName, Snapshot, UnblockingChange};

use super::super::nodes::find_holders;
use super::{count, to_amounts};

/// Describes a change of quotas, limits or nodes.
pub(super) fn describe(change: &UnblockingChange, snapshot: &Snapshot) -> SmallestChange {
    let mut smallest = SmallestChange::default();
    match change {
        UnblockingChange::Raise(raises) => {
            smallest.raise_quotas = raises
                .iter()
                .map(|raise| RaisedQuota {
                    queue: raise.queue.as_str().to_owned(),
                    field: match raise.borrowing_limit {
                        true => "borrowingLimit".to_owned(),
                        false => "nominalQuota".to_owned(),
                    },
                    flavor: raise.flavor.as_ref().map(|f| f.as_str().to_owned()),
                    resource: raise.resource.as_str().to_owned(),
                    by: engine::to_quantity(raise.resource.as_str(), raise.by),
                })
                .collect();
        }
        UnblockingChange::Allow(allows) => {
            smallest.raise_limits = allows
                .iter()
                .map(|allow| {
                    let resource = allow.resource.as_ref().map(ResourceName::as_str);
                    RaisedLimit {
                        limit: allow.limit.as_str().to_owned(),
                        resource: resource.map(str::to_owned),
                        by: engine::to_quantity(resource.unwrap_or_default(), allow.by),
                    }
                })
                .collect();
        }
        UnblockingChange::Free(nodes) => {
            // A large gang may need half of the cluster.
            let (listed, _) = nodes.split_at(nodes.len().min(Explanation::MAX_LISTED));
            let mut holders = find_holders(snapshot, listed).into_iter();
            smallest.free = nodes
                .iter()
                .map(|on| {
                    let mut held_by = holders.next().unwrap_or_default();
                    let more = count(held_by.len().saturating_sub(Explanation::MAX_LISTED));
                    held_by.truncate(Explanation::MAX_LISTED);
                    FreedOn {
                        node: on.node.as_str().to_owned(),
                        amounts: to_amounts(
                            on.amounts.iter().map(|(name, amount)| (name, *amount)),
                        ),
                        held_by,
                        held_by_more: (more > 0).then_some(more),
                    }
                })
                .collect();
        }
    }
    smallest
}
