//! Requests of the participants of the world other than the operator.

use std::sync::Arc;

use http::Method;
use hyper::body::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use trellis_api_server::{ApiServer, Kind, KindRef, Object, Response, User};

/// An object as requests name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    /// `/api/v1/namespaces/<namespace>/<plural>`, without the name.
    collection: String,
    name: String,
}

impl Target {
    /// Names an object in a namespace. `group` is `api/v1` or `apis/<group>/<version>`.
    pub(crate) fn namespaced(group: &str, plural: &str, namespace: &str, name: &str) -> Self {
        Self {
            collection: format!("/{group}/namespaces/{namespace}/{plural}"),
            name: name.to_owned(),
        }
    }

    /// Names an object without a namespace.
    pub(crate) fn cluster_wide(group: &str, plural: &str, name: &str) -> Self {
        Self {
            collection: format!("/{group}/{plural}"),
            name: name.to_owned(),
        }
    }

    /// Names an object of a kind.
    pub(crate) fn of(kind: &Kind, object: &Value) -> Self {
        let group = match kind.group.as_str() {
            "" => format!("api/{}", kind.version),
            group => format!("apis/{group}/{}", kind.version),
        };
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        match text("namespace") {
            "" => Self::cluster_wide(&group, &kind.plural, text("name")),
            namespace => Self::namespaced(&group, &kind.plural, namespace, text("name")),
        }
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection, self.name)
    }
}

/// A user's access to the API server, now.
pub(crate) struct Access<'a> {
    server: &'a mut ApiServer,
    user: User,
    now: Timestamp,
}

impl<'a> Access<'a> {
    pub(crate) fn new(server: &'a mut ApiServer, user: &str, now: Timestamp) -> Self {
        let user = User {
            name: user.to_owned(),
            groups: vec!["system:authenticated".to_owned()],
            ..User::default()
        };
        Self { server, user, now }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns an object, if it exists.
    pub(crate) fn get(&mut self, target: &Target) -> Option<Value> {
        self.send(Method::GET, &target.path(), "", None).ok()
    }

    /// Returns all objects of a kind.
    pub(crate) fn list(&self, kind: &KindRef) -> impl Iterator<Item = &Arc<Object>> {
        self.server.list(kind)
    }

    /// Creates an object of a kind that the API server knows.
    pub(crate) fn create(&mut self, object: &Value) -> Result<Value, Value> {
        let is_of = |kind: &&Arc<Kind>| {
            object["kind"] == kind.kind.as_str() && object["apiVersion"] == kind.api_version()
        };
        let kind = self.server.kinds().iter().find(is_of);
        let target = Target::of(kind.expect("a known kind"), object);
        let content_type = "application/json";
        self.send(Method::POST, &target.collection, content_type, Some(object))
    }

    /// Changes an object by a merge patch.
    pub(crate) fn patch(&mut self, target: &Target, patch: &Value) -> Result<Value, Value> {
        let kind = "application/merge-patch+json";
        self.send(Method::PATCH, &target.path(), kind, Some(patch))
    }

    /// Changes the status of a pod or node by a strategic merge patch, as kubelets do.
    pub(crate) fn patch_status(&mut self, target: &Target, status: &Value) {
        let path = format!("{}/status", target.path());
        let kind = "application/strategic-merge-patch+json";
        let _ = self.send(Method::PATCH, &path, kind, Some(&json!({"status": status})));
    }

    /// Deletes an object, with its dependents in the background.
    pub(crate) fn delete(&mut self, target: &Target, uid: Option<&str>) {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1",
            "propagationPolicy": "Background"});
        if let Some(uid) = uid {
            options["preconditions"] = json!({"uid": uid});
        }
        let _ = self.send(
            Method::DELETE,
            &target.path(),
            "application/json",
            Some(&options),
        );
    }

    /// Removes the object of a pod whose containers have ended.
    pub(crate) fn delete_now(&mut self, target: &Target, uid: &str) {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1",
            "gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
        let _ = self.send(
            Method::DELETE,
            &target.path(),
            "application/json",
            Some(&options),
        );
    }

    /// Sends a request. An error is the `Status` of the answer.
    fn send(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, Value> {
        let body = body.map(|body| Bytes::from(body.to_string()));
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("user-agent", self.user.name.as_str())
            .body(body.unwrap_or_default())
            .expect("a valid request");
        let Response::Answer(answer) = self.server.handle(&self.user, &request, self.now) else {
            panic!("no watch was asked for");
        };
        let is_success = answer.status().is_success();
        let value = serde_json::from_slice(answer.body()).expect("the API server answers in JSON");
        if is_success { Ok(value) } else { Err(value) }
    }
}
