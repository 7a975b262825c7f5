//! An upgrade with gangs in every phase moves none of them.

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
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions};
use trellis_e2e::folder;
use trellis_e2e::helm::{Helm, RELEASE_NAME, chart_folder};
use trellis_e2e::kubelet;
use trellis_e2e::operator::{self, NAMESPACE};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{phase, pod_uids, reason};

use crate::install;

/// One job per phase, by the name of the phase.
const JOBS_BY_PHASE: [(&str, JobPhase); 10] = [
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
struct JobSnapshot {
    phase: Option<JobPhase>,
    reason: &'static str,
    attempt: Option<i64>,
    restarts: Option<i64>,
    pods: BTreeSet<String>,
}

/// The current chart with an older version number, because there was no earlier release.
fn write_older_chart(target: &Path) -> Result<()> {
    folder::copy_folder(&chart_folder(), target)?;
    let path = target.join("Chart.yaml");
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

pub(crate) async fn test_upgrade_in_every_phase(helm: Helm) -> Result<()> {
    let control_plane = ControlPlane::start(ControlPlaneOptions::default()).await?;
    let helm = helm.with_control_plane(&control_plane);
    let older = tempfile::tempdir()?;
    write_older_chart(older.path())?;
    let path = older.path().display().to_string();
    let namespace = ["--namespace", NAMESPACE, "--create-namespace"];
    helm.run_ok(&[&["install", RELEASE_NAME, &path][..], &namespace].concat())?;
    let mut leader = install::start_operator(&control_plane, "older").await?;
    operator::wait_until_jobs_accepted(&control_plane).await?;
    let site = TestSite::new(&control_plane, "upgrade", NodeTemplate::new(3).gpus(8)).await;
    submit_jobs(&control_plane, &site).await?;
    external_pods::submit_gangs(&site).await?;
    let stood = (
        job_snapshots(&site).await?,
        external_pods::pod_placements(&site).await?,
    );
    let before = leader.read_log()?;
    ensure!(before.lines().all(is_json), "{before}");

    let values = json!({"operator": {"logFormat": "human"}});
    let output = helm.run_chart_command("upgrade", NAMESPACE, &values, &[])?;
    ensure!(output.contains("REVISION: 2"), "{output}");
    leader.kill()?;
    drop(leader);
    operator::release_lease(&control_plane).await?;
    let mut leader = install::start_operator(&control_plane, "newer").await?;
    // When the operator has queued a later job, it has reconciled all earlier ones.
    site.submit("later", 2, 8).await;
    site.wait_for_phase("later", JobPhase::Queued).await;
    let stands = (
        job_snapshots(&site).await?,
        external_pods::pod_placements(&site).await?,
    );
    ensure!(stands == stood, "{stands:#?}\nwas\n{stood:#?}");
    // The log also contains the output of the previous operator.
    let log = leader.read_log()?;
    let last = log.lines().last().unwrap_or_default();
    ensure!(!last.is_empty() && !is_json(last), "{last}");

    check_jobs_continue(&control_plane, &site).await?;
    external_pods::complete_waiting_gang(&site).await?;
    leader.assert_runs();
    Ok(())
}

fn is_json(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|entry| entry.is_object())
}

async fn job_snapshots(site: &TestSite) -> Result<Vec<JobSnapshot>> {
    let mut all = Vec::new();
    for (name, expected) in JOBS_BY_PHASE {
        let job = site.wait_for_phase(name, expected).await;
        let status = job.status.as_ref();
        all.push(JobSnapshot {
            phase: phase(&job),
            reason: reason(&job),
            attempt: status.and_then(|status| status.attempt),
            restarts: status.and_then(|status| status.restarts),
            pods: pod_uids(&site.list_pods(name).await),
        });
    }
    Ok(all)
}

/// Creates a job in each phase. They use all 24 GPUs.
async fn submit_jobs(control_plane: &ControlPlane, site: &TestSite) -> Result<()> {
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
        site.wait_for_phase(name, JobPhase::Running).await;
    }
    for index in 0..2 {
        site.end_pod(&format!("complete-worker-{index}"), "0").await;
    }
    site.end_pod("failed-worker-0", "1").await;

    for name in ["running", "restarting"] {
        site.submit(name, 2, 4).await;
        site.wait_for_phase(name, JobPhase::Running).await;
    }
    let hangs = [(kubelet::HANG, "true")];
    let policy = PodPolicy::annotate_for_kubelets(control_plane, site.name(), &hangs).await?;
    site.submit("starting", 2, 4).await;
    site.wait_for_pod_count("starting", 2).await;
    policy.delete().await?;
    site.annotate_pod("restarting-worker-1", kubelet::STUCK_TERMINATING, "true")
        .await;
    site.end_pod("restarting-worker-0", "1").await;
    site.submit("queued", 1, 8).await;
    Ok(())
}

/// Each job continues in its place.
async fn check_jobs_continue(control_plane: &ControlPlane, site: &TestSite) -> Result<()> {
    for index in 0..2 {
        site.end_pod(&format!("running-worker-{index}"), "0").await;
        let hung = format!("starting-worker-{index}");
        site.annotate_pod(&hung, kubelet::HANG, "false").await;
    }
    site.wait_for_phase("running", JobPhase::Complete).await;
    site.wait_for_phase("queued", JobPhase::Running).await;
    site.wait_for_phase("starting", JobPhase::Running).await;

    let resumed = json!({"spec": {"suspend": false}});
    site.patch("suspended", resumed).await?;
    site.delete::<Service>("blocked").await;
    let profile = json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
        "metadata": {"name": site.name()}, "spec": {}});
    control_plane.apply_yaml(&profile.to_string()).await?;
    site.delete::<JobPolicy>("images").await;
    for name in ["suspended", "blocked", "waiting", "refused"] {
        site.wait_for_phase(name, JobPhase::Running).await;
    }

    let no_grace = DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    };
    let pods = site.api::<Pod>();
    pods.delete("restarting-worker-1", &no_grace).await?;
    site.wait_for_running_attempt("restarting", 2).await;
    // These jobs have ended.
    for (name, end) in [
        ("complete", JobPhase::Complete),
        ("failed", JobPhase::Failed),
    ] {
        site.wait_for_phase(name, end).await;
    }
    Ok(())
}
