//! `trellis plan` against a real control plane: it says what the operator then does.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use trellis_api::Reason;
use trellis_api::job::{JobPhase, TrainingJobStatus};
use trellis_e2e::cluster::Nodes;
use trellis_e2e::control_plane::{ControlPlane, Options};
use trellis_e2e::jobs::{SOON, message, reason};
use trellis_e2e::site::Site;
use trellis_e2e::wait::{eventually, wait_for};

use super::{shared, site};

/// Runs `trellis plan -f -` with a kubeconfig.
async fn plan(kubeconfig: &Path, arguments: &[&str], input: &Value) -> Output {
    let mut child = tokio::process::Command::new(env!("CARGO_BIN_EXE_trellis-under-test"))
        .args(["plan", "-f", "-", "--kubeconfig"])
        .arg(kubeconfig)
        .args(arguments)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.to_string().as_bytes()).await.unwrap();
    drop(stdin);
    child.wait_with_output().await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The node of each pod.
fn nodes_of(pods: impl IntoIterator<Item = Pod>) -> BTreeMap<String, String> {
    pods.into_iter()
        .map(|pod| {
            let node = pod.spec.and_then(|s| s.node_name).unwrap_or_default();
            (pod.metadata.name.unwrap_or_default(), node)
        })
        .collect()
}

#[tokio::test]
async fn what_is_planned_is_what_is_done() {
    let control_plane = shared().await;
    let site = Site::new(control_plane, "plan", Nodes::new(4).gpus(8).gpu_taint()).await;
    let kubeconfig = control_plane.kubeconfig();
    let first = site.job("first", 3, 8);

    // The API server accepts the objects that the plan prints.
    let arguments = ["-n", site.name(), "-o", "yaml"];
    let planned = plan(&kubeconfig, &arguments, &first).await;
    assert_eq!(planned.status.code(), Some(0), "{}", text(&planned.stderr));
    let yaml = text(&planned.stdout);
    let taken = control_plane
        .kubectl_with(&["apply", "--dry-run=server", "-f", "-"], &yaml)
        .await
        .unwrap();
    assert!(taken.status.success(), "{}", text(&taken.stderr));
    assert!(site.pods("first").await.is_empty());

    // The operator does the same.
    site.create(first.clone()).await.unwrap();
    let created = site.whole("first", 3).await;
    let planned = trellis_api::document::split(&yaml).unwrap();
    let planned = planned.iter().filter(|d| d.kind == "Pod");
    let planned = nodes_of(planned.map(|d| d.decode().unwrap()));
    assert_eq!(nodes_of(created), planned);

    // The plan of the placed job ignores its own pods. The plan of another job counts them, and
    // reports the reason that the operator reports.
    let again = plan(&kubeconfig, &["-n", site.name()], &first).await;
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stdout));
    let second = site.job("second", 2, 8);
    let waits = plan(&kubeconfig, &["-n", site.name()], &second).await;
    assert_eq!(waits.status.code(), Some(1), "{}", text(&waits.stderr));
    site.create(second).await.unwrap();
    let said = text(&waits.stdout);
    println!("{said}");
    let is_said = |s: &TrainingJobStatus| {
        let why = s.reason.map(|r| format!("{r}: {}", s.full_message()));
        why.is_some_and(|why| said.contains(&why))
    };
    site.becomes("second", |s| {
        s.phase == Some(JobPhase::Queued) && is_said(s)
    })
    .await;
}

/// Two gangs that the nodes hold together, and the namespace's quota does not.
#[tokio::test]
async fn a_quota_of_the_namespace_is_counted_as_it_then_is() {
    let control_plane = shared().await;
    let site = site("planquota", 2).await;
    site.limit_pods(5).await;
    let kubeconfig = control_plane.kubeconfig();
    let arguments = ["-n", site.name()];
    let first = site.job("first", 4, 1);
    let runs = plan(&kubeconfig, &arguments, &first).await;
    assert_eq!(runs.status.code(), Some(0), "{}", text(&runs.stdout));
    site.create(first.clone()).await.unwrap();
    site.reaches("first", JobPhase::Running).await;
    let used = |quota: &ResourceQuota| {
        let used = quota.status.as_ref().and_then(|s| s.used.as_ref());
        used.is_some_and(|used| used["pods"].0 == "4")
    };
    wait_for(&site.api::<ResourceQuota>(), "pods", SOON, used)
        .await
        .unwrap();

    let again = plan(&kubeconfig, &arguments, &first).await;
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stdout));
    let second = site.job("second", 3, 1);
    let waits = plan(&kubeconfig, &arguments, &second).await;
    assert_eq!(waits.status.code(), Some(1), "{}", text(&waits.stderr));
    site.create(second).await.unwrap();
    let waiting = site
        .becomes("second", |s| {
            s.reason == Some(Reason::ResourceQuotaExceeded)
        })
        .await;
    let why = format!("{}: {}", reason(&waiting), message(&waiting));
    let said = text(&waits.stdout);
    assert!(said.contains(&why), "{why}\n{said}");
}

