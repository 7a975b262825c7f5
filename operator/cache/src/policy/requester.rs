//! The requester of a job, from its stamp or from the user who writes the job now.

use k8s_openapi::api::authentication::v1::UserInfo;
use kube::api::ObjectMeta;
use serde::Deserialize;
use trellis_api::names;
use trellis_policies::cedar::Requester;

/// Longest list of groups that a stamp holds, in characters. A longer list has no stamp, because
/// annotations are limited (`files/admission.yaml` of the chart).
const MAX_GROUPS_CHARS: usize = 32_768;

#[derive(Deserialize)]
struct RequesterStamp {
    user: String,
    #[serde(default)]
    groups: Vec<String>,
}

/// Returns the requester that the stamp of an object names. None if there is no stamp or it does
/// not parse.
#[must_use]
pub fn stamped_requester(meta: &ObjectMeta) -> Option<Requester> {
    let stamp = meta.annotations.as_ref()?.get(names::REQUESTED_BY)?;
    // serde also reads a list of the fields' values, which no stamp is.
    let stamp: RequesterStamp = stamp
        .trim_start()
        .starts_with('{')
        .then(|| serde_json::from_str(stamp).ok())??;
    (!stamp.user.is_empty()).then(|| Requester {
        user: stamp.user,
        groups: stamp.groups.into_iter().collect(),
    })
}

/// Returns the requester that the stamp will name on the object that this user writes.
#[must_use]
pub fn requester_from_user(user: &UserInfo) -> Option<Requester> {
    stamp_for_user(user)?;
    let name = user.username.as_deref().filter(|name| !name.is_empty())?;
    Some(Requester {
        user: name.to_owned(),
        groups: user.groups.iter().flatten().cloned().collect(),
    })
}

/// Returns the stamp of the object that this user writes: the same text as `ownStamp` of the
/// admission policies, which refuse any other. None if the groups are too long for a stamp.
#[must_use]
pub fn stamp_for_user(user: &UserInfo) -> Option<String> {
    let quote = |text: &str| format!("\"{}\"", text.replace('\\', r"\\").replace('"', r#"\""#));
    let groups = user.groups.iter().flatten().map(|group| quote(group));
    let groups = groups.collect::<Vec<_>>().join(", ");
    let name = quote(user.username.as_deref().unwrap_or_default());
    (groups.chars().count() <= MAX_GROUPS_CHARS)
        .then(|| format!("{{\"user\": {name}, \"groups\": [{groups}]}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requester_comes_from_a_valid_stamp() {
        let of = |stamp: &str| {
            let meta = ObjectMeta {
                annotations: Some([(names::REQUESTED_BY.to_owned(), stamp.to_owned())].into()),
                ..Default::default()
            };
            stamped_requester(&meta)
        };
        let ada = of(r#"{"user": "ada", "groups": ["research"]}"#).unwrap();
        assert_eq!((ada.user.as_str(), ada.groups.len()), ("ada", 1));
        assert!(of(r#"{"user": "ada"}"#).unwrap().groups.is_empty());
        for none in [
            "",
            "ada",
            "{}",
            r#"{"user": ""}"#,
            r#"{"user": 1}"#,
            r#"{"groups": []}"#,
            r#"["ada", ["research"]]"#,
        ] {
            assert_eq!(of(none), None, "{none}");
        }
        assert_eq!(stamped_requester(&Default::default()), None);
    }

    #[test]
    fn requester_is_none_when_its_stamp_would_be_too_long() {
        let of = |name: &str, groups: &[&str]| {
            requester_from_user(&UserInfo {
                username: Some(name.to_owned()),
                groups: Some(groups.iter().map(|g| (*g).to_owned()).collect()),
                ..Default::default()
            })
        };
        let ada = of("ada", &["ml", "ml", "ops"]).unwrap();
        assert_eq!((ada.user.as_str(), ada.groups.len()), ("ada", 2));
        assert_eq!(of("", &["ml"]), None);
        // With its quotes, the group has the longest length for a stamp. The next two are one
        // character longer.
        let long = "g".repeat(32_766);
        assert!(of("ada", &[&long]).is_some());
        assert_eq!(of("ada", &[&format!("{long}g")]), None);
        assert_eq!(of("ada", &[&format!("{}\"", &long[1..])]), None);
    }

    #[test]
    fn stamp_names_the_user_that_it_is_written_for() {
        let user = UserInfo {
            username: Some(r#"o"dd \"#.to_owned()),
            groups: Some(vec!["ml".to_owned(), r#"a"b"#.to_owned(), "ml".to_owned()]),
            ..Default::default()
        };
        let stamp = stamp_for_user(&user).unwrap();
        let expected = r#"{"user": "o\"dd \\", "groups": ["ml", "a\"b", "ml"]}"#;
        assert_eq!(stamp, expected);
        let meta = ObjectMeta {
            annotations: Some([(names::REQUESTED_BY.to_owned(), stamp)].into()),
            ..Default::default()
        };
        assert_eq!(stamped_requester(&meta), requester_from_user(&user));
        let nobody = stamp_for_user(&UserInfo::default()).unwrap();
        assert_eq!(nobody, r#"{"user": "", "groups": []}"#);
        assert_eq!(requester_from_user(&UserInfo::default()), None);
    }
}
