//! Measures requests a second: `cargo run --release -p trellis-api-server --example throughput`.

use std::time::Instant;

use http::Method;
use hyper::body::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use trellis_api_server::{ApiServer, Kind, Response, User, Watch, WatchPoll};

const COUNT: usize = 5_000;
const PODS: &str = "/api/v1/namespaces/a/pods";

struct Bench {
    server: ApiServer,
    user: User,
}

impl Bench {
    fn send(&mut self, method: Method, path: &str, body: &Value) -> Response {
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() {
            Bytes::new()
        } else {
            Bytes::from(body.to_string())
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(body)
            .expect("a valid request");
        let response = self
            .server
            .handle(&self.user, &request, Timestamp::UNIX_EPOCH);
        if let Response::Answer(answer) = &response {
            assert!(answer.status().is_success(), "{:?}", answer.body());
        }
        response
    }

    fn watch(&mut self) -> Watch {
        match self.send(
            Method::GET,
            "/api/v1/pods?watch=1&resourceVersion=1",
            &Value::Null,
        ) {
            Response::Watch(watch) => watch,
            Response::Answer(_) => panic!("it is a watch"),
        }
    }

    fn measure(&mut self, name: &str, count: usize, mut step: impl FnMut(&mut Self, usize)) {
        let start = Instant::now();
        for index in 0..count {
            step(self, index);
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("{name:<32} {:>9.0} a second", count as f64 / seconds);
    }
}

fn main() {
    let user = User {
        name: "bench".to_owned(),
        ..User::default()
    };
    let server = ApiServer::new(Kind::built_in());
    let mut bench = Bench { server, user };
    let namespace = json!({"metadata": {"name": "a"}});
    bench.send(Method::POST, "/api/v1/namespaces", &namespace);
    let container = json!({"name": "c", "image": "i", "resources": {"limits": {"example.com/gpu": "8"}},
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]});
    bench.measure("create a pod", COUNT, |bench, index| {
        let pod = json!({"metadata": {"name": format!("p{index}"), "labels": {"job": "j"}}, "spec": {"containers": [container]}});
        bench.send(Method::POST, PODS, &pod);
    });
    bench.measure("get a pod", COUNT, |bench, index| {
        bench.send(Method::GET, &format!("{PODS}/p{index}"), &Value::Null);
    });
    bench.measure("bind a pod", COUNT, |bench, index| {
        let name = format!("p{index}");
        let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}});
        bench.send(Method::POST, &format!("{PODS}/{name}/binding"), &binding);
    });
    bench.measure("patch the status of a pod", COUNT, |bench, index| {
        let status = json!({"status": {"phase": "Running"}});
        bench.send(Method::PATCH, &format!("{PODS}/p{index}/status"), &status);
    });
    bench.measure("list a page of 500 pods", 100, |bench, _| {
        bench.send(Method::GET, "/api/v1/pods?limit=500", &Value::Null);
    });
    let mut watches = [bench.watch(), bench.watch(), bench.watch()];
    bench.measure("events of 3 watches", 3 * 3 * COUNT, |bench, index| {
        let watch = &mut watches[index % 3];
        let poll = bench.server.poll_watch(watch, Timestamp::UNIX_EPOCH);
        assert!(matches!(poll, WatchPoll::Event(_)), "{poll:?}");
    });
    bench.measure("delete a pod", COUNT, |bench, index| {
        let options = json!({"gracePeriodSeconds": 0});
        bench.send(Method::DELETE, &format!("{PODS}/p{index}"), &options);
    });
}