/// A pod that another controller has put on a node.
async fn occupy(site: &Site, name: String, node: &str, request: Value) -> Result<()> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "x",
                            "resources": {"requests": request, "limits": request}}],
        },
    }))?;
    let api = site.api::<Pod>();
    api.create(&PostParams::default(), &pod).await?;
    Ok(())
}

/// The pod that matters is behind the first page of the list.
#[tokio::test]
async fn every_page_of_the_pods_counts() {
    let control_plane = shared().await;
    // Room for all of the pods, so that it is the last that matters.
    let nodes = Nodes::new(1).gpus(8).capacity("pods", "1000");
    let site = Site::new(control_plane, "pages", nodes).await;
    let node = format!("{}-0", site.name());
    let kubeconfig = control_plane.kubeconfig();
    let whole = site.job("whole", 1, 8);
    let arguments = ["-n", site.name()];
    let run = || plan(&kubeconfig, &arguments, &whole);
    futures::stream::iter(0..500)
        .map(|i| occupy(&site, format!("a-{i:03}"), &node, json!({})))
        .buffer_unordered(8)
        .try_collect::<Vec<_>>()
        .await
        .unwrap();
    let free = run().await;
    assert_eq!(free.status.code(), Some(0), "{}", text(&free.stdout));
    let gpu = json!({"nvidia.com/gpu": "1"});
    occupy(&site, "z".to_owned(), &node, gpu).await.unwrap();
    let taken = run().await;
    assert_eq!(taken.status.code(), Some(1), "{}", text(&taken.stdout));
    let said = text(&taken.stdout);
    assert!(said.contains("InsufficientCapacity: "), "{said}");
}

/// A cluster that knows none of Trellis' kinds.
#[tokio::test]
async fn where_trellis_is_not_installed_it_plans_as_on_a_fresh_install() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let _nodes = Nodes::new(4).gpus(8).create(&control_plane).await.unwrap();
    let kubeconfig = control_plane.kubeconfig();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/two-gpus.yaml");
    let example = std::fs::read_to_string(example).unwrap();
    let mut job: Value = serde_saphyr::from_str(&example).unwrap();
    for namespace in [Some("default"), None] {
        job["metadata"]["namespace"] = json!(namespace);
        let run = plan(&kubeconfig, &[], &job).await;
        let said = text(&run.stderr);
        assert_eq!(run.status.code(), Some(0), "{said}");
        assert!(said.contains("so Trellis is not installed"), "{said}");
        let out = text(&run.stdout);
        assert!(out.contains("default/two-gpus would run"), "{out}");
    }
}

/// The ClusterRole of the document, which is to be enough.
fn role(name: &str) -> String {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/plan.md");
    let document = std::fs::read_to_string(document).unwrap();
    let blocks = document.split("```yaml\n").skip(1);
    let mut blocks = blocks.filter_map(|block| block.split("```").next());
    let role = blocks.find(|block| block.contains("kind: ClusterRole\n"));
    role.unwrap()
        .replace("name: trellis-plan", &format!("name: {name}"))
}

#[tokio::test]
async fn a_missing_right_is_named() {
    let control_plane = shared().await;
    let place = site("rights", 1).await;
    let user = format!("user-{}", place.name());
    let kubeconfig = control_plane.kubeconfig_for_user(&user, &[]).unwrap();
    let wanted = place.job("llm", 1, 1);
    let refused = plan(&kubeconfig, &[], &wanted).await;
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(
        said.starts_with("error: cannot list nodes: the right to do so is missing: "),
        "{said}"
    );
    assert!(said.contains("podgroups.trellis.dev"), "{said}");
    assert!(said.contains("--nodes FILE"), "{said}");
    let role = format!(
        "{}---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: {user}}}\nroleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {user}}}\nsubjects: [{{kind: User, name: {user}}}]\n",
        role(&user)
    );
    control_plane.apply_yaml(&role).await.unwrap();
    eventually(SOON, || async {
        let run = plan(&kubeconfig, &[], &wanted).await;
        anyhow::ensure!(run.status.code() == Some(0), "{}", text(&run.stderr));
        Ok(())
    })
    .await
    .unwrap();
    for kind in ["clusterrolebinding", "clusterrole"] {
        control_plane
            .kubectl_ok(&["delete", kind, &user])
            .await
            .unwrap();
    }
}
