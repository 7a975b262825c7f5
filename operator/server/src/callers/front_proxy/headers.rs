//! Reads the user of a request from its headers. Pure.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, HeaderValue};
use k8s_openapi::api::authentication::v1::UserInfo;

/// Group of every authenticated user, even if the headers do not name it.
const AUTHENTICATED: &str = "system:authenticated";
/// User of unauthenticated requests.
const ANONYMOUS: &str = "system:anonymous";
/// Group of unauthenticated requests.
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Names of the headers.
#[derive(Clone, Debug, Default)]
pub(super) struct HeaderNames {
    /// Headers of the user name. The first header with a value counts.
    pub(super) user: Vec<String>,
    /// Headers of the uid. The first header with a value counts.
    pub(super) uid: Vec<String>,
    /// Headers of groups. Each value of each header counts.
    pub(super) groups: Vec<String>,
    /// Prefixes of extra headers.
    pub(super) extra: Vec<String>,
}

impl HeaderNames {
    /// Returns the user that the headers name. A header with two values is an error, because one of
    /// them may come from the client and not from the proxy.
    pub(super) fn user(&self, headers: &HeaderMap) -> Result<UserInfo, String> {
        let username =
            first_value(headers, &self.user)?.ok_or_else(|| self.missing_user_message())?;
        let mut groups = Vec::new();
        for name in &self.groups {
            for value in headers.get_all(name.as_str()) {
                groups.push(decode_value(name, value)?);
            }
        }
        let known = [AUTHENTICATED, UNAUTHENTICATED];
        let is_stated = groups.iter().any(|group| known.contains(&group.as_str()));
        if username != ANONYMOUS && !is_stated {
            groups.push(AUTHENTICATED.to_owned());
        }
        let extra = self.extra(headers)?;
        Ok(UserInfo {
            uid: first_value(headers, &self.uid)?,
            groups: Some(groups),
            extra: (!extra.is_empty()).then_some(extra),
            username: Some(username),
        })
    }

    /// Returns true if the headers name a user.
    pub(super) fn are_present_in(&self, headers: &HeaderMap) -> bool {
        self.user.iter().any(|name| headers.contains_key(name))
    }

    /// Returns the message for headers that name no user.
    pub(super) fn missing_user_message(&self) -> String {
        let names = self.user.join(", ");
        format!("no user is named: one of {names} is needed")
    }

    /// Returns the extra values of the user. A key is the rest of a header's name after the prefix,
    /// in lower case and percent-decoded.
    fn extra(&self, headers: &HeaderMap) -> Result<BTreeMap<String, Vec<String>>, String> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in headers {
            let mut prefixes = self.extra.iter();
            let key = prefixes.find_map(|prefix| {
                // Header names are in lower case here.
                name.as_str().strip_prefix(&prefix.to_ascii_lowercase())
            });
            let Some(key) = key else { continue };
            let key = percent_decode(key).ok_or_else(|| {
                format!("the header {name} must be percent-encoded UTF-8 after its prefix")
            })?;
            extra
                .entry(key)
                .or_default()
                .push(decode_value(name.as_str(), value)?);
        }
        Ok(extra)
    }
}

/// Returns the value of the first of these headers that has one.
fn first_value(headers: &HeaderMap, names: &[String]) -> Result<Option<String>, String> {
    for name in names {
        let mut values = headers.get_all(name.as_str()).iter();
        let Some(value) = values.next() else { continue };
        if values.next().is_some() {
            return Err(format!("the header {name} must be there once"));
        }
        let value = decode_value(name, value)?;
        if !value.is_empty() {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn decode_value(name: &str, value: &HeaderValue) -> Result<String, String> {
    let text = std::str::from_utf8(value.as_bytes());
    text.map(str::to_owned)
        .map_err(|_| format!("the header {name} must be UTF-8"))
}

/// Decodes percent-encoded text. None: the result is not UTF-8, or an escape is incomplete.
fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        let byte = high.checked_mul(16)?.checked_add(low)?;
        out.push(u8::try_from(byte).ok()?);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> HeaderNames {
        HeaderNames {
            user: vec!["X-Remote-User".to_owned()],
            uid: vec!["X-Remote-Uid".to_owned()],
            groups: vec!["X-Remote-Group".to_owned()],
            extra: vec!["X-Remote-Extra-".to_owned()],
        }
    }

    fn read_user(headers: &[(&str, &str)]) -> Result<UserInfo, String> {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().unwrap();
            all.append(name, value.parse().unwrap());
        }
        names().user(&all)
    }

    #[test]
    fn user_uid_groups_and_extras_are_read() {
        let user = read_user(&[
            ("X-Remote-User", "ann"),
            ("X-Remote-Uid", "42"),
            ("X-Remote-Group", "team-a"),
            ("x-remote-group", "team-b"),
            ("X-Remote-Extra-Scopes", "one"),
            ("X-Remote-Extra-Scopes", "two"),
            ("X-Remote-Extra-Example.com%2fNode%C3%BC", "gpu-0"),
        ])
        .unwrap();
        assert_eq!(user.username.as_deref(), Some("ann"));
        assert_eq!(user.uid.as_deref(), Some("42"));
        let groups = ["team-a", "team-b", AUTHENTICATED];
        assert_eq!(user.groups.unwrap(), groups);
        let extra = user.extra.unwrap();
        assert_eq!(extra["scopes"], ["one", "two"]);
        assert_eq!(extra["example.com/nodeü"], ["gpu-0"]);
        assert_eq!(extra.len(), 2);
    }

    #[test]
    fn duplicate_or_missing_user_header_is_an_error() {
        for (headers, why) in [
            (
                &[("X-Remote-Group", "system:masters")][..],
                "no user is named",
            ),
            (&[("X-Remote-User", "")], "no user is named"),
            (
                &[("X-Remote-User", "ann"), ("x-remote-user", "root")],
                "once",
            ),
            (
                &[("X-Remote-User", "ann"), ("X-Remote-Extra-a%2", "x")],
                "percent-encoded",
            ),
            (
                &[("X-Remote-User", "ann"), ("X-Remote-Extra-%ff", "x")],
                "percent-encoded",
            ),
        ] {
            let error = read_user(headers).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn anonymous_user_is_not_in_the_authenticated_group() {
        let anonymous = read_user(&[("X-Remote-User", ANONYMOUS)]).unwrap();
        assert_eq!(anonymous.groups.unwrap(), Vec::<String>::new());
        let headers = [("X-Remote-User", "a"), ("X-Remote-Group", AUTHENTICATED)];
        assert_eq!(
            read_user(&headers).unwrap().groups.unwrap(),
            [AUTHENTICATED]
        );
    }
}
