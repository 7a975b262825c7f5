//! The rules of the server, one test each, by requests.

mod admission;
mod custom_kinds;
mod deletion;
mod lists;
mod pods;
mod server;
mod watches;
mod writes;

use http::Method;
use hyper::body::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use trellis_api_server::{ApiServer, Kind, Response, User, Watch, WatchPoll};

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

const CONFIG_MAPS: &str = "/api/v1/namespaces/a/configmaps";
const PODS: &str = "/api/v1/namespaces/a/pods";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/a/widgets";

/// A server with the namespace `a`, and a clock that only tests move.
struct Cluster {
    server: ApiServer,
    user: User,
    now: Timestamp,
}

/// Code and body of an answer.
type Answer = (u16, Value);

impl Cluster {
    fn new() -> Self {
        let kinds = Kind::with_crds([widget_crd()]).expect("a valid CRD");
        let user = User {
            name: "admin".to_owned(),
            ..User::default()
        };
        let mut cluster = Self {
            server: ApiServer::new(kinds),
            user,
            now: Timestamp::from_second(1_700_000_000).expect("a valid time"),
        };
        let namespace = json!({"metadata": {"name": "a"}});
        cluster.create("/api/v1/namespaces", &namespace);
        cluster
    }

    fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    fn request(&mut self, method: Method, path: &str, kind: &str, body: Bytes) -> Response {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .header("user-agent", "rules/1")
            .body(body)
            .expect("a valid request");
        self.server.handle(&self.user, &request, self.now)
    }

    fn send(&mut self, method: Method, path: &str, kind: &str, body: &Value) -> Answer {
        let bytes = if body.is_null() {
            Bytes::new()
        } else {
            Bytes::from(body.to_string())
        };
        let Response::Answer(answer) = self.request(method, path, kind, bytes) else {
            panic!("{path} is a watch");
        };
        let text = answer.body();
        let value =
            serde_json::from_slice(text).unwrap_or_else(|_| String::from_utf8_lossy(text).into());
        (answer.status().as_u16(), value)
    }

    fn get(&mut self, path: &str) -> Answer {
        self.send(Method::GET, path, "", &Value::Null)
    }

    fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, "application/json", body)
    }

    fn put(&mut self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, "application/json", body)
    }

    fn patch(&mut self, path: &str, body: &Value) -> Answer {
        self.send(Method::PATCH, path, MERGE, body)
    }

    fn delete(&mut self, path: &str, options: &Value) -> Answer {
        self.send(Method::DELETE, path, "application/json", options)
    }

    /// Creates an object and returns it.
    #[track_caller]
    fn create(&mut self, path: &str, body: &Value) -> Value {
        let (code, object) = self.post(path, body);
        assert_eq!(code, 201, "{object}");
        object
    }

    /// Patches an object and returns it.
    #[track_caller]
    fn change(&mut self, path: &str, body: &Value) -> Value {
        let (code, object) = self.patch(path, body);
        assert_eq!(code, 200, "{object}");
        object
    }

    fn config_map(&mut self, name: &str, labels: &Value) -> Value {
        let object = json!({"metadata": {"name": name, "labels": labels}});
        self.create(CONFIG_MAPS, &object)
    }

    fn pod(&mut self, name: &str, node: Option<&str>) -> Value {
        let mut pod = pod(name);
        if let Some(node) = node {
            pod["spec"]["nodeName"] = node.into();
        }
        self.create(PODS, &pod)
    }

    fn set_pod_phase(&mut self, name: &str, phase: &str) {
        self.change(
            &format!("{PODS}/{name}/status"),
            &json!({"status": {"phase": phase}}),
        );
    }

    #[track_caller]
    fn watch(&mut self, path: &str) -> Watch {
        match self.request(Method::GET, path, "", Bytes::new()) {
            Response::Watch(watch) => watch,
            Response::Answer(answer) => panic!("no watch: {:?}", answer.body()),
        }
    }

    /// Returns the events that are there, and whether the watch has ended.
    fn events(&self, watch: &mut Watch) -> (Vec<Value>, bool) {
        let mut events = Vec::new();
        loop {
            match self.server.poll_watch(watch, self.now) {
                WatchPoll::Event(frame) => {
                    assert_eq!(frame.line.last(), Some(&b'\n'));
                    events.push(serde_json::from_slice(&frame.line).expect("a line is JSON"));
                }
                WatchPoll::Idle { until } => {
                    assert!(until > self.now, "the watch asks to be polled in the past");
                    return (events, false);
                }
                WatchPoll::End => return (events, true),
            }
        }
    }

    /// Returns type and name of the events that are there.
    fn event_names(&self, watch: &mut Watch) -> Vec<(String, String)> {
        let name = |event: &Value| {
            let text = |pointer: &str| {
                let value = event.pointer(pointer).and_then(Value::as_str);
                value.unwrap_or_default().to_owned()
            };
            (text("/type"), text("/object/metadata/name"))
        };
        self.events(watch).0.iter().map(name).collect()
    }
}

fn names(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = pairs
        .iter()
        .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
    owned.collect()
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).expect("a version")
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().expect("a uid")
}

fn cause(status: &Value) -> (&str, &str) {
    let cause = &status["details"]["causes"][0];
    let text = |name: &str| cause[name].as_str().unwrap_or_default();
    (text("reason"), text("field"))
}

fn widget_crd() -> Value {
    json!({
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {
                    "spec": {"type": "object", "required": ["size"], "properties": {
                        "size": {"type": "integer", "minimum": 1},
                        "color": {"type": "string", "enum": ["red", "blue"]},
                        "count": {"x-kubernetes-int-or-string": true},
                    }},
                    "status": {"type": "object", "properties": {
                        "ready": {"type": "integer"}, "note": {"type": "string"},
                    }},
                }}},
            }],
        },
    })
}
