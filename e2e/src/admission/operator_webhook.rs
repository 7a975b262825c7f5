//! The operator's admission webhook, installed from the chart's own file. The API server calls it,
//! and tests call it in the same way.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::Stream;
use http::Request;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::PostParams;
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Config};
use serde_json::{Value, json};
use trellis_api::ClusterJobPolicy;

use crate::binaries::KubernetesVersion;
use crate::control_plane::{ControlPlane, free_port};
use crate::operator::LaunchOptions;
use crate::wait::eventually;

/// Name of the webhook's configuration and Secret.
pub const WEBHOOK_NAME: &str = "trellis-webhook";
/// Longest time until the API server calls the webhook.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The webhook's failure policy: what happens to requests that the operator does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The API server accepts these requests, as with the chart's default.
    Ignore,
    /// The API server refuses these requests, so that a test notices each of them.
    Fail,
}

/// Starts an operator that serves the webhook on this port of this machine.
#[must_use]
pub fn launch_options(name: &str, port: u16) -> LaunchOptions {
    LaunchOptions::with_name(name)
        .argument(&format!("--webhook=127.0.0.1:{port}"))
        .argument("--webhook-host=127.0.0.1")
}

/// Applies the chart's `files/webhook.yaml`. No Service works here, so the configuration has the
/// operator's address instead.
///
/// # Errors
/// If the API server refuses an object.
pub async fn install(
    control_plane: &ControlPlane,
    port: u16,
    unanswered: FailurePolicy,
) -> Result<()> {
    for document in read_documents("webhook.yaml")? {
        apply_for_port(control_plane, document, port, unanswered).await?;
    }
    Ok(())
}

/// Applies the chart's `files/requester-webhook.yaml`, and the Secret that it needs: the operator at
/// this port writes the requester stamps.
///
/// # Errors
/// If the API server refuses an object.
pub async fn install_stamping(control_plane: &ControlPlane, port: u16) -> Result<()> {
    let mut documents = read_documents("webhook.yaml")?;
    documents.retain(|document| document["kind"] == "Secret");
    documents.extend(read_documents("requester-webhook.yaml")?);
    for document in documents {
        apply_for_port(control_plane, document, port, FailurePolicy::Ignore).await?;
    }
    Ok(())
}

/// Makes the operator with this launch configuration write requester stamps if the API server has
/// no policy for it.
///
/// # Errors
/// If the API server refuses an object.
pub async fn stamp_jobs(
    control_plane: &ControlPlane,
    mut launch: LaunchOptions,
) -> Result<LaunchOptions> {
    if !KubernetesVersion::chosen()?.has_mutating_policies() {
        let port = free_port()?;
        install_stamping(control_plane, port).await?;
        let webhook = launch_options(&launch.name, port);
        launch.arguments.extend(webhook.arguments);
    }
    Ok(launch)
}

fn read_documents(file: &str) -> Result<Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/trellis/files");
    let path = folder.join(file);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(serde_saphyr::from_multiple(&text)?)
}

/// Applies an object. A webhook in it is called at this port of this machine.
async fn apply_for_port(
    control_plane: &ControlPlane,
    mut document: Value,
    port: u16,
    unanswered: FailurePolicy,
) -> Result<()> {
    let hooks = document.get_mut("webhooks").and_then(Value::as_array_mut);
    for hook in hooks.into_iter().flatten() {
        let path = hook["clientConfig"]["service"]["path"].clone();
        let path = path.as_str().context("a webhook without a path")?;
        let url = format!("https://127.0.0.1:{port}{path}");
        hook["clientConfig"] = json!({"url": url});
        if unanswered == FailurePolicy::Fail {
            hook["failurePolicy"] = json!("Fail");
        }
    }
    control_plane.apply_yaml(&document.to_string()).await?;
    Ok(())
}

/// Waits until the API server calls the webhook: then it refuses an invalid policy.
///
/// # Errors
/// If this takes too long.
pub async fn wait_until_called(control_plane: &ControlPlane) -> Result<()> {
    let api: Api<ClusterJobPolicy> = Api::all(control_plane.client());
    let broken = json!({"metadata": {"generateName": "try-"}, "spec": {"cedar": "permit("}});
    let broken = serde_json::from_value(broken)?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually(CALL_TIMEOUT, || async {
        match api.create(&dry_run, &broken).await {
            Ok(_) => anyhow::bail!("the webhook does not refuse an invalid policy yet"),
            Err(error) => {
                let error_text = error.to_string();
                ensure!(error_text.contains("spec.cedar:1:"), "{error_text}");
                Ok(())
            }
        }
    })
    .await
}

