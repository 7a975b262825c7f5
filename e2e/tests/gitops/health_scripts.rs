//! docs/gitops/health, evaluated by Argo CD's own Lua, which lacks some standard libraries.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Map, Value, json};
use trellis_api::job::JobPhase;
use trellis_e2e::argocd::{Judgement, judge_health};

use crate::fixtures::{docs_path, with_annotation};
use crate::kstatus::{
    self, GANG_PHASES, READY_KINDS, job_in_phase, object_with_conditions, with_unobserved_change,
};

/// Returns the scripts by kind.
fn script_paths() -> Result<Vec<(String, PathBuf)>> {
    let mut scripts = Vec::new();
    for entry in docs_path("health").read_dir()? {
        let path = entry?.path();
        let kind = path.file_stem().and_then(|stem| stem.to_str());
        scripts.push((
            kind.context("a file without a name")?.to_owned(),
            path.clone(),
        ));
    }
    scripts.sort();
    ensure!(!scripts.is_empty(), "no scripts");
    Ok(scripts)
}

/// Asserts status and the beginning of the message of each object.
fn check_health(cases: &[(Value, &str, &str)]) -> Result<()> {
    let scripts = script_paths()?;
    let entry = |(kind, path): &'_ (String, PathBuf)| (format!("trellis.dev/{kind}"), path.clone());
    let scripts: Vec<_> = scripts.iter().map(entry).collect();
    let scripts: Vec<_> = scripts
        .iter()
        .map(|(k, p)| (k.clone(), p.as_path()))
        .collect();
    let objects: Vec<Value> = cases.iter().map(|(object, ..)| object.clone()).collect();
    for ((object, status, message), judged) in cases.iter().zip(judge_health(&scripts, &objects)?) {
        let Judgement {
            status: is,
            message: says,
        } = judged.with_context(|| format!("nothing judges {object}"))?;
        ensure!(
            is == *status && says.starts_with(message),
            "{object}: {is}, {says:?}"
        );
    }
    Ok(())
}

/// The expected health of each phase. The match has no wildcard, so a new phase must be added here.
fn expected_health(phase: JobPhase) -> &'static str {
    match phase {
        JobPhase::Refused | JobPhase::Blocked | JobPhase::Failed => "Degraded",
        JobPhase::Waiting | JobPhase::Queued | JobPhase::Starting | JobPhase::Restarting => {
            "Progressing"
        }
        JobPhase::Running | JobPhase::Complete => "Healthy",
        JobPhase::Suspended => "Suspended",
        JobPhase::Unrecognized => "Progressing",
    }
}

pub(crate) fn test_job_phases() -> Result<()> {
    let mut cases = Vec::new();
    for phase in JobPhase::ALL {
        let (job, health) = (job_in_phase(*phase), expected_health(*phase));
        cases.push((job.clone(), health, "Queued: with numbers"));
        // A sync waits for the end of a hook, also while the hook is suspended.
        let of_hook = if *phase == JobPhase::Running {
            "Progressing"
        } else {
            health
        };
        for key in ["argocd.argoproj.io/hook", "helm.sh/hook"] {
            cases.push((
                with_annotation(job.clone(), key, "PreSync"),
                of_hook,
                "Queued: with numbers",
            ));
        }
        let of_changed = if phase.is_terminal() {
            health
        } else {
            "Progressing"
        };
        cases.push((with_unobserved_change(job), of_changed, ""));
    }
    let mut new = job_in_phase(JobPhase::Queued);
    new["status"].take();
    let unprocessed = "nothing is said of it yet";
    cases.push((new.clone(), "Progressing", unprocessed));
    new["status"] = json!({});
    cases.push((new, "Progressing", unprocessed));
    // A condition reports a job that can no longer be decoded.
    let mut unread = with_unobserved_change(job_in_phase(JobPhase::Running));
    let refused = json!({"type": "Accepted", "status": "False", "reason": "InvalidSpec",
        "message": "the object does not decode", "observedGeneration": 3});
    unread["status"]["conditions"][0] = refused;
    cases.push((
        unread,
        "Degraded",
        "InvalidSpec: the object does not decode",
    ));
    check_health(&cases)
}

pub(crate) fn test_externally_managed_job() -> Result<()> {
    let manager = |mut job: Value| {
        job["spec"]["managedBy"] = json!("kueue.x-k8s.io/multikueue");
        job
    };
    let mut silent = manager(job_in_phase(JobPhase::Queued));
    silent["status"].take();
    check_health(&[
        (
            silent,
            "Progressing",
            "nothing is said of it yet by kueue.x-k8s.io/multikueue",
        ),
        (
            with_unobserved_change(manager(job_in_phase(JobPhase::Running))),
            "Healthy",
            "",
        ),
        (
            with_unobserved_change(manager(job_in_phase(JobPhase::Blocked))),
            "Degraded",
            "",
        ),
    ])
}

