//! Volumes to which a claim may be bound, regardless of its pods' nodes (`FindMatchingVolume` of
//! `k8s.io/component-helpers/storage/volume`). Pure.

use std::borrow::Borrow;

use trellis_policies::selects;

use crate::observed::{SlimClaim, SlimVolume};

/// Returns true if the volume's `claimRef` names the claim. A user or Trellis may have set it.
#[must_use]
pub fn is_reserved_for(volume: &SlimVolume, claim: &SlimClaim) -> bool {
    let meta = &claim.metadata;
    volume.spec.claim_ref.as_ref().is_some_and(|to| {
        Some(&to.name) == meta.name.as_ref()
            && Some(&to.namespace) == meta.namespace.as_ref()
            && to
                .uid
                .as_ref()
                .is_none_or(|uid| meta.uid.as_ref() == Some(uid))
    })
}

/// Returns the volumes to which the claim may be bound: the volume reserved for it, else all free
/// volumes, smallest first.
#[must_use]
pub(crate) fn find_candidates<'a, V: Borrow<SlimVolume>>(
    claim: &SlimClaim,
    all: &'a [V],
) -> Vec<&'a SlimVolume> {
    let all = || all.iter().map(Borrow::borrow);
    let is_enough = |volume: &&SlimVolume| is_suitable(volume, claim);
    let mut reserved = all()
        .filter(|volume| is_reserved_for(volume, claim))
        .filter(is_enough);
    if let Some(reserved) = reserved.next() {
        return vec![reserved];
    }
    let mut free: Vec<_> = all()
        .filter(|volume| is_free(volume, claim))
        .filter(is_enough)
        .collect();
    free.sort_by(|a, b| (a.amount(), a.name()).cmp(&(b.amount(), b.name())));
    free
}

/// Returns true if the volume meets the conditions that also apply to a volume reserved by a user.
fn is_suitable(volume: &SlimVolume, claim: &SlimClaim) -> bool {
    let mode = |mode: &Option<String>| mode.as_deref().unwrap_or("Filesystem").to_owned();
    let attributes = |class: &Option<String>| class.as_deref().unwrap_or_default().to_owned();
    let is_large = match (volume.amount(), claim.amount()) {
        (Some(capacity), Some(requested)) => capacity >= requested,
        _ => false,
    };
    let (offered, requested) = (&volume.spec, &claim.spec);
    is_large
        && volume.metadata.deletion_timestamp.is_none()
        && mode(&offered.volume_mode) == mode(&requested.volume_mode)
        && attributes(&offered.volume_attributes_class_name)
            == attributes(&requested.volume_attributes_class_name)
}

