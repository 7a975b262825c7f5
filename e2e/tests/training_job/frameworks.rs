//! The additional objects of some frameworks: a hostfile, a key, a Service.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota, Secret, Service};
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trellis_api::job::{CompiledObject, JobPhase};
use trellis_api::{TrainingJob, ValidatedJob, names};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{SOON, message, reason};
use trellis_e2e::wait::{eventually, wait_until_deleted};

use super::create_site;

/// Changes the framework of a job of two pods.
fn deepspeed_job(site: &TestSite) -> Value {
    let mut job = site.job("j", 2, 1);
    job["spec"]["framework"] = json!("DeepSpeed");
    job
}

/// Returns a job with a launcher and two workers without commands.
fn mpi_job(site: &TestSite) -> Value {
    let mut job = site.job("j", 2, 1);
    job["spec"]["framework"] = json!("MPI");
    let groups = job["spec"]["taskGroups"].as_array_mut().unwrap();
    let mut launcher = groups[0].clone();
    groups[0].as_object_mut().unwrap().remove("command");
    launcher["name"] = json!("launcher");
    launcher["role"] = json!("Launcher");
    launcher["replicas"] = json!(1);
    launcher["gpus"] = json!(0);
    groups.push(launcher);
    job
}

fn compiled_object(job: &TrainingJob, kind: &str) -> CompiledObject {
    let list = &job.status.as_ref().unwrap().compiled;
    list.iter().find(|o| o.kind == kind).unwrap().clone()
}

async fn read_hostfile(site: &TestSite) -> Result<String> {
    let map = site.api::<ConfigMap>().get("j-hosts").await?;
    let file = map.data.and_then(|mut data| data.remove("hostfile"));
    Ok(file.unwrap_or_default())
}

async fn wait_for_hostfile(site: &TestSite, hosts: &str) {
    eventually(SOON, || async {
        let now = read_hostfile(site).await?;
        ensure!(now == hosts, "{now}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn hostfile_exists_before_the_pods_and_is_repaired() {
    let site = create_site("hosts", 1).await;
    site.create(deepspeed_job(&site)).await.unwrap();
    let job = site.wait_for_phase("j", JobPhase::Running).await;
    let hosts = read_hostfile(&site).await.unwrap();
    let host = |index: u32| {
        let namespace = site.name();
        format!("j-worker-{index}.j.{namespace}.svc.cluster.local slots=1\n")
    };
    assert_eq!(hosts, host(0) + &host(1));
    let reported = compiled_object(&job, "ConfigMap");
    assert!(reported.ready && reported.name == "j-hosts", "{reported:?}");
    let map = site.api::<ConfigMap>().get("j-hosts").await.unwrap();
    for pod in site.wait_for_whole_gang("j", 2).await {
        assert!(map.creation_timestamp() <= pod.creation_timestamp());
    }

    let changed = json!({"data": {"hostfile": "somewhere else", "more": "x"}});
    site.api::<ConfigMap>()
        .patch("j-hosts", &PatchParams::default(), &Patch::Merge(&changed))
        .await
        .unwrap();
    wait_for_hostfile(&site, &hosts).await;
    let map = site.api::<ConfigMap>().get("j-hosts").await.unwrap();
    assert_eq!(map.data.unwrap().len(), 1);
    site.delete::<ConfigMap>("j-hosts").await;
    wait_for_hostfile(&site, &hosts).await;
}

#[tokio::test]
async fn foreign_config_map_blocks_the_job_until_it_is_deleted() {
    let site = create_site("foreign-hosts", 1).await;
    let foreign: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "j-hosts"}})).unwrap();
    let maps = site.api::<ConfigMap>();
    maps.create(&PostParams::default(), &foreign).await.unwrap();
    site.create(deepspeed_job(&site)).await.unwrap();
    let blocked = site.wait_for_phase("j", JobPhase::Blocked).await;
    assert_eq!(reason(&blocked), "NameConflict", "{}", message(&blocked));
    assert!(message(&blocked).contains("ConfigMap \"j-hosts\""));
    site.delete::<ConfigMap>("j-hosts").await;
    site.wait_for_phase("j", JobPhase::Running).await;
}

