//! Headers with which the API server names the user of a request, one in each line.

use http::{HeaderMap, HeaderName, HeaderValue};
use trellis_server::fixtures::front_proxy_user;

use crate::Target;

/// The target. The user, the uid and each group are values of headers, and no header of a client
/// adds to those of the proxy.
pub const TARGET: Target = Target {
    check,
    words: &[
        "X-Remote-User: ",
        "X-Remote-Uid: ",
        "X-Remote-Group: ",
        "X-Remote-Extra-a: ",
        "X-Remote-Extra-a%2",
        "%C3%BC",
        "%ff",
        "system:masters",
        "system:anonymous",
        "system:authenticated",
        "system:unauthenticated",
        "ada",
        ",",
        "\n",
    ],
    inputs_per_case: 64,
};

const ADDED_GROUP: &str = "system:authenticated";

fn check(input: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in input.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let parsed = HeaderName::from_bytes(name)
            .ok()
            .zip(HeaderValue::from_bytes(value).ok());
        if let Some((name, value)) = parsed {
            headers.append(name, value);
        }
    }
    let values = |name: &str| -> Vec<&[u8]> {
        headers
            .get_all(name)
            .iter()
            .map(HeaderValue::as_bytes)
            .collect()
    };
    let user = match front_proxy_user(&headers) {
        Ok(user) => user,
        Err(why) => {
            assert!(!why.is_empty());
            return;
        }
    };
    let is_only = |name: &str, value: &str| values(name) == [value.as_bytes()];
    let username = user.username.expect("a user has a name");
    assert!(
        !username.is_empty() && is_only("X-Remote-User", &username),
        "{username:?}"
    );
    assert!(user.uid.is_none_or(|uid| is_only("X-Remote-Uid", &uid)));
    let groups = user.groups.unwrap_or_default();
    let sent = values("X-Remote-Group");
    for group in &groups {
        assert!(
            sent.contains(&group.as_bytes()) || group == ADDED_GROUP,
            "{group:?}"
        );
    }
    assert!(groups.len() <= sent.len() + 1);
    let is_anonymous = username == "system:anonymous";
    assert!(
        !is_anonymous || groups.len() == sent.len(),
        "anonymous users get no group"
    );
    for key in user.extra.iter().flat_map(|extra| extra.keys()) {
        let has_prefix = |name: &HeaderName| name.as_str().starts_with("x-remote-extra-");
        assert!(headers.keys().any(has_prefix), "{key:?}");
    }
}
