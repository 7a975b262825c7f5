//! The resource groups that a queue offers: its own, or those of its tree.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::Queues;
use crate::ids::{FlavorName, QueueName, ResourceName};
use crate::queue::{FlavorQuotas, ResourceGroup};
use crate::quota::{QueueFault, Quota};
use crate::state::Catalog;

impl Queues {
    /// Returns the resource groups that a queue offers. Empty: the queue offers all that the nodes
    /// have.
    ///
    /// A queue without quotas, in a tree that has some, offers every resource and flavor that the
    /// tree names. Resources that have the same flavors form one group. Flavors come in the order
    /// of the nearest queue above that names them, then by name.
    pub(crate) fn offered_groups(
        &self,
        name: &QueueName,
        catalog: &Catalog,
    ) -> Cow<'_, [ResourceGroup]> {
        let own = self.configs.get(name).map(|queue| &queue.resource_groups);
        match own.filter(|groups| !groups.is_empty()) {
            Some(groups) => Cow::Borrowed(groups),
            None => Cow::Owned(self.offered_by_tree(name, catalog)),
        }
    }

    fn offered_by_tree(&self, name: &QueueName, catalog: &Catalog) -> Vec<ResourceGroup> {
        let mut flavors_of: BTreeMap<ResourceName, BTreeSet<FlavorName>> = BTreeMap::new();
        let at = self.tree.find(name);
        for what in at.into_iter().flat_map(|at| self.tree.named_resources(at)) {
            if let Some(flavor) = self.flavors.name(what.flavor) {
                let flavors = flavors_of.entry(catalog.name(what.resource)).or_default();
                flavors.insert(flavor.clone());
            }
        }
        let mut together: BTreeMap<BTreeSet<FlavorName>, BTreeSet<ResourceName>> = BTreeMap::new();
        for (resource, flavors) in flavors_of {
            together.entry(flavors).or_default().insert(resource);
        }
        if together.is_empty() {
            return Vec::new();
        }
        let preferred = self.preferred_flavors(name);
        let mut groups: Vec<(BTreeSet<ResourceName>, ResourceGroup)> = together
            .into_iter()
            .map(|(flavors, resources)| {
                let mut flavors: Vec<FlavorName> = flavors.into_iter().collect();
                let place = |flavor: &FlavorName| preferred.iter().position(|f| *f == flavor);
                // The sort is stable: the remaining flavors stay in order of name.
                flavors.sort_by_key(|flavor| place(flavor).unwrap_or(usize::MAX));
                let quotas = |flavor| FlavorQuotas {
                    flavor,
                    quotas: resources
                        .iter()
                        .map(|r| (r.clone(), Quota::default()))
                        .collect(),
                };
                let flavors = flavors.into_iter().map(quotas).collect();
                (resources, ResourceGroup { flavors })
            })
            .collect();
        groups.sort_by(|a, b| a.0.cmp(&b.0));
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Returns the flavors of the nearest queue above that names flavors, in its order.
    fn preferred_flavors(&self, name: &QueueName) -> Vec<&FlavorName> {
        // The tree has no cycles, so this ends.
        let above = self.tree.find(name).into_iter();
        let mut above = above.flat_map(|at| self.tree.names_above(at));
        let nearest = above.find_map(|name| {
            let groups = &self.configs.get(name)?.resource_groups;
            (!groups.is_empty()).then_some(groups)
        });
        let groups = nearest.into_iter().flatten();
        groups.flat_map(|g| &g.flavors).map(|f| &f.flavor).collect()
    }
}

/// Returns the fault of resource groups, if any. Each resource may have one quota per flavor, and
/// all flavors of a group must have quotas of the same resources.
pub(super) fn find_fault(groups: &[ResourceGroup]) -> Option<QueueFault> {
    let mut resources: BTreeSet<&ResourceName> = BTreeSet::new();
    for group in groups {
        let mut flavors: BTreeSet<&FlavorName> = BTreeSet::new();
        let Some(first) = group.flavors.first() else {
            continue;
        };
        for offered in &group.flavors {
            let flavor = &offered.flavor;
            if !flavors.insert(flavor) {
                let flavor = flavor.clone();
                return Some(QueueFault::FlavorTwice { flavor });
            }
            if !offered.quotas.keys().eq(first.quotas.keys()) {
                return Some(QueueFault::UnlikeFlavors {
                    first: first.flavor.clone(),
                    other: flavor.clone(),
                });
            }
        }
        for resource in first.quotas.keys() {
            if !resources.insert(resource) {
                let resource = resource.clone();
                return Some(QueueFault::ResourceTwice { resource });
            }
        }
    }
    None
}
