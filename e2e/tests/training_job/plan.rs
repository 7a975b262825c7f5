//! `trellis plan` on a real control plane predicts the decisions of the operator.

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
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message, reason};
use trellis_e2e::wait::{eventually, wait_for};

use super::{create_site, shared_control_plane};

/// Runs `trellis plan -f -` with a kubeconfig.
async fn run_plan(kubeconfig: &Path, arguments: &[&str], input: &Value) -> Output {
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

fn output_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the node of each pod.
fn node_by_pod(pods: impl IntoIterator<Item = Pod>) -> BTreeMap<String, String> {
    pods.into_iter()
        .map(|pod| {
            let node = pod.spec.and_then(|s| s.node_name).unwrap_or_default();
            (pod.metadata.name.unwrap_or_default(), node)
        })
        .collect()
}

#[tokio::test]
async fn plan_matches_the_placement_of_the_operator() {
    let control_plane = shared_control_plane().await;
    let site = TestSite::new(
        control_plane,
        "plan",
        NodeTemplate::new(4).gpus(8).gpu_taint(),
    )
    .await;
    let kubeconfig = control_plane.kubeconfig();
    let first = site.job("first", 3, 8);

    // The API server accepts the objects that the plan prints.
    let arguments = ["-n", site.name(), "-o", "yaml"];
    let planned = run_plan(&kubeconfig, &arguments, &first).await;
    assert_eq!(
        planned.status.code(),
        Some(0),
        "{}",
        output_text(&planned.stderr)
    );
    let yaml = output_text(&planned.stdout);
    let accepted = control_plane
        .kubectl_with(&["apply", "--dry-run=server", "-f", "-"], &yaml)
        .await
        .unwrap();
    assert!(
        accepted.status.success(),
        "{}",
        output_text(&accepted.stderr)
    );
    assert!(site.list_pods("first").await.is_empty());

    // The operator uses the same nodes.
    site.create(first.clone()).await.unwrap();
    let created = site.wait_for_whole_gang("first", 3).await;
    let planned = trellis_api::document::split(&yaml).unwrap();
    let planned = planned.iter().filter(|d| d.kind == "Pod");
    let planned = node_by_pod(planned.map(|d| d.decode().unwrap()));
    assert_eq!(node_by_pod(created), planned);

    // The plan of the placed job ignores its own pods. The plan of another job counts them, and
    // reports the reason that the operator reports.
    let second_plan = run_plan(&kubeconfig, &["-n", site.name()], &first).await;
    assert_eq!(
        second_plan.status.code(),
        Some(0),
        "{}",
        output_text(&second_plan.stdout)
    );
    let second = site.job("second", 2, 8);
    let pending = run_plan(&kubeconfig, &["-n", site.name()], &second).await;
    assert_eq!(
        pending.status.code(),
        Some(1),
        "{}",
        output_text(&pending.stderr)
    );
    site.create(second).await.unwrap();
    let stdout = output_text(&pending.stdout);
    println!("{stdout}");
    let is_said = |s: &TrainingJobStatus| {
        let reason = s.reason.map(|r| format!("{r}: {}", s.full_message()));
        reason.is_some_and(|reason| stdout.contains(&reason))
    };
    site.wait_for_status("second", |s| {
        s.phase == Some(JobPhase::Queued) && is_said(s)
    })
    .await;
}

/// The nodes have room for two gangs, and the namespace's quota only for one.
#[tokio::test]
async fn plan_counts_the_current_resource_quota_usage() {
    let control_plane = shared_control_plane().await;
    let site = create_site("planquota", 2).await;
    site.create_pod_quota(5).await;
    let kubeconfig = control_plane.kubeconfig();
    let arguments = ["-n", site.name()];
    let first = site.job("first", 4, 1);
    let running = run_plan(&kubeconfig, &arguments, &first).await;
    assert_eq!(
        running.status.code(),
        Some(0),
        "{}",
        output_text(&running.stdout)
    );
    site.create(first.clone()).await.unwrap();
    site.wait_for_phase("first", JobPhase::Running).await;
    let used = |quota: &ResourceQuota| {
        let used = quota.status.as_ref().and_then(|s| s.used.as_ref());
        used.is_some_and(|used| used["pods"].0 == "4")
    };
    wait_for(&site.api::<ResourceQuota>(), "pods", SOON, used)
        .await
        .unwrap();

    let second_plan = run_plan(&kubeconfig, &arguments, &first).await;
    assert_eq!(
        second_plan.status.code(),
        Some(0),
        "{}",
        output_text(&second_plan.stdout)
    );
    let second = site.job("second", 3, 1);
    let pending = run_plan(&kubeconfig, &arguments, &second).await;
    assert_eq!(
        pending.status.code(),
        Some(1),
        "{}",
        output_text(&pending.stderr)
    );
    site.create(second).await.unwrap();
    let waiting = site
        .wait_for_status("second", |s| {
            s.reason == Some(Reason::ResourceQuotaExceeded)
        })
        .await;
    let expected = format!("{}: {}", reason(&waiting), message(&waiting));
    let stdout = output_text(&pending.stdout);
    assert!(stdout.contains(&expected), "{expected}\n{stdout}");
}

/// Returns a pod that another scheduler has bound to a node.
async fn create_occupying_pod(
    site: &TestSite,
    name: String,
    node: &str,
    request: Value,
) -> Result<()> {
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

/// The relevant pod is after the first page of the list.
#[tokio::test]
async fn plan_counts_pods_of_every_list_page() {
    let control_plane = shared_control_plane().await;
    // The node has room for all of these pods, so that only the last pod is relevant.
    let nodes = NodeTemplate::new(1).gpus(8).capacity("pods", "1000");
    let site = TestSite::new(control_plane, "pages", nodes).await;
    let node = format!("{}-0", site.name());
    let kubeconfig = control_plane.kubeconfig();
    let node_job = site.job("whole", 1, 8);
    let arguments = ["-n", site.name()];
    let run = || run_plan(&kubeconfig, &arguments, &node_job);
    futures::stream::iter(0..500)
        .map(|i| create_occupying_pod(&site, format!("a-{i:03}"), &node, json!({})))
        .buffer_unordered(8)
        .try_collect::<Vec<_>>()
        .await
        .unwrap();
    let free = run().await;
    assert_eq!(free.status.code(), Some(0), "{}", output_text(&free.stdout));
    let gpu = json!({"nvidia.com/gpu": "1"});
    create_occupying_pod(&site, "z".to_owned(), &node, gpu)
        .await
        .unwrap();
    let full_plan = run().await;
    assert_eq!(
        full_plan.status.code(),
        Some(1),
        "{}",
        output_text(&full_plan.stdout)
    );
    let stdout = output_text(&full_plan.stdout);
    assert!(stdout.contains("InsufficientCapacity: "), "{stdout}");
}

/// A cluster without the kinds of Trellis.
#[tokio::test]
async fn plan_uses_defaults_where_trellis_is_not_installed() {
    let control_plane = ControlPlane::start(ControlPlaneOptions::default())
        .await
        .unwrap();
    let _nodes = NodeTemplate::new(4)
        .gpus(8)
        .create(&control_plane)
        .await
        .unwrap();
    let kubeconfig = control_plane.kubeconfig();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/two-gpus.yaml");
    let example = std::fs::read_to_string(example).unwrap();
    let mut job: Value = serde_saphyr::from_str(&example).unwrap();
    for namespace in [Some("default"), None] {
        job["metadata"]["namespace"] = json!(namespace);
        let run = run_plan(&kubeconfig, &[], &job).await;
        let stderr = output_text(&run.stderr);
        assert_eq!(run.status.code(), Some(0), "{stderr}");
        assert!(stderr.contains("so Trellis is not installed"), "{stderr}");
        let out = output_text(&run.stdout);
        assert!(out.contains("default/two-gpus would run"), "{out}");
    }
}

/// Applies the ClusterRole of the page, which must be sufficient.
fn documented_role(name: &str) -> String {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/plan.md");
    let document = std::fs::read_to_string(document).unwrap();
    let blocks = document.split("```yaml\n").skip(1);
    let mut blocks = blocks.filter_map(|block| block.split("```").next());
    let role = blocks.find(|block| block.contains("kind: ClusterRole\n"));
    role.unwrap()
        .replace("name: trellis-plan", &format!("name: {name}"))
}

#[tokio::test]
async fn plan_names_a_missing_right() {
    let control_plane = shared_control_plane().await;
    let place = create_site("rights", 1).await;
    let user = format!("user-{}", place.name());
    let kubeconfig = control_plane.kubeconfig_for_user(&user, &[]).unwrap();
    let job = place.job("llm", 1, 1);
    let refused = run_plan(&kubeconfig, &[], &job).await;
    assert_eq!(refused.status.code(), Some(2));
    let stderr = output_text(&refused.stderr);
    assert!(
        stderr.starts_with("error: cannot list nodes: the right to do so is missing: "),
        "{stderr}"
    );
    assert!(stderr.contains("podgroups.trellis.dev"), "{stderr}");
    assert!(stderr.contains("--nodes FILE"), "{stderr}");
    let role = format!(
        "{}---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: {user}}}\nroleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {user}}}\nsubjects: [{{kind: User, name: {user}}}]\n",
        documented_role(&user)
    );
    control_plane.apply_yaml(&role).await.unwrap();
    eventually(SOON, || async {
        let run = run_plan(&kubeconfig, &[], &job).await;
        anyhow::ensure!(run.status.code() == Some(0), "{}", output_text(&run.stderr));
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
