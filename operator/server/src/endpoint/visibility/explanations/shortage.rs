//! The numbers of each reason, in the form of the API.

use trellis_api::Quantity;
use trellis_api::visibility::Shortage;
use trellis_gang::engine;
use trellis_gang::external::job_ref;
use trellis_scheduler::{BestDomain, GangId, GroupName, ResourceName, ScarceSlices, WaitDetail};

/// Converts the numbers of a reason. None: the reason has no numbers.
pub(super) fn from_detail(detail: &WaitDetail) -> Option<Shortage> {
    let none = Shortage::default();
    Some(match detail {
        WaitDetail::QueueNotFound { .. }
        | WaitDetail::QueueStopped { .. }
        | WaitDetail::QueueMisconfigured { .. }
        | WaitDetail::TopologyNotFound { .. }
        | WaitDetail::FlavorNotFound { .. }
        | WaitDetail::FlavorNotOffered { .. }
        | WaitDetail::NoSharedFlavor { .. }
        | WaitDetail::BackingOff { .. }
        | WaitDetail::LimitClosed { .. }
        | WaitDetail::NodesAvoided { .. }
        | WaitDetail::NoMatchingNodes { .. } => return None,
        WaitDetail::BehindHead { queue, head } => Shortage {
            queue: Some(queue.as_str().to_owned()),
            ..shortage_behind(head)
        },
        WaitDetail::NotOffered {
            queue,
            resource,
            needs,
            ..
        } => Shortage {
            queue: Some(queue.as_str().to_owned()),
            most: amount(resource, 0),
            ..shortage_with_needs(resource, *needs)
        },
        WaitDetail::ExceedsQuota {
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
            ..shortage_with_needs(resource, *needs)
        },
        WaitDetail::QuotaExceeded {
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
            ..shortage_with_needs(resource, *needs)
        },
        WaitDetail::LimitExceeded {
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
                ..shortage_with_needs(of, *needs)
            }
        }
        WaitDetail::TooManyPending {
            limit,
            max_pending: most,
            pending_before: before,
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
        WaitDetail::PodTooLarge {
            group,
            resource,
            needs,
            largest,
            nodes,
            ..
        } => {
            let numbers = resource.as_ref().map(|resource| Shortage {
                most: amount(resource, *largest),
                ..shortage_with_needs(resource, *needs)
            });
            Shortage {
                task_group: name(group),
                nodes: Some(i64::from(*nodes)),
                ..numbers.unwrap_or(none)
            }
        }
        WaitDetail::ClusterTooSmall {
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
            ..shortage_with_needs(resource, *needs)
        },
        WaitDetail::TooFewPlaces {
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
        WaitDetail::ExceedsSlices(slices) | WaitDetail::SlicesFragmented(slices) => {
            shortage_of_slices(slices)
        }
        WaitDetail::ExceedsTopology(domain) | WaitDetail::TopologyFragmented { domain, .. } => {
            shortage_in_domain(domain)
        }
        WaitDetail::InsufficientCapacity {
            group,
            resource,
            needs,
            free,
            missing,
            nodes,
            used_by_gangs: held_by_gangs,
            used_by_external_pods: held_by_others,
        } => Shortage {
            task_group: name(group),
            free: amount(resource, *free),
            missing: amount(resource, *missing),
            held_by_jobs: amount(resource, *held_by_gangs),
            held_by_others: amount(resource, *held_by_others),
            nodes: Some(i64::from(*nodes)),
            ..shortage_with_needs(resource, *needs)
        },
        WaitDetail::Scattered {
            group,
            resource,
            needs,
            pods,
            room,
            free,
            nodes,
            largest_free: most,
        } => Shortage {
            task_group: name(group),
            free: amount(resource, *free),
            most: amount(resource, *most),
            pods: Some(number(*pods)),
            room: Some(number(*room)),
            nodes: Some(i64::from(*nodes)),
            ..shortage_with_needs(resource, *needs)
        },
        WaitDetail::SeparateResources {
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
            ..shortage_with_needs(resource, *needs)
        },
        WaitDetail::Reserved { head, nodes, .. } => Shortage {
            nodes: Some(i64::from(*nodes)),
            ..shortage_behind(head)
        },
        WaitDetail::QuotaReserved { queue, head, .. } => Shortage {
            queue: Some(queue.as_str().to_owned()),
            ..shortage_behind(head)
        },
        WaitDetail::Provisioning { nodes, arrived, .. } => {
            let wanted: u32 = nodes.values().copied().fold(0, u32::saturating_add);
            Shortage {
                nodes: Some(i64::from(wanted.saturating_sub(*arrived))),
                ..none
            }
        }
        WaitDetail::GroupsCollide { pods, nodes, .. } => Shortage {
            pods: Some(number(*pods)),
            nodes: Some(i64::from(*nodes)),
            ..none
        },
    })
}

fn amount(resource: &ResourceName, amount: i128) -> Option<Quantity> {
    Some(engine::to_quantity(resource.as_str(), amount))
}

fn shortage_with_needs(resource: &ResourceName, needs: i128) -> Shortage {
    Shortage {
        resource: Some(resource.as_str().to_owned()),
        needs: amount(resource, needs),
        ..Shortage::default()
    }
}

fn shortage_behind(head: &GangId) -> Shortage {
    Shortage {
        behind: Some(job_ref(&engine::job_key(head))),
        ..Shortage::default()
    }
}

fn shortage_in_domain(domain: &BestDomain) -> Shortage {
    Shortage {
        task_group: name(&domain.group),
        level: Some(domain.level.clone()),
        domain: domain.domain.clone(),
        pods: Some(number(domain.pods)),
        room: Some(number(domain.fitting_pods)),
        ..Shortage::default()
    }
}

fn shortage_of_slices(slices: &ScarceSlices) -> Shortage {
    let fitting = slices
        .fitting_slices
        .saturating_mul(u64::from(slices.slice_pods));
    Shortage {
        task_group: name(&slices.group),
        level: Some(slices.level.clone()),
        domain: slices.domain.clone(),
        pods: Some(i64::from(slices.pods)),
        room: Some(number(fitting)),
        ..Shortage::default()
    }
}

fn name(group: &Option<GroupName>) -> Option<String> {
    group.as_ref().map(|group| group.as_str().to_owned())
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
