//! The page in a cluster: many users, each with the token that a proxy forwards.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use trellis_e2e::control_plane::free_port;
use trellis_e2e::visibility::send_request;
use trellis_e2e::wait::eventually;

use super::world::{World, trellis_program};

/// Longest time until the page answers.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Number of requests of each user at the same time.
const REQUESTS: usize = 40;

/// The program of the chart, in the way in which the chart starts it.
struct ClusterPage {
    port: u16,
    _process: Child,
}

impl ClusterPage {
    async fn start(world: &World) -> Result<Self> {
        let port = free_port()?;
        let api_server = world.control_plane.url();
        let (host, api_port) = api_server
            .trim_start_matches("https://")
            .rsplit_once(':')
            .context("the URL of the API server has no port")?;
        let authority = world.control_plane.folder().join("pki/ca.crt");
        let process = Command::new(trellis_program())
            .args(["dashboard", "--in-cluster"])
            .arg(format!("--public-url=http://127.0.0.1:{port}"))
            .arg(format!("--listen=127.0.0.1:{port}"))
            .arg(format!("--certificate-authority={}", authority.display()))
            .env_remove("KUBECONFIG")
            .env("KUBERNETES_SERVICE_HOST", host)
            .env("KUBERNETES_SERVICE_PORT", api_port)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let page = Self {
            port,
            _process: process,
        };
        let nobody = page.client(None)?;
        eventually(START_TIMEOUT, || async {
            let (status, _) = send_request(&nobody, "/healthz", &[]).await?;
            ensure!(status == StatusCode::OK, "{status}");
            Ok(())
        })
        .await?;
        Ok(page)
    }

    /// A client with this token.
    fn client(&self, token: Option<&str>) -> Result<Client> {
        let mut config = Config::new(format!("http://127.0.0.1:{}", self.port).parse()?);
        config.auth_info.token = token.map(|token| token.to_owned().into());
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }
}

/// Names of the namespaces whose jobs an answer has.
fn namespaces(queue: &Value) -> BTreeSet<String> {
    let jobs = queue["jobs"].as_array().into_iter().flatten();
    let namespaces = jobs.filter_map(|job| job["metadata"]["namespace"].as_str());
    namespaces.map(str::to_owned).collect()
}