/// Returns true if the volume is available and has the class, labels and access modes that the
/// claim asks for.
fn is_free(volume: &SlimVolume, claim: &SlimClaim) -> bool {
    let selector = claim.spec.selector.as_ref();
    let labels = || volume.metadata.labels.clone().unwrap_or_default();
    let modes = &volume.spec.access_modes;
    volume.spec.claim_ref.is_none()
        && volume.status.phase == "Available"
        && volume.class() == claim.class()
        && claim
            .spec
            .access_modes
            .iter()
            .all(|mode| modes.contains(mode))
        && selector.is_none_or(|selector| selects(Some(selector), &labels()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn claim(spec: Value) -> SlimClaim {
        let mut all = json!({"storageClassName": "local", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}}});
        merge(&mut all, spec);
        serde_json::from_value(json!({
            "metadata": {"name": "data", "namespace": "a", "uid": "c"}, "spec": all,
        }))
        .unwrap()
    }

    fn volume(name: &str, more: Value) -> Arc<SlimVolume> {
        let mut all = json!({
            "metadata": {"name": name, "labels": {"disk": "fast"}},
            "spec": {"storageClassName": "local", "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                "capacity": {"storage": "10Gi"}},
            "status": {"phase": "Available"},
        });
        merge(&mut all, more);
        Arc::new(serde_json::from_value(all).unwrap())
    }

    fn merge(into: &mut Value, more: Value) {
        match (into, more) {
            (Value::Object(into), Value::Object(more)) => {
                for (key, value) in more {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
            (into, more) => *into = more,
        }
    }

    fn names(claim: &SlimClaim, volumes: &[Arc<SlimVolume>]) -> Vec<String> {
        let found = find_candidates(claim, volumes);
        found.iter().map(|v| v.name().to_owned()).collect()
    }

    #[test]
    fn candidate_volume_meets_all_requirements_of_the_claim() {
        let plain = claim(json!({}));
        for (claim_spec, volume_fields, fits) in [
            (json!({}), json!({}), true),
            (
                json!({}),
                json!({"spec": {"capacity": {"storage": "9Gi"}}}),
                false,
            ),
            (
                json!({}),
                json!({"spec": {"capacity": {"storage": "1Ti"}}}),
                true,
            ),
            (
                json!({}),
                json!({"spec": {"capacity": {"storage": "much"}}}),
                false,
            ),
            (
                json!({}),
                json!({"spec": {"storageClassName": "other"}}),
                false,
            ),
            (
                json!({}),
                json!({"spec": {"volumeMode": "Filesystem"}}),
                true,
            ),
            (json!({}), json!({"spec": {"volumeMode": "Block"}}), false),
            (
                json!({"volumeMode": "Block"}),
                json!({"spec": {"volumeMode": "Block"}}),
                true,
            ),
            (json!({"accessModes": ["ReadOnlyMany"]}), json!({}), false),
            (
                json!({"accessModes": ["ReadWriteMany", "ReadWriteOnce"]}),
                json!({}),
                true,
            ),
            (
                json!({"selector": {"matchLabels": {"disk": "fast"}}}),
                json!({}),
                true,
            ),
            (
                json!({"selector": {"matchLabels": {"disk": "slow"}}}),
                json!({}),
                false,
            ),
            (
                json!({"volumeAttributesClassName": "gold"}),
                json!({}),
                false,
            ),
            (json!({}), json!({"status": {"phase": "Released"}}), false),
            (
                json!({}),
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
                false,
            ),
        ] {
            let found = names(
                &claim(claim_spec.clone()),
                &[volume("v", volume_fields.clone())],
            );
            assert_eq!(!found.is_empty(), fits, "{claim_spec} {volume_fields}");
        }
        assert!(names(&plain, &[]).is_empty());
    }

    #[test]
    fn candidate_volumes_are_sorted_by_size_then_name() {
        let volume_of_size =
            |name: &str, size: &str| volume(name, json!({"spec": {"capacity": {"storage": size}}}));
        let volumes = [
            volume_of_size("c", "20Gi"),
            volume_of_size("b", "10Gi"),
            volume_of_size("d", "10240Mi"),
            volume_of_size("a", "1Ti"),
        ];
        assert_eq!(names(&claim(json!({})), &volumes), ["b", "d", "c", "a"]);
    }

    /// Class, labels and access modes are not checked for a volume that a user has reserved.
    #[test]
    fn volume_reserved_for_the_claim_is_the_only_candidate() {
        let reserved_for = |name: &str, uid: Value| {
            json!({"spec": {"storageClassName": "other",
                "claimRef": {"namespace": "a", "name": name, "uid": uid}}})
        };
        let claim_data = claim(json!({}));
        for (fields, expected) in [
            (reserved_for("data", json!("c")), vec!["given"]),
            (reserved_for("data", Value::Null), vec!["given"]),
            // The volume belonged to an earlier claim of that name.
            (reserved_for("data", json!("earlier")), vec!["free"]),
            (reserved_for("other", json!("o")), vec!["free"]),
        ] {
            let all = [volume("free", json!({})), volume("given", fields.clone())];
            assert_eq!(names(&claim_data, &all), expected, "{fields}");
        }
        let mut small = reserved_for("data", json!("c"));
        merge(
            &mut small,
            json!({"spec": {"capacity": {"storage": "1Gi"}}}),
        );
        assert!(names(&claim_data, &[volume("given", small)]).is_empty());
    }
}
