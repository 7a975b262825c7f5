//! An upgrade finds gangs in every phase, and moves none of them.

mod external_pods;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use trellis_api::JobPolicy;
use trellis_api::job::JobPhase;
use trellis_e2e::admission::PodPolicy;
use trellis_e2e::cluster::Nodes;
use trellis_e2e::control_plane::{ControlPlane, Options};
use trellis_e2e::folder;
use trellis_e2e::helm::{Helm, RELEASE, chart};
use trellis_e2e::jobs::{phase, reason, uids};
use trellis_e2e::kubelet;
use trellis_e2e::operator::{self, NAMESPACE};
use trellis_e2e::site::Site;

use crate::install;

/// A job of each phase, by the name of its phase.
const JOBS: [(&str, JobPhase); 10] = [
    ("complete", JobPhase::Complete),
    ("failed", JobPhase::Failed),
    ("refused", JobPhase::Refused),
    ("waiting", JobPhase::Waiting),
    ("blocked", JobPhase::Blocked),
    ("suspended", JobPhase::Suspended),
    ("running", JobPhase::Running),
    ("starting", JobPhase::Starting),
    ("restarting", JobPhase::Restarting),
    ("queued", JobPhase::Queued),
];

/// The state of a job that an upgrade must not change.
#[derive(Debug, PartialEq)]
struct Stands {
    phase: Option<JobPhase>,
    reason: &'static str,
    attempt: Option<i64>,
    restarts: Option<i64>,
    pods: BTreeSet<String>,
}

/// The chart of today under an older number: there was no release before it.
fn before(to: &Path) -> Result<()> {
    folder::copy(&chart(), to)?;
    let path = to.join("Chart.yaml");
    let text = std::fs::read_to_string(&path)?;
    let lines = text.lines().map(|line| match line.starts_with("version:") {
        true => "version: 0.0.1\n".to_owned(),
        false => format!("{line}\n"),
    });
    let older: String = lines.collect();
    ensure!(older.contains("version: 0.0.1\n"), "{text}");
    std::fs::write(path, older)?;
    Ok(())
}

pub(crate) async fn phases(helm: Helm) -> Result<()> {
    let control_plane = ControlPlane::start(Options::default()).await?;
    let helm = helm.on(&control_plane);
    let older = tempfile::tempdir()?;
    before(older.path())?;
    let path = older.path().display().to_string();
    let namespace = ["--namespace", NAMESPACE, "--create-namespace"];
    helm.ok(&[&["install", RELEASE, &path][..], &namespace].concat())?;
    let mut leads = install::operator(&control_plane).await?;
    operator::takes_jobs(&control_plane).await?;
    let site = Site::new(&control_plane, "upgrade", Nodes::new(3).gpus(8)).await;
    submit(&control_plane, &site).await?;
    external_pods::submit(&site).await?;
    let stood = (stand(&site).await?, external_pods::stand(&site).await?);
    let before = leads.log()?;
    ensure!(before.lines().all(is_json), "{before}");

    let values = json!({"operator": {"logFormat": "human"}});
    let said = helm.chart("upgrade", NAMESPACE, &values, &[])?;
    ensure!(said.contains("REVISION: 2"), "{said}");
    leads.kill()?;
    drop(leads);
    operator::give_lease_back(&control_plane).await?;
    let mut leads = install::operator(&control_plane).await?;
    // The operator has reconciled all jobs once it has queued a later one.
    site.submit("later", 2, 8).await;
    site.reaches("later", JobPhase::Queued).await;
    let stands = (stand(&site).await?, external_pods::stand(&site).await?);
    ensure!(stands == stood, "{stands:#?}\nwas\n{stood:#?}");
    // The log has what the one before said, too.
    let log = leads.log()?;
    let last = log.lines().last().unwrap_or_default();
    ensure!(!last.is_empty() && !is_json(last), "{last}");

    go_on(&control_plane, &site).await?;
    external_pods::go_on(&site).await?;
    leads.assert_runs();
    Ok(())
}

fn is_json(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|said| said.is_object())
}

