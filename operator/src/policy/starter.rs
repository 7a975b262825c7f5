//! The policies of a fresh install, as the chart has them.

use trellis_api::ClusterJobPolicy;
use trellis_api::document;
use trellis_policies::cedar::PolicyObject;

const CHART: &str = include_str!("../../../charts/trellis/files/policies.yaml");

/// Its objects.
#[must_use]
pub(crate) fn objects() -> Vec<PolicyObject> {
    let documents = document::split(CHART).unwrap_or_default();
    let objects = documents.iter().filter_map(|document| {
        let object: ClusterJobPolicy = document.valid().ok()?;
        Some(PolicyObject::from(&object))
    });
    objects.collect()
}
