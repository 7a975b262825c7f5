//! A client of the operator's read-only endpoint.

use anyhow::{Context as _, Result, ensure};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::{Client, Config};
use trellis_server::endpoint::{WaitingJob, WaitingJobs};

use crate::control_plane::ControlPlane;
use crate::operator::Operator;
use crate::site::TestSite;
use crate::site::jobs::SOON;
use crate::wait::eventually;

/// Sends a request with a bearer token, and returns the status code and body of the response.
///
/// # Errors
/// If the server does not answer, or the body is not UTF-8.
pub async fn send_request(
    server: &str,
    token: Option<&str>,
    path: &str,
) -> Result<(StatusCode, String)> {
    let mut config = Config::new(server.parse()?);
    // The endpoint has a self-signed certificate.
    config.accept_invalid_certs = true;
    config.auth_info.token = token.map(|token| token.to_owned().into());
    let client = Client::try_from(config)?;
    let request = Request::get(path).body(Body::empty())?;
    let answer = client.send(request).await?;
    let code = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    Ok((code, String::from_utf8(body.to_vec())?))
}

/// Waits until an operator lists a pending job, and returns the entry.
///
/// # Errors
/// If the operator does not list the job in time.
pub async fn wait_for_pending_job(
    operator: &Operator,
    control_plane: &ControlPlane,
    (site, name): (&TestSite, &str),
) -> Result<WaitingJob> {
    let server = format!("https://{}", operator.wait_for_endpoint().await?);
    let path = format!("/v1alpha1/waiting?namespace={}", site.name());
    eventually(SOON, || async {
        let token = Some(control_plane.admin_token());
        let (code, body) = send_request(&server, token, &path).await?;
        ensure!(code == StatusCode::OK, "{code}: {body}");
        let overview: WaitingJobs = serde_json::from_str(&body)?;
        let mut waiting = overview.waiting.into_iter();
        let found = waiting.find(|waiting| waiting.name == name);
        found.with_context(|| format!("nothing is said of {name}"))
    })
    .await
}