async fn stand(site: &Site) -> Result<Vec<Stands>> {
    let mut all = Vec::new();
    for (name, expected) in JOBS {
        let job = site.reaches(name, expected).await;
        let status = job.status.as_ref();
        all.push(Stands {
            phase: phase(&job),
            reason: reason(&job),
            attempt: status.and_then(|status| status.attempt),
            restarts: status.and_then(|status| status.restarts),
            pods: uids(&site.pods(name).await),
        });
    }
    Ok(all)
}

/// One of each phase: 24 GPUs, of which none are left.
async fn submit(control_plane: &ControlPlane, site: &Site) -> Result<()> {
    let forbid = "forbid(principal, action == Trellis::Action::\"UseImage\", resource) \
        when { resource has registry && resource.registry == \"elsewhere.example\" };";
    let policy = json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "JobPolicy",
        "metadata": {"name": "images"}, "spec": {"cedar": forbid}});
    control_plane
        .apply_yaml_in(site.name(), &policy.to_string())
        .await?;
    let changed = async |name: &str, gpus: u32, change: &dyn Fn(&mut Value)| {
        let mut job = site.job(name, 2, gpus);
        change(&mut job["spec"]);
        site.create(job).await
    };
    changed("failed", 0, &|spec| {
        spec["restart"] = json!({"scope": "Never"})
    })
    .await?;
    changed("refused", 0, &|spec| {
        spec["taskGroups"][0]["image"] = json!("elsewhere.example/train:1.0");
    })
    .await?;
    changed("waiting", 0, &|spec| spec["profile"] = json!(site.name())).await?;
    changed("suspended", 0, &|spec| spec["suspend"] = json!(true)).await?;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "blocked"},
        "spec": {"ports": [{"port": 80}]}});
    control_plane
        .apply_yaml_in(site.name(), &service.to_string())
        .await?;
    for name in ["complete", "blocked"] {
        changed(name, 0, &|_| ()).await?;
    }
    for name in ["complete", "failed"] {
        site.reaches(name, JobPhase::Running).await;
    }
    for index in 0..2 {
        site.exit(&format!("complete-worker-{index}"), "0").await;
    }
    site.exit("failed-worker-0", "1").await;

    for name in ["running", "restarting"] {
        site.submit(name, 2, 4).await;
        site.reaches(name, JobPhase::Running).await;
    }
    let hangs = [(kubelet::HANG, "true")];
    let policy = PodPolicy::tell_kubelets(control_plane, site.name(), &hangs).await?;
    site.submit("starting", 2, 4).await;
    site.pods_become("starting", 2).await;
    policy.lift().await?;
    site.annotate("restarting-worker-1", kubelet::STUCK_TERMINATING, "true")
        .await;
    site.exit("restarting-worker-0", "1").await;
    site.submit("queued", 1, 8).await;
    Ok(())
}

/// Each goes on where it was.
async fn go_on(control_plane: &ControlPlane, site: &Site) -> Result<()> {
    for index in 0..2 {
        site.exit(&format!("running-worker-{index}"), "0").await;
        let hung = format!("starting-worker-{index}");
        site.annotate(&hung, kubelet::HANG, "false").await;
    }
    site.reaches("running", JobPhase::Complete).await;
    site.reaches("queued", JobPhase::Running).await;
    site.reaches("starting", JobPhase::Running).await;

    let resumed = json!({"spec": {"suspend": false}});
    site.patch("suspended", resumed).await?;
    site.delete::<Service>("blocked").await;
    let profile = json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
        "metadata": {"name": site.name()}, "spec": {}});
    control_plane.apply_yaml(&profile.to_string()).await?;
    site.delete::<JobPolicy>("images").await;
    for name in ["suspended", "blocked", "waiting", "refused"] {
        site.reaches(name, JobPhase::Running).await;
    }

    let at_once = DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    };
    let pods = site.api::<Pod>();
    pods.delete("restarting-worker-1", &at_once).await?;
    site.runs_again("restarting", 2).await;
    // These jobs have ended.
    for (name, end) in [
        ("complete", JobPhase::Complete),
        ("failed", JobPhase::Failed),
    ] {
        site.reaches(name, end).await;
    }
    Ok(())
}
