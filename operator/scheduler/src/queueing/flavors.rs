//! Flavors: their definitions, and their numbers.

use std::collections::BTreeMap;

use crate::constraints::Constraints;
use crate::gang::TaskGroup;
use crate::ids::FlavorName;
use crate::queue::Flavor;
use crate::quota::FlavorIdx;
use crate::state::Labelled;

/// Every flavor that a queue or an administrator has named. A number is never
/// given to another: quota is counted by it.
#[derive(Debug, Default)]
pub(crate) struct Flavors {
    numbers: BTreeMap<FlavorName, FlavorIdx>,
    names: Vec<FlavorName>,
    defined: BTreeMap<FlavorName, Flavor>,
}

impl Flavors {
    /// Takes a flavor as it is now. Says whether anything changed.
    pub(crate) fn apply(&mut self, flavor: Flavor) -> bool {
        if self.defined.get(&flavor.name) == Some(&flavor) {
            return false;
        }
        self.defined.insert(flavor.name.clone(), flavor);
        true
    }

    /// Forgets a flavor's definition.
    pub(crate) fn delete(&mut self, name: &FlavorName) -> bool {
        self.defined.remove(name).is_some()
    }

    /// The number of a flavor, from now on.
    pub(crate) fn number(&mut self, name: &FlavorName) -> FlavorIdx {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = FlavorIdx::of(self.names.len());
        self.numbers.insert(name.clone(), number);
        self.names.push(name.clone());
        number
    }

    /// The flavor of a number.
    pub(crate) fn name(&self, number: FlavorIdx) -> Option<&FlavorName> {
        self.names.get(number.at())
    }

    /// Every name, in the order of the numbers.
    pub(crate) fn names(&self) -> &[FlavorName] {
        &self.names
    }

    /// The definitions, by name.
    pub(crate) fn defined(&self) -> impl Iterator<Item = &Flavor> {
        self.defined.values()
    }

    /// Whether a flavor can be used: it is defined, or is the one that need not be.
    pub(crate) fn exists(&self, name: &FlavorName) -> bool {
        self.defined.contains_key(name) || *name == FlavorName::default()
    }

    /// Whether the pods of a group may go to the flavor's nodes.
    pub(crate) fn accepts(&self, name: &FlavorName, group: &TaskGroup) -> bool {
        let Some(flavor) = self.defined.get(name) else {
            return self.exists(name);
        };
        let tolerant = Constraints {
            tolerations: flavor.tolerations.clone(),
            ..Constraints::default()
        };
        flavor.node_taints.iter().all(|taint| {
            let taint = std::slice::from_ref(taint);
            group.constraints.repelled_by(taint).is_none() || tolerant.repelled_by(taint).is_none()
        })
    }

    /// Adds to what pods ask of their node what the flavor asks of it.
    pub(crate) fn constrain(&self, name: &FlavorName, constraints: &mut Constraints) -> bool {
        let Some(flavor) = self.defined.get(name) else {
            return true;
        };
        for (key, value) in &flavor.node_labels {
            let before = constraints.node_selector.insert(key.clone(), value.clone());
            // The group asks for nodes that are none of the flavor's.
            if before.is_some_and(|before| before != *value) {
                return false;
            }
        }
        for toleration in &flavor.tolerations {
            if !constraints.tolerations.contains(toleration) {
                constraints.tolerations.push(toleration.clone());
            }
        }
        true
    }

    /// Whether the flavor's nodes bear a label of that key.
    pub(crate) fn asks_for(&self, name: &FlavorName, key: &str) -> bool {
        let defined = self.defined.get(name);
        defined.is_some_and(|flavor| flavor.node_labels.contains_key(key))
    }

    /// Whether a node with these labels is one of the flavor's.
    pub(crate) fn is_on(&self, name: &FlavorName, labels: &impl Labelled) -> bool {
        self.defined.get(name).is_none_or(|flavor| {
            flavor
                .node_labels
                .iter()
                .all(|(key, value)| labels.label(key) == Some(value))
        })
    }
}
