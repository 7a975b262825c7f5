//! A volume as a resource.

use trellis_api::job_policy::{TestResource, TestVolumeKind};

use super::object_name::NamespacedName;
use super::resource::{
    InvalidTestRequest, RequestBuildError, Resource, ResourceEntity, collect_attributes,
    string_value,
};

/// The object behind a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeRef {
    /// Kind of the object.
    pub kind: VolumeKind,
    /// The object. For [`VolumeKind::Ephemeral`], the StorageClass with the job's namespace.
    pub object: NamespacedName,
}

/// Kind of the object behind a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeKind {
    /// A PersistentVolumeClaim.
    Claim,
    /// A ConfigMap, mounted or in the environment.
    ConfigMap,
    /// A volume that is created for one pod. Policies know it by its StorageClass.
    Ephemeral,
}

impl VolumeKind {
    /// The word that policies know it by.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::ConfigMap => "configMap",
            Self::Ephemeral => "ephemeral",
        }
    }
}

impl VolumeRef {
    /// The use of the volume in words.
    pub(super) fn describe_use(&self) -> String {
        let name = &self.object.name;
        match self.kind {
            VolumeKind::Claim => format!("the job mounts the claim {name:?}"),
            VolumeKind::ConfigMap => format!("the job reads the ConfigMap {name:?}"),
            VolumeKind::Ephemeral => {
                format!("each pod has an ephemeral volume of StorageClass {name:?}")
            }
        }
    }
}

impl Resource for VolumeRef {
    fn from_test(namespace: &str, resource: &TestResource) -> Result<Self, InvalidTestRequest> {
        let kind = match resource.kind.unwrap_or_default() {
            TestVolumeKind::Claim => VolumeKind::Claim,
            TestVolumeKind::ConfigMap => VolumeKind::ConfigMap,
            TestVolumeKind::Ephemeral => VolumeKind::Ephemeral,
        };
        let object = NamespacedName::from_test(namespace, resource)?;
        Ok(Self { kind, object })
    }

    fn entity(&self) -> Result<Option<ResourceEntity<'_>>, RequestBuildError> {
        let (kind, object) = (self.kind.as_str(), &self.object);
        Ok(Some(ResourceEntity {
            id: format!("{}/{kind}/{}", object.namespace, object.name),
            attributes: collect_attributes([
                ("name", Some(string_value(&object.name))),
                ("kind", Some(string_value(kind))),
            ]),
            namespace: Some(&object.namespace),
        }))
    }

    fn longest_text(&self) -> &str {
        &self.object.name
    }

    fn describe(&self, _: &str) -> Option<String> {
        match self.kind {
            VolumeKind::Claim => self.object.describe("claim"),
            VolumeKind::ConfigMap => self.object.describe("ConfigMap"),
            VolumeKind::Ephemeral => Some(format!(
                "ephemeral volume of StorageClass {:?}",
                self.object.name
            )),
        }
    }
}
