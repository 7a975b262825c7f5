//! What gangs hold of their queues' quota. A gang is charged whole.

use std::collections::BTreeMap;

use crate::explain::Detail;
use crate::ids::{GangId, QueueName, ResourceName};
use crate::queue::{Queue, Stop};
use crate::queueing::{Blocked, Signal, Wake};
use crate::state::{Catalog, GangIdx, ResourceIdx};

/// How many holders a certificate names.
const NAMED_HOLDERS: usize = 3;

/// What a gang needs or holds, by resource.
pub(crate) type Totals = [(ResourceIdx, i128)];

#[derive(Debug)]
struct Config {
    /// Nominal quota; None: what the nodes have.
    quota: Option<BTreeMap<ResourceIdx, i64>>,
    stop: Stop,
}

/// A gang and its charge.
#[derive(Debug)]
struct Holder {
    id: GangId,
    totals: Vec<(ResourceIdx, i128)>,
}

#[derive(Debug, Default)]
struct QueueState {
    /// None: the queue does not exist (any more), gangs that hold some of it do.
    config: Option<Config>,
    usage: BTreeMap<ResourceIdx, i128>,
    holders: BTreeMap<GangIdx, Holder>,
}

/// All queues.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    queues: BTreeMap<QueueName, QueueState>,
}

impl Queues {
    /// Takes a queue as it is now. Says whether anything changed.
    pub(crate) fn apply(&mut self, queue: &Queue, catalog: &mut Catalog) -> bool {
        let quota = queue.quota.as_ref().map(|quota| {
            quota
                .iter()
                .map(|(name, nominal)| (catalog.pin(name), *nominal))
                .collect::<BTreeMap<_, _>>()
        });
        let state = self.queues.entry(queue.name.clone()).or_default();
        let same = state
            .config
            .as_ref()
            .is_some_and(|c| c.quota == quota && c.stop == queue.stop);
        state.config = Some(Config {
            quota,
            stop: queue.stop,
        });
        !same
    }

    /// Forgets a queue; what is held of it is remembered.
    pub(crate) fn delete(&mut self, name: &QueueName) -> bool {
        let Some(state) = self.queues.get_mut(name) else {
            return false;
        };
        let was = state.config.take().is_some();
        self.forget_unless_held(name);
        was
    }

    /// How many gangs hold some of each queue of which any does.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (&QueueName, usize)> {
        self.queues
            .iter()
            .map(|(queue, state)| (queue, state.holders.len()))
            .filter(|(_, holders)| *holders > 0)
    }

    fn forget_unless_held(&mut self, name: &QueueName) {
        if self
            .queues
            .get(name)
            .is_some_and(|q| q.config.is_none() && q.holders.is_empty())
        {
            self.queues.remove(name);
        }
    }

    /// Charges a gang, whatever the quota says.
    pub(crate) fn charge(&mut self, name: &QueueName, gang: GangIdx, id: &GangId, totals: &Totals) {
        let state = self.queues.entry(name.clone()).or_default();
        for (resource, amount) in totals {
            let used = state.usage.entry(*resource).or_default();
            *used = used.saturating_add(*amount);
        }
        let holder = Holder {
            id: id.clone(),
            totals: totals.to_vec(),
        };
        state.holders.insert(gang, holder);
    }

    /// Takes the charge of a gang back; returns it.
    pub(crate) fn discharge(
        &mut self,
        name: &QueueName,
        gang: GangIdx,
    ) -> Vec<(ResourceIdx, i128)> {
        let Some(state) = self.queues.get_mut(name) else {
            return Vec::new();
        };
        let Some(Holder { totals, .. }) = state.holders.remove(&gang) else {
            return Vec::new();
        };
        for (resource, amount) in &totals {
            if let Some(used) = state.usage.get_mut(resource) {
                *used = used.saturating_sub(*amount);
                if *used == 0 {
                    state.usage.remove(resource);
                }
            }
        }
        self.forget_unless_held(name);
        totals
    }

    /// What gangs hold of a queue.
    pub(crate) fn usage(&self, name: &QueueName) -> impl Iterator<Item = (ResourceIdx, i128)> {
        self.queues
            .get(name)
            .into_iter()
            .flat_map(|q| q.usage.iter().map(|(r, used)| (*r, *used)))
    }

    /// Whether the queue is there and not stopped.
    pub(crate) fn open(&self, name: &QueueName) -> Result<(), Box<Blocked>> {
        let queue = name.clone();
        let mut wake = Wake::default();
        wake.on(Signal::Queue(queue.clone()), 1);
        match self.config(name) {
            None => Err(Blocked::new(Detail::QueueNotFound { queue }, wake)),
            Some(Config {
                stop: Stop::Hold, ..
            }) => Err(Blocked::new(Detail::QueueStopped { queue }, wake)),
            Some(Config {
                stop: Stop::None, ..
            }) => Ok(()),
        }
    }

    fn config(&self, name: &QueueName) -> Option<&Config> {
        self.queues.get(name)?.config.as_ref()
    }

    /// Whether the queue has so much left.
    pub(crate) fn admit(
        &self,
        name: &QueueName,
        totals: &Totals,
        catalog: &Catalog,
    ) -> Result<(), Box<Blocked>> {
        let Some(state) = self.queues.get(name) else {
            return self.open(name);
        };
        let Some(quota) = state.config.as_ref().and_then(|c| c.quota.as_ref()) else {
            return Ok(());
        };
        let mut wake = Wake::default();
        wake.on(Signal::Queue(name.clone()), 1);
        if let Some(detail) = exceeds(name, quota, totals, catalog) {
            return Err(Blocked::new(detail, wake));
        }
        let Some(lack) = most_lacking(quota, &state.usage, totals, catalog) else {
            return Ok(());
        };
        wake.on(
            Signal::QuotaFreed(name.clone(), lack.resource),
            lack.missing,
        );
        let (holders, largest) = state.who_holds(lack.resource);
        let detail = Detail::QuotaExceeded {
            queue: name.clone(),
            resource: lack.name,
            needs: lack.needs,
            nominal: lack.nominal,
            used: lack.used,
            missing: lack.missing,
            holders,
            largest,
        };
        Err(Blocked::new(detail, wake))
    }

    /// Adds to `wake` what would make the quota the reason.
    pub(crate) fn watch(&self, name: &QueueName, totals: &Totals, wake: &mut Wake) {
        wake.on(Signal::Queue(name.clone()), 1);
        let Some((state, quota)) = self
            .queues
            .get(name)
            .and_then(|q| Some((q, q.config.as_ref()?.quota.as_ref()?)))
        else {
            return;
        };
        for (resource, needs) in totals {
            if let Some(nominal) = quota.get(resource) {
                let used = state.usage.get(resource).copied().unwrap_or(0);
                let left = i128::from(*nominal)
                    .saturating_sub(used)
                    .saturating_sub(*needs);
                wake.on(
                    Signal::QuotaTaken(name.clone(), *resource),
                    left.saturating_add(1),
                );
            }
        }
    }
}

