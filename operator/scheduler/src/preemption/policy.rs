//! The rules that decide if a gang may preempt another gang.

use std::cmp::Reverse;

use crate::decision::PreemptionReason;
use crate::gang::Gang;
use crate::queue::{BorrowWithinPolicy, PreemptionPolicy, ReclaimPolicy, WithinQueuePolicy};
use crate::quota::{ClaimKind, ClaimTerms, FairShare};
use crate::time::Time;

/// How the queue of a placed gang relates to the preemptor's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueRelation {
    /// Both gangs are in the same queue.
    Own,
    /// The placed gang is in another queue.
    Other {
        /// The claim of the preemptor's queue on that queue.
        claim: ClaimTerms,
        /// The gangs that the other queue may preempt while it borrows.
        borrow_within: BorrowWithinPolicy,
    },
}

/// The fields of a gang that the rules use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreemptionFacts {
    pub(crate) priority: i32,
    submitted: Time,
    pub(crate) preemptible: bool,
    pub(crate) surplus: bool,
}

impl PreemptionFacts {
    pub(crate) fn from_gang(gang: &Gang) -> Self {
        Self {
            priority: gang.priority,
            submitted: gang.submitted,
            // Surplus is always preemptible.
            preemptible: gang.preemptible || gang.surplus,
            surplus: gang.surplus,
        }
    }

    /// Returns the rank of the gang as a victim. `owed`: its queue owes the quota that the gang
    /// holds. `larger_share`: the share of its queue, if it is larger than the preemptor's.
    pub(crate) fn rank(&self, owed: bool, larger_share: Option<FairShare>) -> VictimRank {
        VictimRank {
            is_gang: !self.surplus,
            is_guaranteed: !self.surplus && !owed,
            share: Reverse(larger_share),
            priority: self.priority,
        }
    }
}

/// The order in which gangs make room: surplus first, then gangs of queues that owe the quota that
/// they hold, then gangs of the queue with the largest share, if the preemptor takes its fair share,
/// then by priority. A gang of a higher rank stays if gangs of lower ranks suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VictimRank {
    is_gang: bool,
    is_guaranteed: bool,
    share: Reverse<Option<FairShare>>,
    priority: i32,
}

impl VictimRank {
    /// Returns the part of the rank that comes before shares.
    pub(crate) const fn class(&self) -> (bool, bool) {
        (self.is_gang, self.is_guaranteed)
    }
}

/// Returns the reason why a gang may be a victim of the preemptor. None: it may not. `guaranteed`:
/// the quota of the victim's queue covers its non-preemptible gangs.
///
/// Two gangs can never preempt each other in turn while quotas stay the same. Within one queue the
/// rule is a strict order, and from another queue a gang reclaims only borrowed quota. By fair share
/// a gang preempts only if its queue then still has the smaller share: so the larger of the two
/// shares becomes smaller each time. Surplus
/// preempts no gang. It makes room for any gang of its own queue, and for gangs of other queues
/// that have an owed claim on its quota.
pub(crate) fn preemption_reason(
    preemption: &PreemptionPolicy,
    asker: PreemptionFacts,
    victim: PreemptionFacts,
    holds: QueueRelation,
    guaranteed: bool,
) -> Option<PreemptionReason> {
    if asker.surplus {
        return None;
    }
    match holds {
        QueueRelation::Own if victim.surplus => return Some(PreemptionReason::Surplus),
        QueueRelation::Other { claim, .. } if victim.surplus && claim.kind == ClaimKind::Owed => {
            return Some(PreemptionReason::Borrows);
        }
        _ => {}
    }
    // A non-preemptible gang keeps the quota that its queue guarantees.
    if !victim.preemptible && guaranteed {
        return None;
    }
    let lower = victim.priority < asker.priority;
    match holds {
        QueueRelation::Own => {
            let later = victim.priority == asker.priority && victim.submitted > asker.submitted;
            let may = match preemption.within_queue {
                WithinQueuePolicy::Never => false,
                WithinQueuePolicy::LowerPriority => lower,
                WithinQueuePolicy::LowerOrNewerEqualPriority => lower || later,
            };
            may.then_some(PreemptionReason::LaterInQueue)
        }
        QueueRelation::Other {
            claim,
            borrow_within,
        } => {
            let reclaims = match preemption.reclaim {
                ReclaimPolicy::Never => false,
                ReclaimPolicy::LowerPriority => lower,
                ReclaimPolicy::Any => true,
            };
            if claim.kind == ClaimKind::Owed && reclaims {
                return Some(PreemptionReason::Borrows);
            }
            match preemption.borrow_within {
                BorrowWithinPolicy::Never => None,
                BorrowWithinPolicy::LowerPriority { .. } => {
                    let borrows = claim.kind == ClaimKind::Borrowing;
                    let may = borrows
                        && preemption
                            .borrow_within
                            .allows(victim.priority, asker.priority);
                    may.then_some(PreemptionReason::LowerPriority)
                }
                BorrowWithinPolicy::FairShare(victims) => {
                    let may = claim.larger_share.is_some()
                        && victims.includes(victim.priority, asker.priority)
                        // Otherwise the two gangs could preempt each other in turn.
                        && !borrow_within.allows(asker.priority, victim.priority);
                    may.then_some(PreemptionReason::FairShare)
                }
            }
        }
    }
}

