//! What the pods of a gang get from the flavors that it is given.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use trellis_api::ResourceFlavorSpec;
use trellis_api::pod_group::{PlannedGroup, PlannedLimit};
use trellis_scheduler::{FlavorName, GroupFlavors, Placement};

/// The place of a whole gang.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Where its pods go.
    pub placement: Placement,
    /// What its task groups get there.
    pub groups: Vec<PlannedGroup>,
    /// The limits that it is charged to.
    pub limits: Vec<PlannedLimit>,
    /// Whose job it is, where anybody knows.
    pub requester: Option<String>,
    /// Version of the QuotaPolicies by which it was found.
    pub quotas: u64,
}

/// What each flavor brings, as the engine was told: of what the watch has shown
/// since, the engine's decisions know nothing.
#[derive(Debug, Default)]
pub struct Flavors(BTreeMap<FlavorName, Vec<Toleration>>);

impl Flavors {
    /// Takes a flavor as it is now.
    pub fn apply(&mut self, name: FlavorName, spec: &ResourceFlavorSpec) {
        let tolerations = spec.tolerations.iter().map(trellis_compiler::toleration);
        self.0.insert(name, tolerations.collect());
    }

    /// The flavor is gone.
    pub fn delete(&mut self, name: &FlavorName) {
        self.0.remove(name);
    }

    /// What the task groups of a placed gang get. Those that are given no flavor
    /// are left out.
    #[must_use]
    pub fn planned(&self, groups: &[GroupFlavors]) -> Vec<PlannedGroup> {
        let given = groups.iter().filter(|g| !g.flavors.is_empty());
        given.map(|group| self.planned_group(group)).collect()
    }

    fn planned_group(&self, group: &GroupFlavors) -> PlannedGroup {
        let mut tolerations: Vec<Toleration> = Vec::new();
        let brought = group.flavors.values().filter_map(|f| self.0.get(f));
        for toleration in brought.flatten() {
            if !tolerations.contains(toleration) {
                tolerations.push(toleration.clone());
            }
        }
        let flavors = group.flavors.iter();
        PlannedGroup {
            name: group.group.as_str().to_owned(),
            flavors: flavors
                .map(|(r, f)| (r.as_str().to_owned(), f.as_str().to_owned()))
                .collect(),
            tolerations,
        }
    }
}

/// What the pods of one task group tolerate because of their flavors.
#[must_use]
pub fn tolerations<'a>(groups: &'a [PlannedGroup], group: &str) -> &'a [Toleration] {
    let found = groups.iter().find(|g| g.name == group);
    found.map_or(&[], |g| g.tolerations.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trellis_scheduler::{GroupName, ResourceName};

    fn given(group: &str, flavors: &[(&str, &str)]) -> GroupFlavors {
        let flavors = flavors.iter();
        GroupFlavors {
            group: GroupName::new(group),
            flavors: flavors
                .map(|(r, f)| (ResourceName::new(*r), FlavorName::new(*f)))
                .collect(),
        }
    }

    #[test]
    fn a_group_gets_what_each_of_its_flavors_brings_once() {
        let brings = |keys: &[&str]| -> ResourceFlavorSpec {
            let all: Vec<_> = keys
                .iter()
                .map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}))
                .collect();
            serde_json::from_value(json!({"tolerations": all})).unwrap()
        };
        let mut flavors = Flavors::default();
        flavors.apply(FlavorName::new("spot"), &brings(&["spot", "shared"]));
        flavors.apply(FlavorName::new("fast"), &brings(&["shared", "fast"]));
        flavors.apply(FlavorName::new("gone"), &brings(&["gone"]));
        flavors.delete(&FlavorName::new("gone"));
        let planned = flavors.planned(&[
            given(
                "worker",
                &[("cpu", "spot"), ("gpu", "fast"), ("memory", "spot")],
            ),
            given("ghost", &[("cpu", "gone")]),
            given("free", &[]),
        ]);
        let names: Vec<_> = planned.iter().map(|g| g.name.as_str()).collect();
        assert_eq!(names, ["worker", "ghost"]);
        assert_eq!(planned[0].flavors["gpu"], "fast");
        let keys: Vec<_> = tolerations(&planned, "worker")
            .iter()
            .map(|t| (t.key.clone().unwrap(), t.toleration_seconds))
            .collect();
        let one = |key: &str| (key.to_owned(), Some(9));
        assert_eq!(keys, [one("spot"), one("shared"), one("fast")]);
        assert!(tolerations(&planned, "ghost").is_empty());
        assert!(tolerations(&planned, "free").is_empty());
    }
}
