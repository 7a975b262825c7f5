//! Checks that the guards are in force: admission policies that keep users from writing data that
//! only Trellis may write.

use std::collections::BTreeMap;

use kube::api::ObjectMeta;
use parking_lot::RwLock;
use serde_json::Value;

use super::stamping::shipped_spec;

/// An admission policy of the chart, with its binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guard {
    /// Protects labels and annotations `trellis.dev/*` of pods and jobs.
    ReservedKeys,
    /// Protects the spec and owners of pods that Trellis has placed.
    Pods,
    /// Protects PodGroups of jobs.
    PodGroups,
}

impl Guard {
    /// All guards.
    pub const ALL: [Self; 3] = [Self::ReservedKeys, Self::Pods, Self::PodGroups];

    /// Returns the name of the policy and of its binding.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReservedKeys => "trellis-reserved-keys",
            Self::Pods => "trellis-pods",
            Self::PodGroups => "trellis-pod-groups",
        }
    }

    /// Returns the consequence of a guard that is not in force, in words.
    #[must_use]
    pub(crate) const fn consequence(self) -> &'static str {
        match self {
            Self::ReservedKeys => {
                "external pods count in no queue unless a plan or this process has placed them"
            }
            Self::Pods => "users can change pods after policies have judged them",
            Self::PodGroups => {
                "of the PodGroup of a job only its plan is believed until the job is compiled"
            }
        }
    }
}

const KINDS: [&str; 2] = [
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// A policy or binding as the watch has shown it.
#[derive(Clone, Debug)]
struct GuardPart {
    uid: String,
    is_as_shipped: bool,
}

type GuardParts = BTreeMap<(Guard, &'static str), GuardPart>;

/// The guards' policies and bindings, as the watches show them.
#[derive(Debug, Default)]
pub struct Guards {
    parts: RwLock<GuardParts>,
}

impl Guards {
    /// Records a policy or binding that was created or changed. Returns true if that puts a guard
    /// in force or out of force.
    pub fn apply(&self, kind: &str, meta: &ObjectMeta, spec: &Value) -> bool {
        let Some((guard, kind)) = find_part(kind, meta.name.as_deref()) else {
            return false;
        };
        let part = GuardPart {
            uid: meta.uid.clone().unwrap_or_default(),
            is_as_shipped: shipped_spec(kind, guard.name()) == Some(spec),
        };
        self.change(guard, |parts| {
            parts.insert((guard, kind), part);
        })
    }

    /// Records that a policy or binding was deleted. Returns true if that puts a guard out of
    /// force.
    pub fn delete(&self, kind: &str, name: &str, uid: &str) -> bool {
        let Some((guard, kind)) = find_part(kind, Some(name)) else {
            return false;
        };
        self.change(guard, |parts| {
            if parts
                .get(&(guard, kind))
                .is_some_and(|part| part.uid == uid)
            {
                parts.remove(&(guard, kind));
            }
        })
    }

    fn change(&self, guard: Guard, change: impl FnOnce(&mut GuardParts)) -> bool {
        let mut parts = self.parts.write();
        let before = find_fault(&parts, guard);
        change(&mut parts);
        before != find_fault(&parts, guard)
    }

    /// Returns why a guard is not in force. None if it is in force.
    #[must_use]
    pub fn fault(&self, guard: Guard) -> Option<String> {
        find_fault(&self.parts.read(), guard)
    }

    /// Returns true if the guard is in force.
    #[must_use]
    pub fn is_in_force(&self, guard: Guard) -> bool {
        self.fault(guard).is_none()
    }

    /// Describes which guards are not in force, why, and with what consequence. None if all are in
    /// force.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let parts = self.parts.read();
        let faults = Guard::ALL.into_iter().filter_map(|guard| {
            Some(format!(
                "{}: {}",
                find_fault(&parts, guard)?,
                guard.consequence()
            ))
        });
        let faults: Vec<_> = faults.collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }
}

fn find_part(kind: &str, name: Option<&str>) -> Option<(Guard, &'static str)> {
    let kind = KINDS.into_iter().find(|known| *known == kind)?;
    let guard = Guard::ALL.into_iter().find(|g| Some(g.name()) == name)?;
    Some((guard, kind))
}

fn find_fault(parts: &GuardParts, guard: Guard) -> Option<String> {
    let name = guard.name();
    KINDS
        .into_iter()
        .find_map(|kind| match parts.get(&(guard, kind)) {
            None => Some(format!("the {kind} {name:?} is missing: apply the chart's")),
            Some(part) if !part.is_as_shipped => Some(format!(
                "the {kind} {name:?} differs from that of this version: apply the chart's"
            )),
            Some(_) => None,
        })
}

/// Admission policies of tests.
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures {
    #![allow(
        clippy::unwrap_used,
        reason = "tests alone use it, and a wrong fixture is to panic"
    )]

    use super::{Guard, Guards, KINDS, ObjectMeta, shipped_spec};

    pub(super) fn meta(name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            uid: Some("a".to_owned()),
            ..ObjectMeta::default()
        }
    }

    /// Applies all policies and bindings as the chart ships them.
    pub fn put_in_force(guards: &Guards) {
        for guard in Guard::ALL {
            for kind in KINDS {
                let spec = shipped_spec(kind, guard.name()).unwrap();
                guards.apply(kind, &meta(guard.name()), spec);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::fixtures::{meta, put_in_force};
    use super::*;

    #[test]
    fn guard_is_in_force_while_policy_and_binding_are_as_shipped() {
        let guards = Guards::default();
        assert!(guards.problem().is_some());
        put_in_force(&guards);
        assert_eq!(guards.problem(), None);
        for guard in Guard::ALL {
            assert!(guards.is_in_force(guard));
        }
    }

    #[test]
    fn guard_that_is_deleted_or_set_to_audit_is_not_in_force() {
        let guards = Guards::default();
        put_in_force(&guards);
        for guard in Guard::ALL {
            let name = guard.name();
            assert!(!guards.delete(KINDS[1], name, "another"));
            assert!(guards.delete(KINDS[1], name, "a"));
            let fault = guards.fault(guard).unwrap();
            assert!(
                fault.contains(KINDS[1]) && fault.contains("is missing"),
                "{fault}"
            );
            let mut audit = shipped_spec(KINDS[1], name).unwrap().clone();
            audit["validationActions"] = json!(["Audit"]);
            assert!(guards.apply(KINDS[1], &meta(name), &audit));
            let fault = guards.fault(guard).unwrap();
            assert!(
                fault.contains("differs from that of this version"),
                "{fault}"
            );
            assert!(guards.problem().unwrap().contains(guard.consequence()));
            let shipped = shipped_spec(KINDS[1], name).unwrap();
            assert!(guards.apply(KINDS[1], &meta(name), shipped));
            assert!(!guards.apply(KINDS[1], &meta(name), shipped), "nothing new");
            assert_eq!(guards.problem(), None);
        }
    }

    #[test]
    fn other_admission_policies_are_ignored() {
        let guards = Guards::default();
        assert!(!guards.apply(KINDS[0], &meta("another"), &json!({})));
        assert!(!guards.apply("Pod", &meta("trellis-pods"), &json!({})));
        assert!(!guards.delete(KINDS[0], "another", "a"));
    }
}