/// Returns true if the gangs of a queue may preempt at all.
pub(crate) fn can_preempt(preemption: &PreemptionPolicy) -> bool {
    *preemption != PreemptionPolicy::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{GangId, QueueName};
    use crate::queue::FairShareVictims;

    fn gang(priority: i32, submitted: i64, preemptible: bool) -> PreemptionFacts {
        PreemptionFacts::from_gang(&Gang {
            priority,
            submitted: Time::from_millis(submitted),
            preemptible,
            ..Gang::new(GangId::new("a/b"), QueueName::new("q"), vec![])
        })
    }

    fn claim(kind: ClaimKind) -> QueueRelation {
        QueueRelation::Other {
            claim: ClaimTerms {
                kind,
                larger_share: None,
            },
            borrow_within: BorrowWithinPolicy::Never,
        }
    }

    const ALL: PreemptionPolicy = PreemptionPolicy {
        within_queue: WithinQueuePolicy::LowerOrNewerEqualPriority,
        reclaim: ReclaimPolicy::Any,
        borrow_within: BorrowWithinPolicy::LowerPriority {
            max_priority: Some(3),
        },
    };

    const LOWER: PreemptionPolicy = PreemptionPolicy {
        within_queue: WithinQueuePolicy::LowerPriority,
        reclaim: ReclaimPolicy::LowerPriority,
        borrow_within: BorrowWithinPolicy::LowerPriority { max_priority: None },
    };

    #[test]
    fn policy_decides_if_a_gang_may_be_a_victim() {
        use PreemptionReason::{Borrows, LaterInQueue, LowerPriority};
        let own = QueueRelation::Own;
        let (owed, both) = (claim(ClaimKind::Owed), claim(ClaimKind::Borrowing));
        let asker = gang(5, 10, true);
        let (low, high) = (gang(1, 0, true), gang(9, 20, true));
        let (newer, older) = (gang(5, 11, true), gang(5, 9, true));
        let twin = gang(5, 10, true);
        let safe = gang(1, 0, false);
        let fourth = gang(4, 0, true);
        let table = [
            (PreemptionPolicy::default(), low, own, None),
            (PreemptionPolicy::default(), low, owed, None),
            (PreemptionPolicy::default(), low, both, None),
            (LOWER, low, own, Some(LaterInQueue)),
            (LOWER, newer, own, None),
            (LOWER, safe, own, None),
            (LOWER, low, owed, Some(Borrows)),
            (LOWER, twin, owed, None),
            (LOWER, fourth, both, Some(LowerPriority)),
            (ALL, newer, own, Some(LaterInQueue)),
            (ALL, older, own, None),
            (ALL, twin, own, None),
            (ALL, high, own, None),
            (ALL, high, owed, Some(Borrows)),
            (ALL, safe, owed, None),
            (ALL, low, both, Some(LowerPriority)),
            (ALL, fourth, both, None),
            (ALL, high, both, None),
        ];
        for (at, (preemption, victim, holds, because)) in table.into_iter().enumerate() {
            let reason = preemption_reason(&preemption, asker, victim, holds, true);
            assert_eq!(reason, because, "row {at}");
            // Without `guaranteed`, a non-preemptible gang has the same result as a preemptible
            // gang.
            let reason = preemption_reason(&preemption, asker, victim, holds, false);
            let as_any = PreemptionFacts {
                preemptible: true,
                ..victim
            };
            let any = preemption_reason(&preemption, asker, as_any, holds, true);
            assert_eq!(reason, any, "row {at}");
        }
    }

    #[test]
    fn surplus_is_a_victim_for_owed_quota_and_preempts_no_gang() {
        use PreemptionReason::{Borrows, LowerPriority, Surplus};
        let surplus = |priority, preemptible| PreemptionFacts {
            surplus: true,
            ..gang(priority, 0, preemptible)
        };
        let own = QueueRelation::Own;
        let (owed, both) = (claim(ClaimKind::Owed), claim(ClaimKind::Borrowing));
        let never = PreemptionPolicy::default();
        let asker = gang(1, 5, true);
        let high = surplus(9, true);
        let table = [
            (never, high, own, Some(Surplus)),
            (never, high, owed, Some(Borrows)),
            (never, high, both, None),
            (LOWER, high, both, None),
            (LOWER, surplus(0, true), both, Some(LowerPriority)),
        ];
        for (at, (preemption, victim, holds, because)) in table.into_iter().enumerate() {
            assert_eq!(
                preemption_reason(&preemption, asker, victim, holds, false),
                because,
                "row {at}"
            );
            assert_eq!(
                preemption_reason(&ALL, high, asker, holds, false),
                None,
                "it asks nobody: row {at}"
            );
        }
        let kept = Gang {
            surplus: true,
            preemptible: false,
            ..Gang::new(GangId::new("a/b"), QueueName::new("q"), vec![])
        };
        assert!(PreemptionFacts::from_gang(&kept).preemptible);
        assert!(high.rank(false, None) < gang(i32::MIN, 0, true).rank(true, None));
    }

    #[test]
    fn fair_share_needs_a_larger_share_and_no_way_back() {
        let fair = |victims| PreemptionPolicy {
            borrow_within: BorrowWithinPolicy::FairShare(victims),
            ..PreemptionPolicy::default()
        };
        let relation = |kind, larger: bool, borrow_within| QueueRelation::Other {
            claim: ClaimTerms {
                kind,
                larger_share: larger.then(FairShare::default),
            },
            borrow_within,
        };
        let (owed, both) = (ClaimKind::Owed, ClaimKind::Borrowing);
        let never = BorrowWithinPolicy::Never;
        let up_to = |max_priority| BorrowWithinPolicy::LowerPriority { max_priority };
        let (low, same, high) = (gang(1, 0, true), gang(5, 0, true), gang(9, 0, true));
        use FairShareVictims::{Any, LowerOrEqualPriority, LowerPriority};
        let table = [
            (LowerPriority, low, relation(both, true, never), true),
            (LowerPriority, same, relation(both, true, never), false),
            (
                LowerOrEqualPriority,
                same,
                relation(both, true, never),
                true,
            ),
            (
                LowerOrEqualPriority,
                high,
                relation(both, true, never),
                false,
            ),
            (Any, high, relation(both, true, never), true),
            (Any, low, relation(both, false, never), false),
            // A queue that borrows nothing may take what it is owed also by its share.
            (Any, low, relation(owed, true, never), true),
            // The victim could preempt the gang in turn.
            (Any, high, relation(both, true, up_to(None)), false),
            (Any, high, relation(both, true, up_to(Some(4))), true),
            (Any, same, relation(both, true, up_to(None)), true),
        ];
        for (at, (victims, victim, holds, may)) in table.into_iter().enumerate() {
            let reason = preemption_reason(&fair(victims), gang(5, 0, true), victim, holds, true);
            assert_eq!(
                reason,
                may.then_some(PreemptionReason::FairShare),
                "row {at}"
            );
        }
    }

    #[test]
    fn queue_with_the_largest_share_loses_first_then_the_lowest_priority() {
        let shares = |thousandths| Some(FairShare::weighted(thousandths, 1_000));
        let order = [
            gang(9, 0, true).rank(true, None),
            gang(9, 0, true).rank(false, shares(7)),
            gang(1, 0, true).rank(false, shares(3)),
            gang(5, 0, true).rank(false, shares(3)),
            gang(0, 0, true).rank(false, None),
        ];
        assert!(order.is_sorted(), "{order:?}");
    }

    #[test]
    fn at_most_one_of_two_gangs_of_a_queue_may_preempt_the_other() {
        let own = QueueRelation::Own;
        for a in [gang(1, 1, true), gang(1, 2, true), gang(2, 1, true)] {
            for b in [gang(1, 1, true), gang(1, 2, true), gang(2, 1, true)] {
                let may = |a, b| preemption_reason(&ALL, a, b, own, false).is_some();
                let both = may(a, b) && may(b, a);
                assert!(!both, "{a:?} {b:?}");
            }
        }
    }
}
