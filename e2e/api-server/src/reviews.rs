//! Reviews: requests that ask who the user is, or what a user may do.

use std::collections::BTreeMap;

use hyper::body::Bytes;
use serde_json::{Value, json};

use crate::object::text_at;
use crate::request::RequestInfo;
use crate::server::{Access, ApiServer, User};
use crate::status::{Status, json_answer};

/// Answers a review. None: the request is none.
pub(crate) fn answer(
    server: &ApiServer,
    user: &User,
    info: &RequestInfo,
    body: &Bytes,
) -> Result<Option<http::Response<Bytes>>, Status> {
    if info.verb != "create" || !info.name.is_empty() {
        return Ok(None);
    }
    let review = match (info.group.as_str(), info.resource.as_str()) {
        ("authentication.k8s.io", "selfsubjectreviews" | "tokenreviews")
        | (
            "authorization.k8s.io",
            "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews",
        ) => info.resource.as_str(),
        _ => return Ok(None),
    };
    let mut value: Value = serde_json::from_slice(body)
        .map_err(|error| Status::bad_request(format!("the body is no JSON: {error}")))?;
    value["status"] = match review {
        "selfsubjectreviews" => json!({"userInfo": user_info(user)}),
        // Tokens are not known to this server: the name of a user is its token.
        "tokenreviews" => match text_at(&value, &["spec", "token"]) {
            "" => json!({"user": {}, "error": "no token"}),
            token => json!({"authenticated": true, "user": {"username": token}}),
        },
        "selfsubjectaccessreviews" => json!({"allowed": is_allowed(server, user, &value["spec"])}),
        _ => {
            let subject = parse_user(&value["spec"]);
            json!({"allowed": is_allowed(server, &subject, &value["spec"])})
        }
    };
    Ok(Some(json_answer(201, &value)))
}

fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

fn parse_user(spec: &Value) -> User {
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect()
    };
    let extra = spec["extra"].as_object().into_iter().flatten();
    let extra: BTreeMap<String, Vec<String>> = extra
        .map(|(name, values)| (name.clone(), texts(values)))
        .collect();
    User {
        name: text_at(spec, &["user"]).to_owned(),
        uid: text_at(spec, &["uid"]).to_owned(),
        groups: texts(&spec["groups"]),
        extra,
    }
}

fn is_allowed(server: &ApiServer, user: &User, spec: &Value) -> bool {
    let attribute = |name: &str| text_at(spec, &["resourceAttributes", name]);
    let access = Access {
        verb: attribute("verb"),
        group: attribute("group"),
        resource: attribute("resource"),
        subresource: attribute("subresource"),
        namespace: attribute("namespace"),
        name: attribute("name"),
    };
    server.allows(user, &access)
}
