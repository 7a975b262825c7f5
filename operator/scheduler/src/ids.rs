//! Names. Each kind of name is a type of its own, so that a mix-up does not compile. A clone costs
//! one reference count.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! names {
    ($($(#[doc = $doc:literal])+ $name:ident;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Creates a name from a text, without checks or changes.
            #[must_use]
            pub fn new(name: impl Into<Arc<str>>) -> Self {
                Self(name.into())
            }

            /// Returns the text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from).map(Self::new)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    )+};
}

names! {
    /// A gang: `namespace/name`.
    GangId;
    /// A pod: `namespace/name`.
    PodKey;
    /// A node.
    NodeName;
    /// A queue.
    QueueName;
    /// A task group of a gang.
    GroupName;
    /// A flavor of resources.
    FlavorName;
    /// A topology.
    TopologyName;
    /// A limit outside the quota of queues, as messages name it: `quota policy "vision",
    /// runningJobs`.
    LimitName;
    /// A resource, by its Kubernetes name: `cpu`, `memory`, `nvidia.com/gpu`.
    ResourceName;
}

impl GangId {
    /// Returns the part before the slash, or an empty text if there is no slash.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.0
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }
}

/// The flavor that needs no definition. It contains every node.
impl Default for FlavorName {
    fn default() -> Self {
        Self::new("default")
    }
}
/// Suffix of resource names that count thousandths of a device. No Kubernetes resource name may
/// contain `#`, so no pod can request such a resource directly.
const SHARE_SUFFIX: &str = "#thousandths";

impl ResourceName {
    /// Returns the resource that counts thousandths of one device. A pod that requests 250 of it
    /// gets a quarter of a single device. A request is at most 1000.
    #[must_use]
    pub fn share_of(device: &Self) -> Self {
        Self::new(format!("{device}{SHARE_SUFFIX}"))
    }

    /// Returns the device of which this resource is a share.
    #[must_use]
    pub fn shared_device(&self) -> Option<Self> {
        self.0.strip_suffix(SHARE_SUFFIX).map(Self::new)
    }

    /// Returns true for resources that are counted as devices, such as `nvidia.com/gpu`: all
    /// resources except those built into Kubernetes.
    #[must_use]
    pub fn is_device(&self) -> bool {
        !matches!(
            self.as_str(),
            "cpu" | "memory" | "ephemeral-storage" | "storage" | "pods"
        ) && !self.0.starts_with("hugepages-")
            && !self.0.starts_with("attachable-volumes-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_is_the_part_before_the_slash() {
        assert_eq!(GangId::new("team-a/llm").namespace(), "team-a");
        assert_eq!(GangId::new("llm").namespace(), "");
    }

    #[test]
    fn share_resource_names_its_device() {
        let gpu = ResourceName::new("nvidia.com/gpu");
        let share = ResourceName::share_of(&gpu);
        assert_eq!(share.shared_device(), Some(gpu.clone()));
        assert_eq!(gpu.shared_device(), None);
    }

    #[test]
    fn kubernetes_resources_are_not_devices() {
        assert!(ResourceName::new("nvidia.com/mig-1g.5gb").is_device());
        assert!(ResourceName::new("gpu").is_device());
        assert!(!ResourceName::new("ephemeral-storage").is_device());
        assert!(!ResourceName::new("hugepages-2Mi").is_device());
    }
}