/// Asks the page what would become of a small job. The text names the namespace, if there is one.
async fn plan(page: &ClusterPage, user: &Client, metadata: &str) -> Result<(StatusCode, Value)> {
    let yaml = format!(
        "apiVersion: trellis.dev/v1alpha1\n\
         kind: TrainingJob\n\
         metadata: {{{metadata}}}\n\
         spec:\n  \
           taskGroups:\n  \
           - {{name: worker, replicas: 2, image: registry.example/train:1.0, command: [train], resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}\n"
    );
    let request = Request::post("/api/plan")
        .header("origin", format!("http://127.0.0.1:{}", page.port))
        .header("content-type", "application/json")
        .body(Body::from(serde_json::to_vec(&json!({"yaml": yaml}))?))?;
    let answer = user.send(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    Ok((status, serde_json::from_slice(&body)?))
}

/// A user who may only edit jobs plans them in the page of a cluster, and gets no names of nodes.
async fn check_plans(page: &ClusterPage, viewer: &Client, editor: &Client) -> Result<()> {
    let (status, body) = plan(page, editor, "name: planned, namespace: team-a").await?;
    ensure!(status == StatusCode::OK, "{status} {body}");
    let job = &body["jobs"][0];
    ensure!(job["verdict"] == "would run", "{body}");
    ensure!(job["nodes"] == json!([]), "{body}");
    let sections = job["sections"].as_array().into_iter().flatten();
    let nodes = sections
        .filter(|section| section["name"] == "nodes")
        .map(|section| &section["lines"][0]);
    let nodes: Vec<_> = nodes.collect();
    ensure!(nodes == [&json!("worker: 2 pods")], "{body}");
    let (status, body) = plan(page, editor, "name: planned").await?;
    let field = &body["problems"][0]["field"];
    ensure!(
        status == StatusCode::OK && field == "metadata.namespace",
        "{body}"
    );
    let (status, body) = plan(page, viewer, "name: planned, namespace: team-a").await?;
    ensure!(status == StatusCode::FORBIDDEN, "{status} {body}");
    let message = body["error"]["message"].as_str().unwrap_or_default();
    ensure!(
        message.contains("create plans.visibility.trellis.dev"),
        "{body}"
    );
    Ok(())
}

/// Users at the same time, on the same server, see what each of them may see.
pub(crate) async fn test_separation(world: &World) -> Result<()> {
    for namespace in ["team-a", "team-b"] {
        let job = format!(
            "apiVersion: trellis.dev/v1alpha1\n\
             kind: TrainingJob\n\
             metadata: {{name: separate, namespace: {namespace}}}\n\
             spec:\n  \
               taskGroups:\n  \
               - {{name: worker, replicas: 1, gpus: 1, image: registry.example/train:1.0, command: [train], resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}\n"
        );
        world.control_plane.apply_yaml(&job).await?;
    }
    let page = ClusterPage::start(world).await?;
    let token = async |user: &str| world.token(user).await;
    let viewer = page.client(Some(&token("viewer").await?))?;
    let editor = page.client(Some(&token("editor").await?))?;
    let platform = page.client(Some(&token("platform").await?))?;
    let stranger = page.client(Some(&token("stranger").await?))?;

    let all = eventually(START_TIMEOUT, || async {
        let (status, queue) = send_request(&platform, "/api/queue", &[]).await?;
        ensure!(status == StatusCode::OK, "{queue}");
        let seen = namespaces(&queue);
        ensure!(
            seen.contains("team-a") && seen.contains("team-b"),
            "{seen:?}"
        );
        Ok(seen)
    })
    .await?;
    ensure!(all.len() >= 2, "{all:?}");
    let expected = [
        (&viewer, "team-a", StatusCode::OK),
        (&viewer, "team-b", StatusCode::FORBIDDEN),
        (&editor, "team-a", StatusCode::OK),
        (&editor, "team-b", StatusCode::OK),
        (&stranger, "team-a", StatusCode::FORBIDDEN),
    ];
    let requests = (0..REQUESTS).flat_map(|_| expected).map(async |request| {
        let (client, namespace, expected) = request;
        let path = format!("/api/queue?namespace={namespace}");
        let (status, body) = send_request(client, &path, &[]).await?;
        ensure!(status == expected, "{namespace}: {status} {body}");
        let own = BTreeSet::from([namespace.to_owned()]);
        let is_own = status != StatusCode::OK || namespaces(&body) == own;
        ensure!(is_own, "{namespace}: {body}");
        anyhow::Ok(())
    });
    try_join_all(requests).await?;
    check_plans(&page, &viewer, &editor).await?;

    let (status, session) = send_request(&viewer, "/api/session", &[]).await?;
    ensure!(status == StatusCode::OK, "{session}");
    ensure!(
        session["user"] == "system:serviceaccount:accounts:viewer",
        "{session}"
    );
    ensure!(session["mode"] == "cluster", "{session}");
    for (client, kind) in [
        (page.client(None)?, "no token"),
        (
            page.client(Some("invented"))?,
            "a token that the cluster does not know",
        ),
    ] {
        let (status, body) = send_request(&client, "/api/session", &[]).await?;
        ensure!(
            status == StatusCode::UNAUTHORIZED,
            "{kind}: {status} {body}"
        );
        ensure!(body["error"]["kind"] == "unauthorized", "{kind}: {body}");
    }
    let (status, _) = send_request(&viewer, "/api/jobs/team-b/separate", &[]).await?;
    ensure!(status == StatusCode::FORBIDDEN, "{status}");
    let other_host = [("host", "trellis.example.org")];
    let (status, _) = send_request(&viewer, "/", &other_host).await?;
    ensure!(status == StatusCode::MISDIRECTED_REQUEST, "{status}");
    for namespace in ["team-a", "team-b"] {
        let delete = ["delete", "tj", "separate", "-n", namespace];
        world.control_plane.kubectl_ok(&delete).await?;
    }
    Ok(())
}
