//! The starter set: the policies of a fresh install, as the chart has them.

use trellis_api::ClusterJobPolicy;
use trellis_api::document;

use super::PolicyObject;

const CHART: &str = include_str!("../../../charts/trellis/files/policies.yaml");

/// The objects of the starter set.
#[must_use]
pub fn starter_objects() -> Vec<PolicyObject> {
    let documents = document::split(CHART).unwrap_or_default();
    let objects = documents.iter().filter_map(|document| {
        let object: ClusterJobPolicy = document.decode_valid().ok()?;
        Some(PolicyObject::from(&object))
    });
    objects.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cedar::{PolicyLoader, PolicyObjectState};

    #[test]
    fn starter_set_loads_without_problems() {
        let objects = starter_objects();
        assert!(!objects.is_empty());
        let (_, verdicts) = PolicyLoader::new().unwrap().load(None, objects);
        assert!(
            verdicts
                .iter()
                .all(|v| v.state == PolicyObjectState::Active)
        );
    }
}
