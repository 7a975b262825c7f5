//! The operator reads the user only from headers of the API server, and ignores the headers of
//! other clients.

use std::time::Duration;

use http::StatusCode;
use trellis_e2e::control_plane::{FRONT_PROXY, NOT_THE_FRONT_PROXY};
use trellis_e2e::site::jobs::SOON;
use trellis_e2e::visibility::{direct_client, resource_path, send_request, wait_for_availability};

use crate::fixtures::{VisibilityFixture, shared_fixture};

const ROOT_HEADERS: [(&str, &str); 2] = [
    ("X-Remote-User", "root"),
    ("X-Remote-Group", "system:masters"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_headers_are_ignored_from_clients_other_than_the_api_server() {
    let scene = shared_fixture().await;
    let control_plane = &scene.control_plane;
    let list = resource_path("/jobstates");
    let client_with = |certificate| direct_client(control_plane, scene.port, certificate).unwrap();
    for certificate in [None, Some(NOT_THE_FRONT_PROXY), Some("server")] {
        let (code, body) = send_request(&client_with(certificate), &list, &ROOT_HEADERS)
            .await
            .unwrap();
        assert_eq!(code, StatusCode::UNAUTHORIZED, "{certificate:?}: {body}");
        assert_eq!(body["kind"], "Status", "{body}");
        let message = body["message"].as_str().unwrap();
        assert!(message.contains("are not trusted"), "{message}");
    }
    // A token of another user does not make the headers valid.
    let site = scene.create_site("forged", 0).await;
    let account = ("default", site.name());
    let token = control_plane.service_account_token(account.1, account.0);
    let bearer = format!("Bearer {}", token.await.unwrap());
    let headers = [
        ROOT_HEADERS[0],
        ROOT_HEADERS[1],
        ("Authorization", bearer.as_str()),
    ];
    let (code, body) = send_request(&client_with(None), &list, &headers)
        .await
        .unwrap();
    assert_eq!(code, StatusCode::FORBIDDEN, "{body}");
    let account_user = format!("system:serviceaccount:{}:default", site.name());
    assert!(
        body["message"].as_str().unwrap().contains(&account_user),
        "{body}"
    );

    // The same request with the certificate of the API server.
    let proxy = client_with(Some(FRONT_PROXY));
    let (code, body) = send_request(&proxy, &list, &ROOT_HEADERS).await.unwrap();
    assert_eq!(code, StatusCode::OK, "{body}");
    assert_eq!(body["kind"], "JobStateList", "{body}");
    let ann = [("X-Remote-User", "ann")];
    let (code, body) = send_request(&proxy, &list, &ann).await.unwrap();
    assert_eq!(code, StatusCode::FORBIDDEN, "{body}");
    let twice = [ROOT_HEADERS[0], ROOT_HEADERS[1], ("X-Remote-User", "ann")];
    let (code, body) = send_request(&proxy, &list, &twice).await.unwrap();
    assert_eq!(code, StatusCode::UNAUTHORIZED, "{body}");
    // Discovery requires an authenticated user.
    for (path, headers, expected) in [
        (resource_path(""), &ann[..], StatusCode::OK),
        ("/apis".to_owned(), &ann, StatusCode::OK),
        (resource_path(""), &[], StatusCode::UNAUTHORIZED),
        ("/openapi/v3".to_owned(), &[], StatusCode::UNAUTHORIZED),
    ] {
        let (code, body) = send_request(&proxy, &path, headers).await.unwrap();
        assert_eq!(code, expected, "{path}: {body}");
    }
    // A bearer token still gives access to the endpoint.
    let admin = format!("Bearer {}", control_plane.admin_token());
    let admin = [("Authorization", admin.as_str())];
    let (code, body) = send_request(&client_with(None), "/v1alpha1/waiting", &admin)
        .await
        .unwrap();
    assert_eq!(code, StatusCode::OK, "{body}");
    check_reachable_under_load(scene).await;
}

/// Clients without credentials cannot block the API server. This file has only one test, because
/// parallel tests would also find no free connection.
async fn check_reachable_under_load(scene: &VisibilityFixture) {
    let control_plane = &scene.control_plane;
    let client_with = |certificate| direct_client(control_plane, scene.port, certificate).unwrap();
    // More idle connections than allowed, with and without TLS.
    let mut idle = Vec::new();
    for _ in 0..100 {
        let address = ("127.0.0.1", scene.port);
        idle.push(tokio::net::TcpStream::connect(address).await.unwrap());
    }
    let garbage = [("Authorization", "Bearer garbage")];
    let mut connections = Vec::new();
    for _ in 0..64 {
        let client = client_with(None);
        let request = send_request(&client, "/v1alpha1/waiting", &garbage);
        // Other tests use the port during this time, so the last connection may be refused.
        let _ = tokio::time::timeout(Duration::from_millis(500), request).await;
        connections.push(client);
    }
    let ann = [("X-Remote-User", "ann")];
    for path in [resource_path(""), "/apis".to_owned()] {
        let proxy = client_with(Some(FRONT_PROXY));
        let request = tokio::time::timeout(SOON, send_request(&proxy, &path, &ann));
        let (code, body) = request.await.expect("a connection is free").unwrap();
        assert_eq!(code, StatusCode::OK, "{body}");
    }
    wait_for_availability(control_plane, true).await.unwrap();
}
