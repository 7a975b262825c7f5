//! Requests to the visibility API: method, path, query and Accept header, one in each line.

use http::Request;
use http::header::ACCEPT;
use trellis_server::fixtures::parse_visibility_request;

use crate::Target;

/// The target. A request is served with a verb that reads, or refused with a 4xx status.
pub const TARGET: Target = Target {
    check,
    words: &[
        "GET",
        "POST",
        "PATCH",
        "HEAD",
        "/apis",
        "/visibility.trellis.dev",
        "/v1alpha1",
        "/namespaces/",
        "/queuestates",
        "/jobstates",
        "/nodestates",
        "/explanations",
        "/endedattempts",
        "?watch=true",
        "&continue=",
        "limit=1",
        "labelSelector=",
        "fieldSelector=",
        "includeObject=Object",
        "resourceVersionMatch=Exact",
        "resourceVersion=0",
        "sendInitialEvents=true",
        "allowWatchBookmarks=true",
        "timeoutSeconds=1",
        "%2F",
        "%00",
        "+",
        "application/json",
        ";as=Table",
        ";v=v1;g=meta.k8s.io",
        "*/*",
        "q=0",
    ],
    inputs_per_case: 64,
};

fn check(input: &[u8]) {
    let Some(text) = crate::text(input) else {
        return;
    };
    let mut lines = text.lines();
    let mut next = || lines.next().unwrap_or_default();
    let request = Request::builder()
        .method(next())
        .uri(next())
        .header(ACCEPT, next())
        .body(());
    let Ok(request) = request else {
        return;
    };
    let method = request.method().clone();
    match parse_visibility_request(&request.into_parts().0) {
        Ok(verb) => {
            assert!(
                ["get", "list", "watch", "document"].contains(&verb),
                "{verb} is served"
            );
            assert_eq!(method, http::Method::GET);
        }
        Err(code) => assert!((400..500).contains(&code), "{code}"),
    }
}
