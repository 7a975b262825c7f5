//! The API group that the operator serves through the API server. It is installed from the chart's
//! own files. kubectl reads it, and tests read it in the way of the API server.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::client::Body;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use trellis_api::visibility::{API_SERVICE, GROUP, SERVICE, VERSION};

use crate::control_plane::ControlPlane;
use crate::operator::{self, LaunchOptions, NAMESPACE, Operator};
use crate::rights;
use crate::wait::eventually;

/// Longest time until the API server forwards requests.
const CALL_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

/// Returns the launch configuration of an operator that serves the API group on this port of this
/// machine.
#[must_use]
pub fn launch_options(name: &str, port: u16) -> LaunchOptions {
    LaunchOptions::with_name(name)
        .argument(&format!("--listen=127.0.0.1:{port}"))
        .argument("--visibility")
}

fn read_chart_file(file: &str) -> Result<Vec<Value>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../charts/trellis/files")
        .join(file);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(serde_saphyr::from_multiple(&text)?)
}

/// Starts an operator that serves the API group, with the chart's rights.
///
/// # Errors
/// If the operator cannot be started.
pub async fn start(control_plane: &ControlPlane, program: &Path, port: u16) -> Result<Operator> {
    // The lease is long: an operator that loses its lease on a busy machine ends, and is not
    // restarted.
    let launch = launch_options("operator", port).lease_seconds(60);
    start_as(control_plane, program, &launch).await
}

/// Starts an operator with a launch configuration and the chart's rights.
///
/// # Errors
/// If it cannot be started.
pub async fn start_as(
    control_plane: &ControlPlane,
    program: &Path,
    launch: &LaunchOptions,
) -> Result<Operator> {
    let kubeconfig = operator::kubeconfig(control_plane, &launch.pod);
    Operator::launch_with_options(control_plane, program, &kubeconfig.await?, launch)
}

/// Writes the kubeconfig of a ServiceAccount with the role `view` in its namespace, and waits until
/// the role takes effect.
///
/// # Errors
/// If the API server refuses an object, or the role does not take effect in time.
pub async fn viewer_kubeconfig(control_plane: &ControlPlane, namespace: &str) -> Result<PathBuf> {
    let name = "viewer";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    });
    for object in [account, binding] {
        control_plane
            .apply_yaml_in(namespace, &object.to_string())
            .await?;
    }
    let client = control_plane
        .service_account_client(namespace, name)
        .await?;
    // The controller manager aggregates the chart's rights into the role.
    let states = (GROUP, "jobstates");
    rights::wait_until_allowed(&client, "list", states, Some(namespace)).await?;
    control_plane
        .service_account_kubeconfig(namespace, name)
        .await
}

/// Applies the chart's objects for the API group. No Service network exists here, so the Service is
/// an ExternalName for this machine.
///
/// # Errors
/// If the API server refuses an object.
pub async fn install(control_plane: &ControlPlane, port: u16) -> Result<()> {
    let mut objects = read_chart_file("rbac-visibility.yaml")?;
    objects.extend(read_chart_file("rbac-endpoint.yaml")?);
    objects.extend(read_chart_file("roles.yaml")?);
    for mut object in read_chart_file("visibility.yaml")? {
        match object["kind"].as_str() {
            Some("Service") => {
                object["spec"] = json!({"type": "ExternalName", "externalName": "localhost"});
            }
            Some("APIService") => object["spec"]["service"]["port"] = json!(port),
            _ => {}
        }
        objects.push(object);
    }
    for object in objects {
        control_plane.apply_yaml(&object.to_string()).await?;
    }
    Ok(())
}

/// Returns whether the `Available` condition of the APIService is true, with its reason and
/// message.
///
/// # Errors
/// If the APIService has no such condition yet.
pub async fn api_service_condition(control_plane: &ControlPlane) -> Result<(bool, String)> {
    let api: Api<APIService> = Api::all(control_plane.client());
    let found = api.get(API_SERVICE).await?;
    let conditions = found.status.and_then(|status| status.conditions);
    let mut conditions = conditions.into_iter().flatten();
    let available = conditions.find(|c| c.type_ == "Available");
    let available = available.context("the API server has not checked the APIService yet")?;
    let reason = format!(
        "{}: {}",
        available.reason.unwrap_or_default(),
        available.message.unwrap_or_default()
    );
    Ok((available.status == "True", reason))
}

/// Waits until the API server can reach the operator, or cannot reach it any more.
///
/// # Errors
/// If this takes too long.
pub async fn wait_for_availability(
    control_plane: &ControlPlane,
    available: bool,
) -> Result<String> {
    eventually(CALL_TIMEOUT, || async {
        let (is_available, reason) = api_service_condition(control_plane).await?;
        ensure!(is_available == available, "{reason}");
        Ok(reason)
    })
    .await
}

/// Returns a path below the API group.
#[must_use]
pub fn resource_path(rest: &str) -> String {
    format!("/apis/{GROUP}/{VERSION}{rest}")
}

/// The name in the operator's certificate.
#[must_use]
pub fn server_name() -> String {
    format!("{SERVICE}.{NAMESPACE}.svc")
}

/// Creates a client of the operator itself, with the client certificate of this name if one is
/// given.
///
/// # Errors
/// If the certificate does not exist.
pub fn direct_client(
    control_plane: &ControlPlane,
    port: u16,
    certificate: Option<&str>,
) -> Result<Client> {
    let mut config = Config::new(format!("https://127.0.0.1:{port}").parse()?);
    config.accept_invalid_certs = true;
    config.default_retry = false;
    if let Some(name) = certificate {
        let file = |end: &str| -> PathBuf {
            let pki = control_plane.folder().join("pki");
            pki.join(format!("{name}.{end}"))
        };
        let path = |end: &str| Some(file(end).display().to_string());
        config.auth_info.client_certificate = path("crt");
        config.auth_info.client_key = path("key");
    }
    Ok(Client::try_from(config)?)
}

/// Sends a request, and returns the status code and body of the response.
///
/// # Errors
/// If the server does not answer.
pub async fn send_request(
    client: &Client,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<(StatusCode, Value)> {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = client.send(request.body(Body::empty())?).await?;
    let code = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    let body = serde_json::from_slice(&body);
    Ok((code, body.unwrap_or(Value::Null)))
}
