//! The part of a pod's spec that policies and quotas judge, and later changes to it. The admission
//! policy `trellis-pods` prevents such changes while it is in force.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::slim::{SlimPodSpec, SlimResources};

/// Hashes of the fields that can be changed in the spec of an existing pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JudgedSpec {
    images: u64,
    tolerations: u64,
    resources: u64,
    /// Parts that have changed since the watch first showed the pod.
    changed: [bool; 3],
}

/// Names of the parts, in the order of [`JudgedSpec::changed`].
const PARTS: [&str; 3] = ["images", "tolerations", "resources"];

impl JudgedSpec {
    /// Returns the hashes of a spec without changes.
    #[must_use]
    pub fn from_spec(spec: &SlimPodSpec) -> Self {
        let mut images = DefaultHasher::new();
        let mut tolerations = DefaultHasher::new();
        let mut resources = DefaultHasher::new();
        for container in spec.init_containers.iter().chain(&spec.containers) {
            (&container.name, &container.image).hash(&mut images);
            container.name.hash(&mut resources);
            hash_resources(&container.resources, &mut resources);
        }
        hash_resources(&spec.resources, &mut resources);
        for t in &spec.tolerations {
            let key = (&t.key, &t.operator, &t.value);
            (key, &t.effect, t.toleration_seconds).hash(&mut tolerations);
        }
        Self {
            images: images.finish(),
            tolerations: tolerations.finish(),
            resources: resources.finish(),
            changed: [false; 3],
        }
    }

    /// Returns true if images, tolerations and resources are the same. Policies also judge labels,
    /// which are not compared.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        !self.differing_parts(other).contains(&true)
    }

    /// Returns the parts that differ, in the order of [`JudgedSpec::changed`].
    fn differing_parts(&self, other: &Self) -> [bool; 3] {
        [
            self.images != other.images,
            self.tolerations != other.tolerations,
            self.resources != other.resources,
        ]
    }

    /// Adds the changes of an earlier observation of the pod. Returns true if there are new
    /// changes.
    pub fn inherit_changes(&mut self, before: &Self) -> bool {
        let differs = self.differing_parts(before);
        self.changed = before.changed;
        for (changed, differs) in self.changed.iter_mut().zip(differs) {
            *changed |= differs;
        }
        differs.contains(&true)
    }

    /// Returns true if any part has changed since the watch first showed the pod.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.changed.contains(&true)
    }

    /// Returns the names of the parts that have changed since the watch first showed the pod. None
    /// without changes.
    #[must_use]
    pub fn changed_parts(&self) -> Option<String> {
        let changed = self.changed.iter().zip(PARTS);
        let changed: Vec<_> = changed
            .filter(|(is_changed, _)| **is_changed)
            .map(|(_, part)| part)
            .collect();
        (!changed.is_empty()).then(|| changed.join(", "))
    }
}

fn hash_resources(resources: &SlimResources, hasher: &mut DefaultHasher) {
    for amounts in [&resources.requests, &resources.limits] {
        amounts.len().hash(hasher);
        for (name, amount) in amounts {
            (name, &amount.0).hash(hasher);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn judged_spec(more: &Value) -> JudgedSpec {
        let mut spec = json!({
            "containers": [{"name": "main", "image": "a:1", "resources": {"limits": {"cpu": "1"}}}],
            "tolerations": [{"key": "a", "operator": "Exists"}],
        });
        for (path, value) in more.as_object().unwrap() {
            *spec.pointer_mut(path).unwrap() = value.clone();
        }
        JudgedSpec::from_spec(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn change_of_image_tolerations_or_resources_is_named() {
        for (path, value, named) in [
            ("/containers/0/image", json!("evil:1"), "images"),
            (
                "/tolerations",
                json!([{"operator": "Exists"}]),
                "tolerations",
            ),
            (
                "/containers/0/resources/limits/cpu",
                json!("64"),
                "resources",
            ),
        ] {
            let first = judged_spec(&json!({}));
            assert_eq!(first.changed_parts(), None);
            let mut same = judged_spec(&json!({}));
            assert!(!same.inherit_changes(&first));
            let mut changed = judged_spec(&json!({path: value}));
            assert!(changed.inherit_changes(&first));
            assert_eq!(changed.changed_parts().as_deref(), Some(named));
            // The spec is the same again, but the pod ran with another spec in between.
            let mut back = judged_spec(&json!({}));
            back.inherit_changes(&changed);
            assert_eq!(back.changed_parts().as_deref(), Some(named));
        }
    }
}
