//! Flavors: their definitions, and their numbers.

use std::collections::BTreeMap;

use crate::constraints::Constraints;
use crate::gang::TaskGroup;
use crate::ids::FlavorName;
use crate::provisioning::FlavorGrowth;
use crate::queue::Flavor;
use crate::quota::FlavorIdx;
use crate::state::LabelSource;

/// All flavors that a queue or an administrator has named. The engine never reuses a number,
/// because the quota tree counts by it.
#[derive(Debug, Default)]
pub(crate) struct Flavors {
    numbers: BTreeMap<FlavorName, FlavorIdx>,
    names: Vec<FlavorName>,
    defined: BTreeMap<FlavorName, Flavor>,
}

impl Flavors {
    /// Adds or replaces a flavor. Returns true if the definition changes.
    pub(crate) fn apply(&mut self, flavor: Flavor) -> bool {
        if self.defined.get(&flavor.name) == Some(&flavor) {
            return false;
        }
        self.defined.insert(flavor.name.clone(), flavor);
        true
    }

    /// Removes the definition of a flavor. Returns true if there was one.
    pub(crate) fn delete(&mut self, name: &FlavorName) -> bool {
        self.defined.remove(name).is_some()
    }

    /// Returns the number of a flavor, assigned at the first call.
    pub(crate) fn intern(&mut self, name: &FlavorName) -> FlavorIdx {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = FlavorIdx::from_index(self.names.len());
        self.numbers.insert(name.clone(), number);
        self.names.push(name.clone());
        number
    }

    /// Returns the flavor with this number.
    pub(crate) fn name(&self, number: FlavorIdx) -> Option<&FlavorName> {
        self.names.get(number.index())
    }

    /// Returns all names, in the order of the numbers.
    pub(crate) fn names(&self) -> &[FlavorName] {
        &self.names
    }

    /// Returns the definitions, by name.
    pub(crate) fn defined(&self) -> impl Iterator<Item = &Flavor> {
        self.defined.values()
    }

    /// Returns the new nodes that a flavor may get.
    pub(crate) fn growth(&self, name: &FlavorName) -> Option<&FlavorGrowth> {
        self.defined.get(name)?.growth.as_ref()
    }

    /// Returns true if any flavor may get new nodes.
    pub(crate) fn can_grow(&self) -> bool {
        self.defined.values().any(|flavor| flavor.growth.is_some())
    }

    /// Returns true if a flavor can be used: it is defined, or it is the default flavor.
    pub(crate) fn exists(&self, name: &FlavorName) -> bool {
        self.defined.contains_key(name) || *name == FlavorName::default()
    }

    /// Returns true if the pods of a group may run on the flavor's nodes.
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
            group.constraints.repelling_taint(taint).is_none()
                || tolerant.repelling_taint(taint).is_none()
        })
    }

    /// Adds the flavor's labels and tolerations to the constraints. Returns false if they
    /// contradict each other.
    pub(crate) fn add_constraints(&self, name: &FlavorName, constraints: &mut Constraints) -> bool {
        let Some(flavor) = self.defined.get(name) else {
            return true;
        };
        for (key, value) in &flavor.node_labels {
            let before = constraints.node_selector.insert(key.clone(), value.clone());
            // The group requests nodes that do not belong to the flavor.
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

    /// Returns true if the definition of the flavor has a label with that key.
    pub(crate) fn has_label_key(&self, name: &FlavorName, key: &str) -> bool {
        let defined = self.defined.get(name);
        defined.is_some_and(|flavor| flavor.node_labels.contains_key(key))
    }

    /// Returns true if a node with these labels belongs to the flavor.
    pub(crate) fn matches_labels(&self, name: &FlavorName, labels: &impl LabelSource) -> bool {
        self.defined.get(name).is_none_or(|flavor| {
            flavor
                .node_labels
                .iter()
                .all(|(key, value)| labels.label(key) == Some(value))
        })
    }
}
