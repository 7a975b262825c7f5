//! The RuntimeProfile of a job, found.

use std::sync::Arc;

use trellis_api::{Reason, TrainingJobSpec};
use trellis_compiler::Profile;

use super::Missing;
use crate::world::Profiles;

/// The RuntimeProfile that the job is compiled with: the one that it names, else the
/// cluster's default, if there is one.
///
/// # Errors
/// If it names none that exists, or it is one that breaks a rule; or names none and
/// there are several defaults.
pub fn profile(
    job: &TrainingJobSpec,
    profiles: &Profiles,
) -> Result<Option<Arc<Profile>>, Missing> {
    let misconfigured = |message: String| Missing {
        reason: Reason::ProfileMisconfigured,
        message,
    };
    let (name, known) = match &job.profile {
        Some(name) => {
            let missing = || Missing {
                reason: Reason::ProfileNotFound,
                message: format!(
                    "spec.profile: RuntimeProfile {name:?} does not exist: create it or name another"
                ),
            };
            (name.clone(), profiles.get(name).ok_or_else(missing)?)
        }
        None => {
            let mut defaults = profiles.defaults();
            if defaults.len() > 1 {
                let names: Vec<_> = defaults.keys().map(String::as_str).collect();
                return Err(misconfigured(format!(
                    "spec.profile: none is given, and {}; or name one",
                    several_defaults(&names)
                )));
            }
            match defaults.pop_first() {
                Some(default) => default,
                None => return Ok(None),
            }
        }
    };
    known.profile.map(Some).map_err(|wrong| {
        misconfigured(format!(
            "spec.profile: RuntimeProfile {name:?} cannot be used: {wrong}"
        ))
    })
}

/// What is said where several profiles are the cluster's default.
#[must_use]
pub fn several_defaults(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
    format!(
        "the RuntimeProfiles {} are all the cluster's default: leave globalDefault to one of them",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::KnownProfile;
    use serde_json::{Value, json};
    use trellis_api::RuntimeProfile;

    fn spec(fields: Value) -> TrainingJobSpec {
        let mut spec = json!({"taskGroups": []});
        spec.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn the_profile_is_the_jobs_own_else_the_one_default_else_none() {
        let known = |name: &str, spec: Value| {
            let object: RuntimeProfile = serde_json::from_value(json!({
                "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
                "metadata": {"name": name}, "spec": spec,
            }))
            .unwrap();
            KnownProfile::from(object)
        };
        let there = Profiles::default();
        let find = |fields: Value| {
            let found = profile(&spec(fields), &there);
            found.map(|found| found.map(|p| p.name().to_owned()))
        };
        assert_eq!(find(json!({})), Ok(None));
        let missing = find(json!({"profile": "a"})).unwrap_err();
        assert_eq!(missing.reason, Reason::ProfileNotFound);
        assert!(missing.message.contains("spec.profile") && missing.message.contains("\"a\""));
        assert!(there.take("a", known("a", json!({}))));
        assert!(!there.take("a", known("a", json!({}))), "as it was");
        assert!(there.take("b", known("b", json!({"globalDefault": true}))));
        assert_eq!(find(json!({"profile": "a"})), Ok(Some("a".to_owned())));
        assert_eq!(find(json!({})), Ok(Some("b".to_owned())));
        // Two are none, and both are named; who names one has it.
        assert!(there.take("a", known("a", json!({"globalDefault": true}))));
        let two = find(json!({})).unwrap_err();
        assert_eq!(two.reason, Reason::ProfileMisconfigured);
        assert!(two.message.contains("\"a\", \"b\""), "{}", two.message);
        assert_eq!(find(json!({"profile": "a"})), Ok(Some("a".to_owned())));
        let wrong = json!({"podTemplate": {"spec": {"nodeName": "n"}}});
        assert!(there.take("a", known("a", wrong)));
        let wrong = find(json!({"profile": "a"})).unwrap_err();
        assert_eq!(wrong.reason, Reason::ProfileMisconfigured);
        assert!(
            wrong.message.contains("spec.podTemplate.spec.nodeName"),
            "{}",
            wrong.message
        );
        assert_eq!(find(json!({})), Ok(Some("b".to_owned())));
    }
}
