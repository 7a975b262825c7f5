//! Admission changes pods. The operator places the gang by the pods that the API server would
//! store.

use kube::ResourceExt as _;
use serde_json::json;
use trellis_api::Reason;
use trellis_api::job::JobPhase;
use trellis_e2e::admission::PodPolicy;
use trellis_e2e::binaries::KubernetesVersion;
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::site::jobs::message;

use crate::{create_site, shared_control_plane};

#[tokio::test]
async fn gang_follows_constraints_added_by_admission() {
    let site = create_site("mutated", 3).await;
    let pool = "[JSONPatch{op: \"add\", path: \"/spec/nodeSelector/pool\", value: \"b\"}]";
    PodPolicy::patch(shared_control_plane().await, site.name(), pool)
        .await
        .unwrap();
    // Names decide between equal nodes, so the last node would not be chosen by chance.
    let last = site.nodes().names()[2].clone();

    // No node fits, and the job reports it before any object is created.
    site.submit("j", 1, 8).await;
    let pending = site
        .wait_for_status("j", |s| s.reason == Some(Reason::NoMatchingNodes))
        .await;
    assert_eq!(pending.status.unwrap().phase, Some(JobPhase::Queued));
    assert_eq!(site.list_pods("j").await.len(), 0);

    site.nodes().label(&last, "pool", Some("b")).await.unwrap();
    site.wait_for_phase("j", JobPhase::Running).await;
    let pods = site.wait_for_whole_gang("j", 1).await;
    let spec = pods[0].spec.as_ref().unwrap();
    assert_eq!(
        spec.node_name.as_ref(),
        Some(&last),
        "{}",
        pods[0].name_any()
    );
    let selector = spec.node_selector.as_ref().unwrap();
    assert_eq!(selector.get("pool").map(String::as_str), Some("b"));
}

#[tokio::test]
async fn gang_waits_when_admission_adds_an_unsupported_constraint() {
    let site = create_site("spread", 1).await;
    // The API server of 1.33 panics at a typed object in a patch.
    let spread = "[JSONPatch{op: \"add\", path: \"/spec/topologySpreadConstraints\", value: [\
        {\"maxSkew\": dyn(1), \"topologyKey\": dyn(\"zone\"), \
        \"whenUnsatisfiable\": dyn(\"DoNotSchedule\")}]}]";
    PodPolicy::patch(shared_control_plane().await, site.name(), spread)
        .await
        .unwrap();
    site.submit("j", 1, 8).await;
    let pending = site
        .wait_for_status("j", |s| s.reason == Some(Reason::ConstraintNotSupported))
        .await;
    assert!(message(&pending).contains("a topology spread constraint"));
    assert_eq!(pending.status.unwrap().phase, Some(JobPhase::Queued));
}

/// An admission policy may change a pod so that its planned node never fits. The operator stops its
/// retries.
#[tokio::test]
async fn gang_is_delayed_when_admission_alternates_its_flavor() {
    let control_plane = shared_control_plane().await;
    let site = create_site("to-and-fro", 0).await;
    let mut pools = Vec::new();
    for pool in ["own", "spot"] {
        let nodes = NodeTemplate::new(1)
            .gpus(8)
            .name(&format!("{}-{pool}-{{i}}", site.name()))
            .scope(site.name())
            .label("pool", pool);
        pools.push(nodes.create(control_plane).await.unwrap());
    }
    let flavor = |pool: &str| format!("{}-{pool}", site.name());
    let offer = |pool: &str| {
        json!({"name": flavor(pool), "resources": [
            {"name": "cpu", "nominalQuota": 100},
            {"name": "memory", "nominalQuota": "100Gi"},
            {"name": "nvidia.com/gpu", "nominalQuota": 8},
        ]})
    };
    let of_trellis = |kind: &str, name: &str, spec: serde_json::Value| {
        json!({"apiVersion": "trellis.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "spec": spec})
    };
    let brought = json!([{"key": "spot", "operator": "Exists"}]);
    let queue = format!("{}-q", site.name());
    for object in [
        of_trellis(
            "ResourceFlavor",
            &flavor("own"),
            json!({"nodeLabels": {"pool": "own"}}),
        ),
        of_trellis(
            "ResourceFlavor",
            &flavor("spot"),
            json!({"nodeLabels": {"pool": "spot"}, "tolerations": brought}),
        ),
        of_trellis(
            "TrainingQueue",
            &queue,
            json!({"namespaceSelector": {}, "resourceGroups": [{
                "coveredResources": ["cpu", "memory", "nvidia.com/gpu"],
                "flavors": [offer("own"), offer("spot")],
            }]}),
        ),
    ] {
        control_plane.apply_yaml(&object.to_string()).await.unwrap();
    }
    // The policy contradicts every plan: it sends pods that tolerate spot to other nodes, and all
    // other pods to spot nodes.
    let toleration_for = |pool: &str| {
        format!("[JSONPatch{{op: \"add\", path: \"/spec/nodeSelector/pool\", value: \"{pool}\"}}]")
    };
    let tolerates = "has(object.spec.tolerations) && object.spec.tolerations.exists(t, has(t.key) && t.key == \"spot\")";
    let expression = format!(
        "{tolerates} ? {} : {}",
        toleration_for("own"),
        toleration_for("spot")
    );
    PodPolicy::patch(control_plane, site.name(), &expression)
        .await
        .unwrap();
    let mut job = site.job("j", 1, 1);
    job["spec"]["queueName"] = json!(queue);
    site.create(job).await.unwrap();
    let pending = site
        .wait_for_status("j", |s| s.reason == Some(Reason::PodRefused))
        .await;
    assert!(
        message(&pending).contains("admission changes what the pods ask for"),
        "{}",
        message(&pending)
    );
    assert_eq!(site.list_pods("j").await.len(), 0);
}

/// Before 1.35, the API server drops the source of an image volume, and the pod would have an empty
/// directory in its place.
#[tokio::test]
async fn job_waits_if_the_api_server_drops_a_field_of_its_pods() {
    let site = create_site("dropped", 1).await;
    let permit = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "ClusterJobPolicy",
        "metadata": {"name": site.name()},
        "spec": {
            "cedar": "permit(principal, action, resource == Trellis::Privilege::\"volume image\");",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": site.name()}},
        },
    });
    let control_plane = shared_control_plane().await;
    control_plane.apply_yaml(&permit.to_string()).await.unwrap();
    let mut job = site.job("j", 1, 8);
    let volume = json!({"name": "data", "image": {"reference": "registry.example/data:1"}});
    job["spec"]["taskGroups"][0]["podTemplate"] = json!({"spec": {"volumes": [volume]}});
    site.create(job).await.unwrap();
    if KubernetesVersion::chosen().unwrap() >= KubernetesVersion::V1_35 {
        site.wait_for_phase("j", JobPhase::Running).await;
        return;
    }
    let pending = site
        .wait_for_status("j", |s| s.reason == Some(Reason::PodRefused))
        .await;
    let expected = "the API server drops spec.volumes[name=data].image of the pods";
    assert!(
        message(&pending).contains(expected),
        "{}",
        message(&pending)
    );
    assert_eq!(site.list_pods("j").await.len(), 0);
}