#[tokio::test]
async fn mpi_job_keeps_its_key_and_ends_with_its_launcher() {
    let site = create_site("mpi", 1).await;
    let written = site.create(mpi_job(&site)).await.unwrap();
    let name = names::ssh_secret_name("j", &written.uid().unwrap());
    let job = site.wait_for_phase("j", JobPhase::Running).await;
    let secrets = site.api::<Secret>();
    let secret = secrets.get(&name).await.unwrap();
    assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/ssh-auth"));
    let owner = &secret.owner_references()[0];
    assert_eq!(Some(&owner.uid), written.uid().as_ref());
    let reported = compiled_object(&job, "Secret");
    assert!(reported.ready && reported.name == name, "{reported:?}");
    for pod in site.wait_for_whole_gang("j", 3).await {
        let mounted = pod.spec.as_ref().unwrap().volumes.iter().flatten();
        let mut mounted = mounted.filter_map(|v| v.secret.as_ref()?.secret_name.as_ref());
        assert_eq!(mounted.next(), Some(&name));
    }

    // The next attempt requests the key again, and the key is unchanged.
    site.end_pod("j-worker-0", "1").await;
    site.wait_for_running_attempt("j", 2).await;
    let now = secrets.get(&name).await.unwrap();
    assert_eq!((now.uid(), &now.data), (secret.uid(), &secret.data));
    // A deleted Secret is created again for the next attempt.
    site.delete::<Secret>(&name).await;
    site.end_pod("j-worker-0", "1").await;
    site.wait_for_running_attempt("j", 3).await;
    let now = secrets.get(&name).await.unwrap();
    assert_ne!((now.uid(), &now.data), (secret.uid(), &secret.data));

    // The workers keep running, because sshd does not end by itself.
    site.end_pod("j-launcher-0", "0").await;
    site.wait_for_phase("j", JobPhase::Complete).await;
}

/// Returns a job with a head and two workers without commands.
fn ray_job(site: &TestSite) -> Value {
    let mut job = site.job("j", 2, 1);
    job["spec"]["framework"] = json!("Ray");
    let groups = job["spec"]["taskGroups"].as_array_mut().unwrap();
    let mut head = groups[0].clone();
    groups[0].as_object_mut().unwrap().remove("command");
    head["name"] = json!("head");
    head["role"] = json!("Coordinator");
    head["replicas"] = json!(1);
    head["gpus"] = json!(0);
    groups.push(head);
    job
}

#[tokio::test]
async fn ray_head_has_a_service_and_ends_the_job() {
    let site = create_site("ray", 1).await;
    let mut job = ray_job(&site);
    job["spec"]["cleanup"] = json!({"childrenTTLSeconds": 0});
    site.create(job).await.unwrap();
    let job = site.wait_for_phase("j", JobPhase::Running).await;
    let listed = &job.status.as_ref().unwrap().compiled;
    assert!(listed.iter().any(|o| o.name == "j-head" && o.ready));
    let services = site.api::<Service>();
    let head = services.get("j-head").await.unwrap();
    let selector = head.spec.as_ref().unwrap().selector.clone().unwrap();
    let selector: Vec<_> = selector.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let selected = ListParams::default().labels(&selector.join(","));
    let pods = site.api::<Pod>().list(&selected).await.unwrap();
    let names: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["j-head-0"]);

    // A deleted Service is created again.
    site.delete::<Service>("j-head").await;
    eventually(SOON, || async {
        let now = services.get("j-head").await?;
        ensure!(
            now.uid() != head.uid(),
            "the Service is still the first one"
        );
        Ok(())
    })
    .await
    .unwrap();

    // `ray start` in the workers does not end by itself.
    site.end_pod("j-head-0", "0").await;
    site.wait_for_phase("j", JobPhase::Complete).await;
    wait_until_deleted(&services, "j-head", SOON).await.unwrap();
}

/// The API server checks quotas before it checks whether an object with the name exists.
#[tokio::test]
async fn mpi_job_with_a_key_restarts_under_an_exhausted_secret_quota() {
    let site = create_site("mpi-quota", 1).await;
    site.create(mpi_job(&site)).await.unwrap();
    let job = site.wait_for_phase("j", JobPhase::Running).await;
    assert!(compiled_object(&job, "Secret").ready);
    let quota: ResourceQuota = serde_json::from_value(json!({
        "metadata": {"name": "secrets"}, "spec": {"hard": {"count/secrets": "0"}}}))
    .unwrap();
    let quotas = site.api::<ResourceQuota>();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    let secret = json!({"metadata": {"name": "another"}});
    let secret: Secret = serde_json::from_value(secret).unwrap();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    // Admission sees a new quota later.
    eventually(SOON, || async {
        let answer = site.api::<Secret>().create(&dry_run, &secret).await;
        let refused = answer.err().context("the quota is not in force")?;
        ensure!(refused.to_string().contains("exceeded quota"), "{refused}");
        Ok(())
    })
    .await
    .unwrap();

    site.end_pod("j-worker-0", "1").await;
    site.wait_for_running_attempt("j", 2).await;
    let job = site.wait_for_phase("j", JobPhase::Running).await;
    assert!(compiled_object(&job, "Secret").ready);
}

