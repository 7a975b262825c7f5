//! The part of a node's devices that typical tasks can use: packing preserves it.
//!
//! Fragmentation as in FGD (Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads
//! with Fragmentation Gradient Descent", USENIX ATC '23). It is the free devices of a node, minus
//! the part that a typical task could use, averaged over the typical tasks. Packing chooses the
//! node where fragmentation grows least. Free devices shrink by the same amount on every node, so
//! this is the node where the usable part shrinks least beyond that. A task uses
//!
//! - nothing of a node that has no room for it or does not meet its constraints;
//! - otherwise every device that is free enough for it,
//! - but no more devices than the free cores feed, at the cores that typical tasks need per device
//!   on average, and at least its own.
//!
//! The last rule is ours. FGD counts all free devices as usable while one task fits, so it notices
//! too late that devices become stranded for lack of cores. The rule has no parameter: it averages
//! over the same tasks.

use super::history::{TaskCounts, TypicalTask};
use crate::state::{
    Catalog, NodeProfile, Nodes, PodNeeds, ResourceIdx, SignatureIdx, WHOLE_DEVICE,
};

/// The typical tasks, prepared for trials on profiles.
#[derive(Debug, Default)]
pub(super) struct Fragmentation {
    tasks: Vec<PreparedTask>,
    cpu: Option<ResourceIdx>,
}

#[derive(Debug)]
struct PreparedTask {
    needs: PodNeeds,
    /// The device itself, also for a task that needs only a share of it.
    device: ResourceIdx,
    /// Thousandths of devices that one pod takes.
    device_share: i64,
    weight: i64,
    /// The bit of its signature in a profile.
    bit: u128,
    /// Weighted thousandths of devices and of cores that all tasks with this device take.
    devices: i128,
    cores: i128,
}

impl Fragmentation {
    /// Prepares the typical tasks, and lists the signatures whose bits profiles must have.
    pub(super) fn new(
        seen: &TaskCounts,
        nodes: &Nodes,
        catalog: &Catalog,
    ) -> (Self, Vec<SignatureIdx>) {
        // On one node, tasks that differ only in their slices are alike.
        let mut typical: Vec<TypicalTask<'_>> = seen.typical_tasks().collect();
        typical.dedup_by(|next, task| {
            let alike = (next.demand, next.signature) == (task.demand, task.signature);
            if alike {
                task.weight = task.weight.saturating_add(next.weight);
            }
            alike
        });
        let mut lenses: Vec<SignatureIdx> = typical.iter().map(|t| t.signature).collect();
        lenses.sort_unstable();
        lenses.dedup();
        let task = |typical| prepare_task(typical, &lenses, nodes, catalog);
        let mut tasks: Vec<PreparedTask> = typical.into_iter().filter_map(task).collect();
        let cpu = catalog.cpu();
        let sums: Vec<(ResourceIdx, i128, i128)> = tasks
            .iter()
            .map(|t| {
                let weight = i128::from(t.weight);
                let takes = i128::from(t.device_share).saturating_mul(weight);
                let cores = i128::from(need_amount(&t.needs, cpu)).saturating_mul(weight);
                (t.device, takes, cores)
            })
            .collect();
        for task in &mut tasks {
            for (_, takes, cores) in sums.iter().filter(|(d, ..)| *d == task.device) {
                task.devices = task.devices.saturating_add(*takes);
                task.cores = task.cores.saturating_add(*cores);
            }
        }
        let cpu = Some(cpu);
        (Self { tasks, cpu }, lenses)
    }

    /// Returns the thousandths of free devices that typical tasks can use, summed by the weight of
    /// the tasks.
    pub(super) fn usable_devices(&self, profile: &NodeProfile) -> i64 {
        let cores = self.cpu.map_or(0, |cpu| profile.free(cpu));
        self.tasks.iter().fold(0, |sum, task| {
            let usable = task.usable_devices(profile, cores);
            sum.saturating_add(usable.saturating_mul(task.weight))
        })
    }
}

impl PreparedTask {
    fn usable_devices(&self, profile: &NodeProfile, cores: i64) -> i64 {
        if profile.met_signatures & self.bit == 0 || !profile.fits_pod(&self.needs) {
            return 0;
        }
        let whole = profile.free(self.device).saturating_mul(WHOLE_DEVICE);
        let enough = match self.needs.share {
            Some((_, share)) => profile
                .shared_free(self.device)
                .filter(|left| *left >= share)
                .fold(whole, i64::saturating_add),
            None => whole,
        };
        let fed = i128::from(cores)
            .saturating_mul(self.devices)
            .checked_div(self.cores)
            .map_or(enough, |fed| i64::try_from(fed).unwrap_or(i64::MAX));
        enough.min(fed).max(self.device_share)
    }
}

fn need_amount(needs: &PodNeeds, resource: ResourceIdx) -> i64 {
    let found = needs.amounts.iter().find(|(r, _)| *r == resource);
    found.map_or(0, |(_, amount)| *amount)
}

fn prepare_task(
    typical: TypicalTask<'_>,
    lenses: &[SignatureIdx],
    nodes: &Nodes,
    catalog: &Catalog,
) -> Option<PreparedTask> {
    let needs = nodes.needs(&catalog.demand(typical.demand))?;
    let (device, takes) = match needs.share {
        Some((device, share)) if nodes.shared_device(typical.device) == Some(device) => {
            (device, share)
        }
        _ => {
            let devices = need_amount(&needs, typical.device);
            (typical.device, devices.saturating_mul(WHOLE_DEVICE))
        }
    };
    let place = lenses.binary_search(&typical.signature).ok()?;
    Some(PreparedTask {
        needs,
        device,
        device_share: takes,
        weight: i64::try_from(typical.weight).unwrap_or(i64::MAX),
        bit: 1_u128.checked_shl(u32::try_from(place).ok()?)?,
        devices: 0,
        cores: 0,
    })
}
