//! DeviceClasses, and the resource names under which they offer devices.

use k8s_openapi::api::resource::v1 as resource;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::Deserialize;

use super::slim::bare;

/// Prefix of the resource that requests a device of a class by the class's name (KEP-5004, implicit
/// extended resource).
const IMPLICIT_RESOURCE_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// A DeviceClass: the resource under which it offers its devices.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "resource::DeviceClass")]
pub struct SlimDeviceClass {
    /// Metadata, without labels and annotations.
    #[serde(deserialize_with = "bare")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: SlimDeviceClassSpec,
}

/// The fields of a class's spec that Trellis reads.
#[derive(Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimDeviceClassSpec {
    /// The extended resource of its devices.
    pub extended_resource_name: Option<String>,
}

impl SlimDeviceClass {
    /// Returns true if a pod that requests the resource may get a device of this class.
    #[must_use]
    pub fn offers(&self, resource: &str) -> bool {
        let implicit = resource.strip_prefix(IMPLICIT_RESOURCE_PREFIX);
        self.spec.extended_resource_name.as_deref() == Some(resource)
            || (implicit.is_some() && implicit == self.metadata.name.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_class_offers_its_resource_and_its_implicit_name() {
        let class: SlimDeviceClass = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "h100"},
            "spec": {"extendedResourceName": "nvidia.com/gpu", "selectors": [{"cel": {"expression": "true"}}]},
        }))
        .unwrap();
        assert!(class.offers("nvidia.com/gpu"));
        assert!(class.offers("deviceclass.resource.kubernetes.io/h100"));
        assert!(!class.offers("deviceclass.resource.kubernetes.io/b200"));
        assert!(!class.offers("h100"));
        assert!(!SlimDeviceClass::default().offers("nvidia.com/gpu"));
    }
}
