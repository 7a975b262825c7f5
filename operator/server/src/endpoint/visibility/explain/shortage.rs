//! Numbers of each reason, in the terms of the API.

use trellis_api::Quantity;
use trellis_api::visibility::Shortage;
use trellis_gang::engine;
use trellis_scheduler::{Detail, GangId, GroupName, InDomain, ResourceName};

use super::super::nodes::job_ref;

/// None: the reason has no numbers.
pub(super) fn of(detail: &Detail) -> Option<Shortage> {
    let none = Shortage::default();
    Some(match detail {
        Detail::QueueNotFound { .. }
        | Detail::QueueStopped { .. }
        | Detail::QueueMisconfigured { .. }
        | Detail::TopologyNotFound { .. }
        | Detail::FlavorNotFound { .. }
        | Detail::FlavorNotOffered { .. }
        | Detail::BackingOff { .. }
        | Detail::LimitClosed { .. }
        | Detail::NodesAvoided { .. }
        | Detail::NoMatchingNodes { .. } => return None,
        Detail::BehindHead { queue, head } => Shortage {
            queue: Some(queue.as_str().to_owned()),
            ..behind(head)
        },
        Detail::NotOffered {
            queue,
            resource,
            needs,
            ..
        } => Shortage {
            queue: Some(queue.as_str().to_owned()),
            most: amount(resource, 0),
            ..needs_of(resource, *needs)
        },
        Detail::ExceedsQuota {
            queue,
            flavor,
            resource,
            needs,
            most,
        } => Shortage {
            queue: Some(queue.as_str().to_owned()),
            flavor: flavor.as_ref().map(|flavor| flavor.as_str().to_owned()),
            most: amount(resource, *most),
            missing: amount(resource, needs.saturating_sub(*most)),
            ..needs_of(resource, *needs)
        },
        Detail::QuotaExceeded {
            queue,
            flavor,
            resource,
            needs,
            most,
            used,
            missing,
            ..
        } => Shortage {
            queue: Some(queue.as_str().to_owned()),
            flavor: flavor.as_ref().map(|flavor| flavor.as_str().to_owned()),
            most: amount(resource, *most),
            used: amount(resource, *used),
            missing: amount(resource, *missing),
            ..needs_of(resource, *needs)
        },
        Detail::LimitExceeded {
            limit,
            resource,
            needs,
            most,
            used,
            missing,
            ..
        } => {
            let jobs = ResourceName::new("jobs");
            let of = resource.as_ref().unwrap_or(&jobs);
            Shortage {
                limit: Some(limit.as_str().to_owned()),
                resource: resource.as_ref().map(|r| r.as_str().to_owned()),
                most: amount(of, *most),
                used: amount(of, *used),
                missing: amount(of, *missing),
                ..needs_of(of, *needs)
            }
        }
        Detail::TooManyWait {
            limit,
            most,
            before,
            ..
        } => {
            let jobs = ResourceName::new("jobs");
            Shortage {
                limit: Some(limit.as_str().to_owned()),
                most: amount(&jobs, *most),
                used: amount(&jobs, *before),
                ..none
            }
        }
        Detail::PodTooLarge {
            group,
            resource,
            needs,
            largest,
            nodes,
            ..
        } => {
            let numbers = resource.as_ref().map(|resource| Shortage {
                most: amount(resource, *largest),
                ..needs_of(resource, *needs)
            });
            Shortage {
                task_group: name(group),
                nodes: Some(i64::from(*nodes)),
                ..numbers.unwrap_or(none)
            }
        }
        Detail::ClusterTooSmall {
            group,
            resource,
            needs,
            capacity,
            nodes,
            ..
        } => Shortage {
            task_group: name(group),
            most: amount(resource, *capacity),
            missing: amount(resource, needs.saturating_sub(*capacity)),
            nodes: Some(i64::from(*nodes)),
            ..needs_of(resource, *needs)
        },
        Detail::TooFewPlaces {
            group,
            pods,
            room,
            nodes,
            ..
        } => Shortage {
            task_group: name(group),
            pods: Some(number(*pods)),
            room: room.map(number),
            nodes: Some(i64::from(*nodes)),
            ..none
        },
        Detail::ExceedsTopology(domain) | Detail::TopologyFragmented { domain, .. } => {
            in_domain(domain)
        }
        Detail::InsufficientCapacity {
            group,
            resource,
            needs,
            free,
            missing,
            nodes,
            held_by_gangs,
            held_by_others,
        } => Shortage {
            task_group: name(group),
            free: amount(resource, *free),
            missing: amount(resource, *missing),
            held_by_jobs: amount(resource, *held_by_gangs),
            held_by_others: amount(resource, *held_by_others),
            nodes: Some(i64::from(*nodes)),
            ..needs_of(resource, *needs)
        },
        Detail::Scattered {
            group,
            resource,
            needs,
            pods,
            room,
            free,
            nodes,
            most,
        } => Shortage {
            task_group: name(group),
            free: amount(resource, *free),
            most: amount(resource, *most),
            pods: Some(number(*pods)),
            room: Some(number(*room)),
            nodes: Some(i64::from(*nodes)),
            ..needs_of(resource, *needs)
        },
        Detail::Apart {
            group,
            resource,
            needs,
            pods,
            room,
            nodes,
            ..
        } => Shortage {
            task_group: name(group),
            pods: Some(number(*pods)),
            room: Some(number(*room)),
            nodes: Some(i64::from(*nodes)),
            ..needs_of(resource, *needs)
        },
        Detail::Reserved { head, nodes, .. } => Shortage {
            nodes: Some(i64::from(*nodes)),
            ..behind(head)
        },
        Detail::QuotaReserved { queue, head, .. } => Shortage {
            queue: Some(queue.as_str().to_owned()),
            ..behind(head)
        },
        Detail::GroupsCollide { pods, nodes, .. } => Shortage {
            pods: Some(number(*pods)),
            nodes: Some(i64::from(*nodes)),
            ..none
        },
    })
}

fn amount(resource: &ResourceName, amount: i128) -> Option<Quantity> {
    Some(engine::quantity(resource.as_str(), amount))
}

fn needs_of(resource: &ResourceName, needs: i128) -> Shortage {
    Shortage {
        resource: Some(resource.as_str().to_owned()),
        needs: amount(resource, needs),
        ..Shortage::default()
    }
}

fn behind(head: &GangId) -> Shortage {
    Shortage {
        behind: Some(job_ref(&engine::job_of(head))),
        ..Shortage::default()
    }
}

fn in_domain(domain: &InDomain) -> Shortage {
    Shortage {
        task_group: name(&domain.group),
        level: Some(domain.level.clone()),
        domain: domain.best.clone(),
        pods: Some(number(domain.pods)),
        room: Some(number(domain.holds)),
        ..Shortage::default()
    }
}

fn name(group: &Option<GroupName>) -> Option<String> {
    group.as_ref().map(|group| group.as_str().to_owned())
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