struct Lack {
    name: ResourceName,
    resource: ResourceIdx,
    needs: i128,
    nominal: i64,
    used: i128,
    missing: i128,
}

/// What could never fit.
fn exceeds(
    name: &QueueName,
    quota: &BTreeMap<ResourceIdx, i64>,
    totals: &Totals,
    catalog: &Catalog,
) -> Option<Detail> {
    let offers = || -> Vec<ResourceName> {
        let mut names: Vec<_> = quota.keys().map(|r| catalog.name(*r)).collect();
        names.sort_unstable();
        names
    };
    by_name(totals, catalog)
        .into_iter()
        .find_map(|(name_of, resource, needs)| {
            match quota.get(&resource) {
                // Pods alone need not be named: Kueue's rule.
                None if resource == catalog.pods() => None,
                None => Some(Detail::NotOffered {
                    queue: name.clone(),
                    resource: name_of,
                    needs,
                    offers: offers(),
                }),
                Some(nominal) if needs > i128::from(*nominal) => Some(Detail::ExceedsQuota {
                    queue: name.clone(),
                    resource: name_of,
                    needs,
                    nominal: *nominal,
                }),
                Some(_) => None,
            }
        })
}

/// Devices first, then by name: the order in which users think of them.
fn by_name(totals: &Totals, catalog: &Catalog) -> Vec<(ResourceName, ResourceIdx, i128)> {
    let mut named: Vec<_> = totals
        .iter()
        .map(|(resource, needs)| (catalog.name(*resource), *resource, *needs))
        .collect();
    named.sort_unstable_by(|a, b| (!a.0.is_device(), &a.0).cmp(&(!b.0.is_device(), &b.0)));
    named
}

/// The resource that lacks most, measured by its quota.
fn most_lacking(
    quota: &BTreeMap<ResourceIdx, i64>,
    usage: &BTreeMap<ResourceIdx, i128>,
    totals: &Totals,
    catalog: &Catalog,
) -> Option<Lack> {
    let mut most: Option<Lack> = None;
    for (name, resource, needs) in by_name(totals, catalog) {
        let Some(&nominal) = quota.get(&resource) else {
            continue;
        };
        let used = usage.get(&resource).copied().unwrap_or(0);
        let missing = used
            .saturating_add(needs)
            .saturating_sub(i128::from(nominal));
        let lack = Lack {
            name,
            resource,
            needs,
            nominal,
            used,
            missing,
        };
        if missing > 0 && most.as_ref().is_none_or(|m| lack.is_worse_than(m)) {
            most = Some(lack);
        }
    }
    most
}

impl Lack {
    fn is_worse_than(&self, other: &Self) -> bool {
        self.missing.saturating_mul(i128::from(other.nominal))
            > other.missing.saturating_mul(i128::from(self.nominal))
    }
}

impl QueueState {
    /// How many gangs hold some of a resource, and those that hold most.
    fn who_holds(&self, resource: ResourceIdx) -> (u32, Vec<(GangId, i128)>) {
        let mut holders: Vec<(GangId, i128)> = self
            .holders
            .values()
            .filter_map(|Holder { id, totals }| {
                let held = totals.iter().find(|(r, _)| *r == resource)?.1;
                Some((id.clone(), held))
            })
            .collect();
        holders.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let count = u32::try_from(holders.len()).unwrap_or(u32::MAX);
        holders.truncate(NAMED_HOLDERS);
        (count, holders)
    }
}
