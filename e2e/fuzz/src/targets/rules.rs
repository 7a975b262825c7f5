//! The rules of the library, against the schemas that the API server enforces.

use std::cell::RefCell;

use garde::Validate;
use http::{Method, Request, StatusCode};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use trellis_api::crds;
use trellis_api_server::{ApiServer, Kind, Response, User};

use super::{DOCUMENT_WORDS, ObjectCheck, check_object, readable_documents};
use crate::Target;

/// The target. The API server stores every object that the library accepts.
pub const TARGET: Target = Target {
    check,
    words: DOCUMENT_WORDS,
    inputs_per_case: 32,
};

fn check(input: &[u8]) {
    let Some(text) = crate::text(input) else {
        return;
    };
    for document in readable_documents(text) {
        check_object::<IsStored>(&document, text);
    }
}

thread_local! {
    /// An API server with the kinds of Trellis. Its CEL rules are not evaluated: end-to-end tests
    /// compare those.
    static SERVER: RefCell<ApiServer> = RefCell::new(new_server());
}

fn new_server() -> ApiServer {
    let mut server = ApiServer::new(Kind::with_crds(crds::all()).expect("valid CRDs"));
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let (code, body) = create(&mut server, "/api/v1/namespaces", &namespace);
    assert!(code.is_success(), "{body}");
    server
}

/// The API server stores an object that is accepted.
struct IsStored;

impl ObjectCheck for IsStored {
    fn check<T>(mut object: T)
    where
        T: DeserializeOwned + Serialize + Validate<Context = ()> + Resource<DynamicType = ()>,
    {
        // The library does not check metadata beyond the rules on names.
        let meta = std::mem::take(object.meta_mut());
        object.meta_mut().name = meta.name;
        let (code, body) = SERVER.with_borrow_mut(|server| {
            let kind = T::kind(&());
            let is_namespaced = server
                .kinds()
                .iter()
                .any(|k| k.kind == kind && k.namespaced);
            let namespace = if is_namespaced {
                "namespaces/default/"
            } else {
                ""
            };
            let path = format!(
                "/apis/trellis.dev/v1alpha1/{namespace}{}?dryRun=All",
                T::plural(&())
            );
            create(server, &path, &object)
        });
        let is_about_metadata = body.contains("metadata.");
        assert!(code.is_success() || is_about_metadata, "{body}");
    }
}

/// Returns the status and the body of the answer to a create.
fn create(server: &mut ApiServer, path: &str, object: &impl Serialize) -> (StatusCode, String) {
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header("content-type", "application/json")
        .body(
            serde_json::to_vec(object)
                .expect("an object is JSON")
                .into(),
        )
        .expect("a valid request");
    let answer = server.handle(&User::default(), &request, Timestamp::UNIX_EPOCH);
    let Response::Answer(answer) = answer else {
        panic!("a create is no watch");
    };
    let body = String::from_utf8_lossy(answer.body()).into_owned();
    (answer.status(), body)
}
