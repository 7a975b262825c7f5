//! Trellis as platform teams run it: its image on real nodes, installed by Helm, its pods placed
//! by kube-scheduler, and a TrainingJob that goes through.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use libtest_mimic::{Completion, Failed, Trial};
use serde_json::json;
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::control_plane::{ControlPlane, Options};
use trellis_e2e::helm::Helm;
use trellis_e2e::jobs::phase;
use trellis_e2e::operator::{self, LEASE, NAMESPACE};
use trellis_e2e::real_nodes::{self, IMAGE, RealNode, RealNodes};
use trellis_e2e::wait::{eventually, wait_for};

use crate::image;
use crate::scene::RUNTIME;

/// How long a job, or another leader, may take.
const LONG: Duration = Duration::from_secs(120);
/// How long Helm waits for two operators.
const WAIT: [&str; 2] = ["--wait", "--timeout=3m"];

pub(crate) fn trial() -> Trial {
    let name = "on_real_nodes_its_operators_run_a_job";
    Trial::ignorable_test(name, || {
        if let Some(why) = real_nodes::unable().or_else(image::unable) {
            return Ok(Completion::ignored_with(why));
        }
        let tested = Helm::find_or_build().and_then(|helm| RUNTIME.block_on(test(helm)));
        let tested = tested.map(|()| Completion::Completed);
        tested.map_err(|error| Failed::from(format!("{error:#}")))
    })
}

async fn test(helm: Helm) -> Result<()> {
    let control_plane = ControlPlane::start(real_nodes::options(Options::default())).await?;
    let helm = helm.on(&control_plane);
    let nodes = ["one", "two"].map(|name| RealNode::new(name, 4));
    let real = RealNodes::start(&control_plane, &nodes).await?;
    let archive = image::build(control_plane.folder())?;
    for node in &nodes {
        real.import(&node.name, &archive)?;
    }
    let _api = real.serve_api(&control_plane)?;
    let _scheduler = real_nodes::start_scheduler(&control_plane).await?;

    let namespace = json!({"metadata": {"name": NAMESPACE,
        "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let namespaces: Api<Namespace> = Api::all(control_plane.client());
    let namespace = serde_json::from_value(namespace)?;
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    let said = match helm.chart("install", NAMESPACE, &json!({}), &WAIT) {
        Ok(said) => said,
        Err(error) => anyhow::bail!("{error:#}\n{}", story(&control_plane).await),
    };
    let on: BTreeSet<_> = operators(&control_plane)
        .await?
        .iter()
        .filter_map(|pod| pod.spec.as_ref()?.node_name.clone())
        .collect();
    ensure!(on.len() == 2, "both operators are on {on:?}");

    operator::takes_jobs(&control_plane).await?;
    runs(&control_plane, "first").await?;
    // And the one that Helm has told of.
    let hello = said.split_once("<<END\n").context("no first job")?.1;
    let hello = hello.split("  END").next().unwrap_or_default();
    control_plane.apply_yaml(hello).await?;
    completes(&control_plane, "hello").await?;

    labelled(&control_plane).await?;
    // Who leads goes, and the other takes over.
    let before = leader(&control_plane).await?;
    let pods: Api<Pod> = Api::namespaced(control_plane.client(), NAMESPACE);
    let leading = operators(&control_plane).await?;
    let leading = leading
        .iter()
        .find(|pod| before.starts_with(&pod.name_any()));
    let leading = leading.with_context(|| format!("{before} is no pod"))?;
    pods.delete(&leading.name_any(), &DeleteParams::default())
        .await?;
    eventually(LONG, || async {
        let now = leader(&control_plane).await?;
        ensure!(!now.is_empty() && now != before, "{now} leads");
        Ok(())
    })
    .await?;
    labelled(&control_plane).await?;
    runs(&control_plane, "second").await?;

    let values = json!({"operator": {"logFormat": "human"}});
    helm.chart("upgrade", NAMESPACE, &values, &WAIT)?;
    runs(&control_plane, "third").await?;

    helm.ok(&["uninstall", "trellis", "--namespace", NAMESPACE, "--wait"])?;
    let jobs: Api<TrainingJob> = Api::namespaced(control_plane.client(), "default");
    ensure!(jobs.list(&ListParams::default()).await?.items.len() == 4);
    Ok(())
}

async fn operators(control_plane: &ControlPlane) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(control_plane.client(), NAMESPACE);
    let params = ListParams::default().labels("app.kubernetes.io/name=trellis-operator");
    Ok(pods.list(&params).await?.items)
}

async fn leader(control_plane: &ControlPlane) -> Result<String> {
    let leases: Api<Lease> = Api::namespaced(control_plane.client(), NAMESPACE);
    let lease = leases.get(LEASE).await?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity);
    Ok(holder.unwrap_or_default())
}

/// Who leads, and nobody else, is behind the Service that the API server asks.
async fn labelled(control_plane: &ControlPlane) -> Result<()> {
    let slices: Api<EndpointSlice> = Api::namespaced(control_plane.client(), NAMESPACE);
    let params = ListParams::default().labels("kubernetes.io/service-name=trellis-visibility");
    eventually(LONG, || async {
        let leads = leader(control_plane).await?;
        let slices = slices.list(&params).await?.items;
        let endpoints = slices
            .into_iter()
            .flat_map(|slice| slice.endpoints.unwrap_or_default());
        let behind: Vec<String> = endpoints
            .filter_map(|endpoint| endpoint.target_ref?.name)
            .collect();
        let is_it = matches!(behind.as_slice(), [one] if leads.starts_with(one.as_str()));
        ensure!(is_it, "{leads} leads, and {behind:?} is asked");
        Ok(())
    })
    .await
}

/// A gang on both nodes that runs to its end.
async fn runs(control_plane: &ControlPlane, name: &str) -> Result<()> {
    let job = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"taskGroups": [{
            "name": "worker", "replicas": 2, "gpus": 4, "image": IMAGE,
            "command": ["sh", "-c", "echo rank $TRELLIS_RANK"],
            "resources": {"cpu": "250m", "memory": "64Mi"},
        }]},
    });
    control_plane.apply_yaml(&job.to_string()).await?;
    completes(control_plane, name).await
}

async fn completes(control_plane: &ControlPlane, name: &str) -> Result<()> {
    let jobs: Api<TrainingJob> = Api::namespaced(control_plane.client(), "default");
    let done = |job: &TrainingJob| phase(job) == Some(JobPhase::Complete);
    wait_for(&jobs, name, LONG, done).await?;
    Ok(())
}

/// What there is to be seen of operators that do not become ready.
async fn story(control_plane: &ControlPlane) -> String {
    let mut story = String::new();
    for arguments in [
        "get pods,events -n trellis-system -o wide",
        "logs -n trellis-system -l app.kubernetes.io/name=trellis-operator --prefix --tail=20",
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        match control_plane.kubectl(&arguments).await {
            Ok(output) => {
                story.push_str(&String::from_utf8_lossy(&output.stdout));
                story.push_str(&String::from_utf8_lossy(&output.stderr));
            }
            Err(error) => story.push_str(&error.to_string()),
        }
    }
    story
}
