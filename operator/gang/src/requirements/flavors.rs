//! Applies flavors to the pods of a gang.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use trellis_api::ResourceFlavorSpec;
use trellis_api::pod_group::{PlannedGroup, PlannedLimit};
use trellis_scheduler::{FlavorName, GroupFlavors, Placement};

/// The place of a whole gang.
#[derive(Clone, Debug, Default)]
pub struct GangPlacement {
    /// Nodes of the gang's pods.
    pub placement: Placement,
    /// Flavors and tolerations of its task groups.
    pub groups: Vec<PlannedGroup>,
    /// The limits that the place is charged to.
    pub limits: Vec<PlannedLimit>,
    /// The requester of the job, if known.
    pub requester: Option<String>,
    /// Version of the QuotaPolicies that the placement obeys.
    pub quota_version: u64,
}

/// Tolerations of each flavor, in the version that the engine knows. The engine's decisions do not
/// depend on newer events of the watch.
#[derive(Debug, Default)]
pub struct FlavorTolerations(BTreeMap<FlavorName, Vec<Toleration>>);

impl FlavorTolerations {
    /// Stores a flavor.
    pub fn apply(&mut self, name: FlavorName, spec: &ResourceFlavorSpec) {
        let tolerations = spec.tolerations.iter().map(trellis_compiler::toleration);
        self.0.insert(name, tolerations.collect());
    }

    /// Removes a flavor.
    pub fn delete(&mut self, name: &FlavorName) {
        self.0.remove(name);
    }

    /// Returns the flavors and tolerations of the task groups of a placed gang. Groups without a
    /// flavor are left out.
    #[must_use]
    pub fn plan_groups(&self, groups: &[GroupFlavors]) -> Vec<PlannedGroup> {
        let with_flavors = groups.iter().filter(|g| !g.flavors.is_empty());
        with_flavors.map(|group| self.plan_group(group)).collect()
    }

    fn plan_group(&self, group: &GroupFlavors) -> PlannedGroup {
        let mut tolerations: Vec<Toleration> = Vec::new();
        let of_flavors = group.flavors.values().filter_map(|f| self.0.get(f));
        for toleration in of_flavors.flatten() {
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
            annotations: BTreeMap::new(),
        }
    }
}

/// Returns the annotations that the pods of one task group get from their plan.
#[must_use]
pub fn group_annotations<'a>(
    groups: &'a [PlannedGroup],
    group: &str,
) -> &'a BTreeMap<String, String> {
    const NONE: &BTreeMap<String, String> = &BTreeMap::new();
    planned_group(groups, group).map_or(NONE, |g| &g.annotations)
}

/// Returns the tolerations that the pods of one task group get from their flavors.
#[must_use]
pub fn group_tolerations<'a>(groups: &'a [PlannedGroup], group: &str) -> &'a [Toleration] {
    planned_group(groups, group).map_or(&[], |g| g.tolerations.as_slice())
}

/// Returns the task group of this name.
#[must_use]
pub fn planned_group<'a>(groups: &'a [PlannedGroup], name: &str) -> Option<&'a PlannedGroup> {
    groups.iter().find(|group| group.name == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trellis_scheduler::{GroupName, ResourceName};

    use super::*;

    fn group_flavors(group: &str, flavors: &[(&str, &str)]) -> GroupFlavors {
        let flavors = flavors.iter();
        GroupFlavors {
            group: GroupName::new(group),
            flavors: flavors
                .map(|(r, f)| (ResourceName::new(*r), FlavorName::new(*f)))
                .collect(),
        }
    }

    #[test]
    fn group_gets_each_toleration_of_its_flavors_once() {
        let flavor_with = |keys: &[&str]| -> ResourceFlavorSpec {
            let tolerations: Vec<_> = keys
                .iter()
                .map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}))
                .collect();
            serde_json::from_value(json!({"tolerations": tolerations})).unwrap()
        };
        let mut flavors = FlavorTolerations::default();
        flavors.apply(FlavorName::new("spot"), &flavor_with(&["spot", "shared"]));
        flavors.apply(FlavorName::new("fast"), &flavor_with(&["shared", "fast"]));
        flavors.apply(FlavorName::new("gone"), &flavor_with(&["gone"]));
        flavors.delete(&FlavorName::new("gone"));
        let planned = flavors.plan_groups(&[
            group_flavors(
                "worker",
                &[("cpu", "spot"), ("gpu", "fast"), ("memory", "spot")],
            ),
            group_flavors("ghost", &[("cpu", "gone")]),
            group_flavors("free", &[]),
        ]);
        let names: Vec<_> = planned.iter().map(|g| g.name.as_str()).collect();
        assert_eq!(names, ["worker", "ghost"]);
        assert_eq!(planned[0].flavors["gpu"], "fast");
        let keys: Vec<_> = group_tolerations(&planned, "worker")
            .iter()
            .map(|t| (t.key.clone().unwrap(), t.toleration_seconds))
            .collect();
        let toleration = |key: &str| (key.to_owned(), Some(9));
        assert_eq!(
            keys,
            [toleration("spot"), toleration("shared"), toleration("fast")]
        );
        assert!(group_tolerations(&planned, "ghost").is_empty());
        assert!(group_tolerations(&planned, "free").is_empty());
    }
}