pub(crate) fn test_other_kinds() -> Result<()> {
    let mut cases = Vec::new();
    let silent = |kind: &str| {
        let mut silent = object_with_conditions(kind, &[]);
        silent["status"].take();
        silent
    };
    for kind in READY_KINDS {
        cases.push((kstatus::object_with_ready(kind, true), "Healthy", "why"));
        cases.push((
            kstatus::object_with_ready(kind, false),
            "Degraded",
            "InvalidSpec: why",
        ));
        cases.push((
            with_unobserved_change(kstatus::object_with_ready(kind, true)),
            "Progressing",
            "",
        ));
        cases.push((
            with_unobserved_change(kstatus::object_with_ready(kind, false)),
            "Progressing",
            "",
        ));
        cases.push((silent(kind), "Progressing", ""));
    }
    let mismatch = [("Ready", true), ("Stalled", false), ("Degraded", true)];
    let mismatch = mismatch.map(|(name, holds)| (name, holds, "LedgerMismatch"));
    cases.push((
        object_with_conditions("QuotaPolicy", &mismatch),
        "Degraded",
        "LedgerMismatch: why",
    ));
    let no_flavor = [("Ready", true), ("Stalled", false), ("Degraded", true)];
    let no_flavor = no_flavor.map(|(name, holds)| (name, holds, "FlavorNotFound"));
    cases.push((
        object_with_conditions("QuotaPolicy", &no_flavor),
        "Healthy",
        "why",
    ));
    for (active, reason, health) in [
        (true, "Accepted", "Healthy"),
        (true, "FlavorNotFound", "Healthy"),
        (false, "QueueStopped", "Healthy"),
        (false, "QueueMisconfigured", "Degraded"),
        (false, "FlavorNotFound", "Degraded"),
        (false, "InvalidSpec", "Degraded"),
    ] {
        cases.push((kstatus::queue_with_active(active, reason), health, ""));
    }
    cases.push((
        with_unobserved_change(kstatus::queue_with_active(true, "Accepted")),
        "Progressing",
        "",
    ));
    cases.push((silent("TrainingQueue"), "Progressing", ""));
    // A flavor is in effect without a status, and whatever its autoscaler's settings are.
    let flavor = |suitable| {
        let condition = [("AutoscalerSuitable", suitable, "AutoscalerMisconfigured")];
        object_with_conditions("ResourceFlavor", &condition)
    };
    cases.push((silent("ResourceFlavor"), "Healthy", ""));
    cases.push((flavor(true), "Healthy", ""));
    cases.push((flavor(false), "Healthy", "AutoscalerMisconfigured: why"));
    let mut group = kstatus::pod_group_in_phase("Pending");
    group["status"].take();
    cases.push((group, "Progressing", "Pending"));
    for (phase, health) in GANG_PHASES {
        cases.push((kstatus::pod_group_in_phase(phase), health, phase));
    }
    check_health(&cases)
}

/// docs/gitops/argocd-cm.yaml contains the scripts. `TRELLIS_WRITE=1` writes the file.
pub(crate) fn test_generated_configuration() -> Result<()> {
    let mut text = String::from(
        "# Health of Trellis' kinds in Argo CD: docs/gitops.md. Made of docs/gitops/health.\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: argocd-cm\n  namespace: argocd\n  \
         labels: {app.kubernetes.io/part-of: argocd}\ndata:\n",
    );
    let mut data = Map::new();
    for (kind, path) in script_paths()? {
        let script = fs::read_to_string(&path)?;
        let key = format!("resource.customizations.health.trellis.dev_{kind}");
        text.push_str(&format!("  {key}: |\n"));
        for line in script.lines() {
            let line = format!("    {line}");
            text.push_str(&format!("{}\n", line.trim_end()));
        }
        data.insert(key, json!(script));
    }
    let file = docs_path("argocd-cm.yaml");
    if std::env::var_os("TRELLIS_WRITE").is_some() {
        fs::write(&file, &text)?;
    }
    let written = fs::read_to_string(&file)?;
    ensure!(
        written == text,
        "docs/gitops/argocd-cm.yaml differs from its scripts: run this test with TRELLIS_WRITE=1"
    );
    let read: Value = serde_saphyr::from_str(&written)?;
    ensure!(
        read["data"] == Value::Object(data),
        "the parsed file differs from the written one"
    );
    // Each kind with a status has a script.
    for crd in trellis_api::crds::all() {
        let version = serde_json::to_value(&crd.spec.versions[0])?;
        let status = version.pointer("/schema/openAPIV3Schema/properties/status");
        let kind = &crd.spec.names.kind;
        let script = docs_path("health").join(format!("{kind}.lua"));
        ensure!(
            script.is_file() == status.is_some(),
            "{kind}: {}",
            script.is_file()
        );
    }
    Ok(())
}