/// The body of a request.
pub type RequestBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// A body with a Content-Length.
#[must_use]
pub fn sized_body(bytes: impl Into<Bytes>) -> RequestBody {
    RequestBody::new(Full::new(bytes.into()).map_err(|never| match never {}))
}

/// A chunked body without a Content-Length.
pub fn streamed_body(pieces: impl Stream<Item = Vec<u8>> + Send + 'static) -> RequestBody {
    use futures::StreamExt as _;
    let pieces = pieces.map(|piece| Ok(Frame::data(piece.into())));
    RequestBody::new(StreamBody::new(pieces))
}

type Connector = hyper_rustls::HttpsConnector<HttpConnector>;

/// A client that calls the webhook as the API server does, with the CA bundle of its configuration.
#[derive(Clone, Debug)]
pub struct WebhookClient {
    client: legacy::Client<Connector, RequestBody>,
    port: u16,
}

impl WebhookClient {
    /// A client that trusts the configuration's current CA bundle and connects to that port.
    ///
    /// # Errors
    /// If the configuration has no CA bundle yet.
    pub async fn new(control_plane: &ControlPlane, port: u16) -> Result<Self> {
        let api: Api<ValidatingWebhookConfiguration> = Api::all(control_plane.client());
        let configuration = serde_json::to_value(api.get(WEBHOOK_NAME).await?)?;
        let bundle = &configuration["webhooks"][0]["clientConfig"]["caBundle"];
        let bundle = bundle.as_str().context("no caBundle")?;
        let cluster = json!({
            "server": format!("https://127.0.0.1:{port}"), "certificate-authority-data": bundle,
        });
        let kubeconfig: Kubeconfig = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        }))?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let connector = config.rustls_https_connector()?;
        let client = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, port })
    }

    /// Sends a request with this body. Returns the HTTP status and the answer.
    ///
    /// # Errors
    /// If the webhook does not answer.
    pub async fn send_review(&self, body: RequestBody) -> Result<(u16, Value)> {
        let request = Request::post(self.url("/validate")).body(body)?;
        let (code, text) = self.send(request).await?;
        Ok((code, serde_json::from_slice(&text)?))
    }

    /// The HTTP status code of `/readyz`.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn readiness_status(&self) -> Result<u16> {
        let request = Request::get(self.url("/readyz")).body(empty_body())?;
        Ok(self.send(request).await?.0)
    }

    /// Reads the operator's metrics with this token.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn read_metrics(&self, token: &str) -> Result<(u16, String)> {
        let request = Request::get(self.url("/metrics"));
        let request = request.header("authorization", format!("Bearer {token}"));
        let (code, text) = self.send(request.body(empty_body())?).await?;
        Ok((code, String::from_utf8_lossy(&text).into_owned()))
    }

    fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    async fn send(&self, request: Request<RequestBody>) -> Result<(u16, Bytes)> {
        let answer = self.client.request(request).await?;
        let code = answer.status().as_u16();
        Ok((code, answer.into_body().collect().await?.to_bytes()))
    }
}

fn empty_body() -> RequestBody {
    RequestBody::new(Empty::new().map_err(|never| match never {}))
}

/// Returns the AdmissionReview that the API server sends when `user` creates this job.
#[must_use]
pub fn admission_review(uid: &str, user: &str, namespace: &str, job: &Value) -> Value {
    let mut job = job.clone();
    job["metadata"]["namespace"] = json!(namespace);
    job["metadata"]["uid"] = json!(uid);
    let name = job["metadata"]["name"].clone();
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": uid, "operation": "CREATE", "name": name, "namespace": namespace,
            "kind": {"group": "trellis.dev", "version": "v1alpha1", "kind": "TrainingJob"},
            "resource": {"group": "trellis.dev", "version": "v1alpha1", "resource": "trainingjobs"},
            "userInfo": {"username": user, "groups": ["system:authenticated"]},
            "object": job, "oldObject": null, "dryRun": false,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    })
}
