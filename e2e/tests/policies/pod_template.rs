//! A job's pod template is applied to its pods, or refused with the path of the field.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use trellis_api::job::JobPhase;
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::site::TestSite;
use trellis_e2e::site::jobs::{message, reason};

use super::fixtures::{
    apply_policy, cluster_policy_for, create_job, delete_policy, policy_verdict, wait_until_active,
};
use super::{create_site, shared_control_plane};

/// Returns a job of one pod with 8 GPUs and this template.
fn job_with_template(site: &TestSite, template: Value) -> Value {
    let mut job = site.job("j", 1, 8);
    job["spec"]["taskGroups"][0]["podTemplate"] = template;
    job
}

async fn read_pod(site: &TestSite) -> Pod {
    site.list_pods("j").await.remove(0)
}

/// A template with an init container, a sidecar, a volume that both mount, and a variable.
fn harmless_template() -> Value {
    json!({
        "metadata": {"annotations": {"note": "a"}},
        "spec": {
            "initContainers": [
                {
                    "name": "fetch", "image": "registry.example/fetch:1",
                    "resources": {"limits": {"cpu": "3", "memory": "64Mi"}},
                    "volumeMounts": [{"name": "code", "mountPath": "/code"}],
                },
                {
                    "name": "ship-logs", "image": "registry.example/logs:1", "restartPolicy": "Always",
                    "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}},
                },
            ],
            "containers": [{
                "name": "main",
                "env": [{"name": "NCCL_DEBUG", "value": "INFO"}],
                "volumeMounts": [{"name": "code", "mountPath": "/code", "readOnly": true}],
            }],
            "volumes": [{"name": "code", "emptyDir": {"sizeLimit": "1Gi"}}],
        },
    })
}

#[tokio::test]
async fn sidecar_and_init_container_run_and_are_charged() {
    let site = create_site("sidecar", 1).await;
    create_job(&site, job_with_template(&site, harmless_template())).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let spec = read_pod(&site).await.spec.unwrap();
    let inits = spec.init_containers.unwrap();
    let names: Vec<_> = inits.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["fetch", "ship-logs"]);
    assert_eq!(inits[1].restart_policy.as_deref(), Some("Always"));
    let main = &spec.containers[0];
    assert_eq!(main.name, "main");
    let variables = main.env.as_ref().unwrap();
    assert!(
        variables
            .iter()
            .any(|v| v.name == "NCCL_DEBUG" && v.value.as_deref() == Some("INFO"))
    );
    // The main container's core and the sidecar's half core are less than the init container's
    // request.
    let own = main.resources.as_ref().unwrap().requests.as_ref().unwrap()["cpu"]
        .0
        .clone();
    let group = site.api::<PodGroup>().get("j").await.unwrap();
    let counted = &group.spec.groups[0].resources["cpu"];
    let (own, counted) = (
        trellis_api::Quantity::new(own).amount().unwrap(),
        counted.amount().unwrap(),
    );
    let cores = |cpu: &str| trellis_api::Quantity::from(cpu).amount().unwrap();
    let running = own.checked_add(cores("500m")).unwrap();
    assert_eq!(counted, running.max(cores("3")));
}

#[tokio::test]
async fn template_privilege_is_denied_until_a_policy_grants_it() {
    let control_plane = shared_control_plane().await;
    let site = create_site("locks", 1).await;
    let lock = json!({"spec": {"containers": [
        {"name": "main", "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}},
    ]}});
    create_job(&site, job_with_template(&site, lock)).await;
    let refused = site.wait_for_phase("j", JobPhase::Refused).await;
    assert_eq!(reason(&refused), "PolicyDenied");
    let status_message = message(&refused);
    let field = "spec.containers[0].securityContext.capabilities.add";
    assert!(
        status_message.contains(&format!(
            "uses the privilege \"IPC_LOCK\" ({field} of its pods)"
        )),
        "{status_message}"
    );
    assert!(
        status_message.contains("do not add the capability"),
        "{status_message}"
    );
    assert_eq!(site.list_pods("j").await.len(), 0);
    let missing = policy_verdict(&refused).missing_permits;
    assert_eq!(missing.len(), 1, "{missing:?}");
    apply_policy(
        control_plane,
        &cluster_policy_for(&site, &missing[0], json!({})),
    )
    .await;
    wait_until_active(control_plane, site.name()).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let main = read_pod(&site).await.spec.unwrap().containers.remove(0);
    let capabilities = main.security_context.unwrap().capabilities.unwrap();
    assert_eq!(capabilities.add.unwrap(), ["IPC_LOCK"]);
    assert_eq!(capabilities.drop.unwrap(), ["ALL"]);
    delete_policy(control_plane, site.name()).await;
}

/// The API server does not prune unknown fields of a template, because it does not validate
/// templates.
#[tokio::test]
async fn forbidden_template_field_is_refused_with_its_path() {
    let site = create_site("wrong", 0).await;
    for (name, template, path) in [
        ("a", json!({"spec": {"nodeName": "n"}}), "spec.nodeName"),
        (
            "b",
            json!({"spec": {"hostNetwrk": true}}),
            "spec.hostNetwrk",
        ),
        (
            "c",
            json!({"spec": {"volumes": [{"name": "v", "ephemeral": {}}]}}),
            "spec.volumes[0].ephemeral.volumeClaimTemplate",
        ),
        (
            "d",
            json!({"spec": {"initContainers": [{"name": "s", "image": "i", "restartPolicy": "Always"}]}}),
            "spec.initContainers[0].resources.limits",
        ),
    ] {
        let mut job = job_with_template(&site, template);
        job["metadata"]["name"] = json!(name);
        create_job(&site, job).await;
        let refused = site.wait_for_phase(name, JobPhase::Refused).await;
        assert_eq!(reason(&refused), "InvalidSpec");
        let path = format!("spec.taskGroups[0].podTemplate.{path}: ");
        assert!(
            message(&refused).starts_with(&path),
            "{}",
            message(&refused)
        );
    }
}

/// The template is part of the spec, so the API server itself refuses to change it. There is one
/// exception: the API server takes two objects for equal if they have the same number of fields,
/// none of which it knows and none of which both have (`unstructuredMap.Equal`). A template of
/// `metadata` alone may thus become one of `spec` alone. The operator checks such a template like
/// any other, and uses it for the next attempt.
#[tokio::test]
async fn template_is_immutable_after_placement() {
    use kube::api::{Patch, PatchParams};
    let site = create_site("fixed", 1).await;
    create_job(&site, job_with_template(&site, harmless_template())).await;
    site.wait_for_phase("j", JobPhase::Running).await;
    let api = site.api::<TrainingJob>();
    let patch = async |at: &str, value: Value| {
        let operations = json!([{"op": "add", "path": format!("/spec/taskGroups/0/podTemplate{at}"), "value": value}]);
        let operations = serde_json::from_value(operations).unwrap();
        let patch: Patch<Value> = Patch::Json(operations);
        api.patch("j", &PatchParams::default(), &patch).await
    };
    for (at, value) in [
        ("", json!({})),
        ("/spec/hostIPC", json!(true)),
        ("/spec/containers/0/env/0/value", json!("WARN")),
    ] {
        let error = patch(at, value.clone()).await.unwrap_err().to_string();
        assert!(
            error.contains("podTemplate of a task group is fixed"),
            "{at} {value}: {error}"
        );
    }
    patch("", harmless_template()).await.unwrap();
}
