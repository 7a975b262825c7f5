//! The objects that ask an autoscaler for the nodes of one order. [`OrderObjectBuilder`] returns
//! them; `cluster_autoscaler` has the kind ProvisioningRequest.

pub mod cluster_autoscaler;
mod placeholder;
mod pod_spec;
mod request;

use std::collections::{BTreeMap, BTreeSet};

use kube::api::ObjectMeta;
use trellis_api::pod_group::{JournaledOrder, PlannedGroup};
use trellis_api::resource_flavor::ProvisioningRequestSettings;
use trellis_api::{ResourceFlavorSpec, names};
use trellis_compiler::CompiledGroup;

use crate::AuthorizedAttempt;
use crate::admitted_pod::AdmittedPod;
use crate::requirements::flavors::planned_group;

pub use request::FlavorRequest;

/// Characters of the job's name in the names of an order's objects.
const NAME_PREFIX_LENGTH: usize = 36;
/// Characters of the order's hash in the names of its objects.
const HASH_LENGTH: usize = 10;

/// Specs of flavors by name.
pub type FlavorSpecs = BTreeMap<String, ResourceFlavorSpec>;

/// The inputs from which the objects of an order are built.
#[derive(Clone, Copy, Debug)]
pub struct OrderObjectBuilder<'a> {
    /// The attempt that waits for the nodes.
    pub run: &'a AuthorizedAttempt,
    /// The order, as the journal names it.
    pub nodes: &'a JournaledOrder,
    /// The pods as admission leaves them, by group.
    pub admitted: &'a BTreeMap<String, AdmittedPod>,
    /// The flavors that exist.
    pub flavors: &'a FlavorSpecs,
}

/// Returns the flavors for which the order needs a ProvisioningRequest each.
#[must_use]
pub fn request_flavors<'a>(nodes: &'a JournaledOrder, flavors: &FlavorSpecs) -> BTreeSet<&'a str> {
    let groups = nodes.groups.iter();
    let wanted = groups.filter_map(|group| request_flavor(group, flavors));
    // Free nodes of a flavor may suffice, while the nodes of another flavor are on order.
    wanted
        .filter(|flavor| nodes.nodes.iter().any(|nodes| nodes.flavor == *flavor))
        .collect()
}

/// Returns true if the order needs placeholders.
#[must_use]
pub fn has_placeholders(nodes: &JournaledOrder, flavors: &FlavorSpecs) -> bool {
    let mut ordered = nodes.nodes.iter();
    let mut groups = nodes.groups.iter();
    ordered.any(|nodes| request_settings_of(&nodes.flavor, flavors).is_none())
        && groups.any(|group| request_flavor(group, flavors).is_none())
}

/// Appends the autoscaler's message about an order to the message of a waiting job.
#[must_use]
pub fn append_delay(message: &str, delay: &str) -> String {
    format!("{message}; the autoscaler says: {delay}")
}

/// Returns the ProvisioningRequest settings of a flavor. None: the flavor uses placeholders or gets
/// no new nodes.
#[must_use]
pub fn request_settings(flavor: &ResourceFlavorSpec) -> Option<&ProvisioningRequestSettings> {
    flavor.provisioning.as_ref()?.provisioning_request.as_ref()
}

/// Returns the flavor whose ProvisioningRequest contains the pods of a group.
fn request_flavor<'a>(group: &'a PlannedGroup, flavors: &FlavorSpecs) -> Option<&'a str> {
    let mut names = group.flavors.values().map(String::as_str);
    names.find(|name| request_settings_of(name, flavors).is_some())
}

fn request_settings_of<'a>(
    name: &str,
    flavors: &'a FlavorSpecs,
) -> Option<&'a ProvisioningRequestSettings> {
    request_settings(flavors.get(name)?)
}

impl OrderObjectBuilder<'_> {
    /// Returns the groups of the gang with their numbers: the whole gang, because autoscalers first
    /// count the free room on existing nodes.
    fn groups(&self) -> impl Iterator<Item = (usize, &CompiledGroup)> {
        let groups = self.run.job.compiled().groups().iter().enumerate();
        groups.filter(|(_, group)| group.gang_size() > 0)
    }

    fn planned(&self, group: &CompiledGroup) -> Option<&PlannedGroup> {
        planned_group(&self.nodes.groups, group.name())
    }

    /// Returns the flavor whose ProvisioningRequest contains the pods of a group.
    fn request_flavor(&self, group: &CompiledGroup) -> Option<&str> {
        request_flavor(self.planned(group)?, self.flavors)
    }

    /// Returns the metadata of the order's object of this number.
    fn metadata(&self, namespace: &str, number: usize) -> ObjectMeta {
        let job = self.run.job.compiled().job();
        let prefix: String = job.name().chars().take(NAME_PREFIX_LENGTH).collect();
        let hash: String = self.nodes.hash.chars().take(HASH_LENGTH).collect();
        let labels = BTreeMap::from([
            (names::MANAGED_BY.to_owned(), names::MANAGER.to_owned()),
            (names::NODE_ORDER.to_owned(), self.nodes.hash.clone()),
            (names::ORDERING_JOB_UID.to_owned(), self.run.uid.clone()),
        ]);
        let waits = format!("{}/{}", job.namespace(), job.name());
        ObjectMeta {
            name: Some(format!("{prefix}-{hash}-{number}")),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels),
            annotations: Some(BTreeMap::from([(names::ORDERING_JOB.to_owned(), waits)])),
            ..ObjectMeta::default()
        }
    }
}

#[cfg(test)]
mod tests;