/// A framework restricts roles, replicas and variables.
#[tokio::test]
async fn api_server_refuses_settings_that_the_framework_does_not_support() {
    let site = create_site("framework", 0).await;
    let job_with = |framework: &str, groups: &[(&str, u32)], env: &str| {
        let mut job = site.job("bad", 1, 1);
        let group = job["spec"]["taskGroups"][0].clone();
        let groups = groups.iter().enumerate().map(|(at, (role, replicas))| {
            let mut group = group.clone();
            group["name"] = json!(format!("g{at}"));
            group["role"] = json!(role);
            group["replicas"] = json!(replicas);
            group["env"] = json!([{"name": env, "value": "x"}]);
            group
        });
        job["spec"]["taskGroups"] = groups.collect();
        job["spec"]["framework"] = json!(framework);
        job
    };
    let worker = ("Worker", 2);
    for (framework, groups, env, words) in [
        (
            "PyTorch",
            vec![("Coordinator", 1), ("Coordinator", 1)],
            "A",
            "at most one task group may have the role Coordinator or Launcher",
        ),
        (
            "None",
            vec![("Evaluator", 1)],
            "A",
            "servers and evaluators work for a group that trains",
        ),
        (
            "PyTorch",
            vec![worker, ("Launcher", 1)],
            "A",
            "role Launcher is for framework MPI",
        ),
        (
            "JAX",
            vec![worker, ("Server", 1)],
            "A",
            "role Server for framework TensorFlow",
        ),
        (
            "MPI",
            vec![worker],
            "A",
            "needs one task group of role Launcher",
        ),
        (
            "MPI",
            vec![worker, ("Launcher", 2)],
            "A",
            "needs one task group of role Launcher, of one replica",
        ),
        (
            "TensorFlow",
            vec![worker, ("Evaluator", 2)],
            "A",
            "TensorFlow has one chief and one evaluator at most",
        ),
        (
            "TensorFlow",
            vec![worker, ("Coordinator", 2)],
            "A",
            "TensorFlow has one chief and one evaluator at most",
        ),
        (
            "TensorFlow",
            vec![("Worker", 500), ("Server", 13)],
            "A",
            "must be at most 512",
        ),
        (
            "DeepSpeed",
            vec![("Worker", 4096), worker],
            "A",
            "must be at most 4096",
        ),
        (
            "Ray",
            vec![worker],
            "A",
            "framework Ray needs one task group of role Coordinator",
        ),
        (
            "Ray",
            vec![worker, ("Coordinator", 2)],
            "A",
            "framework Ray needs one task group of role Coordinator, of one replica",
        ),
        (
            "Ray",
            vec![worker, ("Coordinator", 1)],
            "RAY_ADDRESS",
            "what Trellis sets for Ray",
        ),
        (
            "DeepSpeed",
            vec![worker],
            "MASTER_PORT",
            "what Trellis sets for PyTorch and DeepSpeed",
        ),
        (
            "JAX",
            vec![worker],
            "JAX_PROCESS_ID",
            "what Trellis sets for JAX",
        ),
        (
            "TensorFlow",
            vec![worker],
            "TF_CONFIG",
            "what Trellis sets for TensorFlow",
        ),
        (
            "MPI",
            vec![worker, ("Launcher", 1)],
            "I_MPI_HYDRA_HOST_FILE",
            "what Trellis sets for MPI",
        ),
    ] {
        let job = job_with(framework, &groups, env);
        let error = site.create(job.clone()).await.expect_err(words).to_string();
        assert!(error.contains(words), "{words}: {error}");
        let object: TrainingJob = serde_json::from_value(job).unwrap();
        let library_error = ValidatedJob::try_from(object).expect_err(words).to_string();
        assert!(library_error.contains(words), "{words}: {library_error}");
    }
    for (framework, groups, env) in [
        (
            "JAX",
            vec![("Evaluator", 3), ("Coordinator", 2), worker],
            "TF_CONFIG",
        ),
        ("MPI", vec![worker, ("Launcher", 1)], "OMPI_MCA_btl"),
        ("Ray", vec![worker, ("Coordinator", 1)], "RAY_START_ARGS"),
        (
            "TensorFlow",
            vec![("Server", 2), worker, ("Coordinator", 1), ("Evaluator", 1)],
            "RANK",
        ),
    ] {
        let mut job = job_with(framework, &groups, env);
        job["metadata"]["name"] = json!(framework.to_lowercase());
        site.create(job.clone()).await.unwrap();
        let object: TrainingJob = serde_json::from_value(job).unwrap();
        ValidatedJob::try_from(object).unwrap();
    }
}
