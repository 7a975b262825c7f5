//! kubectl's names for the kinds of Trellis, on an API server that also has the kinds of Volcano,
//! KAI, Kueue and Istio.

use serde_json::json;
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions};

/// Group, kind, plural and short names of another project's kind.
type PeerKind = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

/// Kinds whose names are similar to those of Trellis: of Volcano (`config/crd/volcano/bases`), KAI
/// (`deployments/kai-scheduler/crds`), Kueue v0.17 (`config/components/crd/bases`) and Istio 1.32
/// (`kubernetes/customresourcedefinitions.gen.yaml`).
const PEERS: [PeerKind; 16] = [
    ("batch.volcano.sh", "Job", "jobs", &["vcjob", "vj"]),
    (
        "scheduling.volcano.sh",
        "PodGroup",
        "podgroups",
        &["pg", "podgroup-v1beta1"],
    ),
    (
        "scheduling.volcano.sh",
        "Queue",
        "queues",
        &["q", "queue-v1beta1"],
    ),
    ("topology.volcano.sh", "HyperNode", "hypernodes", &["hn"]),
    ("scheduling.run.ai", "PodGroup", "podgroups", &["pg"]),
    ("scheduling.run.ai", "Queue", "queues", &[]),
    ("kai.scheduler", "Topology", "topologies", &[]),
    ("kueue.x-k8s.io", "ClusterQueue", "clusterqueues", &["cq"]),
    ("kueue.x-k8s.io", "Cohort", "cohorts", &[]),
    (
        "kueue.x-k8s.io",
        "LocalQueue",
        "localqueues",
        &["queue", "queues", "lq"],
    ),
    (
        "kueue.x-k8s.io",
        "ResourceFlavor",
        "resourceflavors",
        &["flavor", "flavors", "rf"],
    ),
    ("kueue.x-k8s.io", "Topology", "topologies", &[]),
    (
        "kueue.x-k8s.io",
        "Workload",
        "workloads",
        &["kwl", "kueueworkload", "kueueworkloads"],
    ),
    (
        "security.istio.io",
        "AuthorizationPolicy",
        "authorizationpolicies",
        &["ap"],
    ),
    (
        "telemetry.istio.io",
        "Telemetry",
        "telemetries",
        &["telemetry"],
    ),
    ("networking.istio.io", "ProxyConfig", "proxyconfigs", &[]),
];

/// Kinds of Trellis whose name another project also uses. Users read them by their short names.
const SHARED_KINDS: [&str; 3] = ["PodGroup", "ResourceFlavor", "Topology"];

fn peer_crd((group, kind, plural, short): &PeerKind) -> String {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let names = json!({
        "kind": kind, "plural": plural, "singular": kind.to_lowercase(), "shortNames": short,
    });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [version]},
    });
    crd.to_string()
}

#[tokio::test]
async fn kubectl_finds_trellis_kinds_next_to_peer_kinds() {
    let control_plane = ControlPlane::start(ControlPlaneOptions::default())
        .await
        .unwrap();
    // The other kinds are installed first, so that kubectl prefers them for a common name.
    for kind in &PEERS {
        control_plane.apply_yaml(&peer_crd(kind)).await.unwrap();
    }
    for crd in trellis_api::crds::all() {
        let yaml = serde_json::to_string(&crd).unwrap();
        control_plane.apply_yaml(&yaml).await.unwrap();
    }
    let wait = [
        "wait",
        "crd",
        "--all",
        "--for=condition=Established",
        "--timeout=60s",
    ];
    control_plane.kubectl_ok(&wait).await.unwrap();
    for crd in trellis_api::crds::all() {
        let names = &crd.spec.names;
        let short = names.short_names.clone().unwrap_or_default();
        assert!(!short.is_empty(), "{} has no short name", names.kind);
        let full = format!("{}.trellis.dev", names.plural);
        let own = [names.plural.clone(), names.kind.to_lowercase()];
        let own = own
            .into_iter()
            .filter(|_| !SHARED_KINDS.contains(&names.kind.as_str()));
        for name in short.into_iter().chain([full]).chain(own) {
            let explained = control_plane.kubectl_ok(&["explain", &name]).await.unwrap();
            let line = |key: &str| {
                let mut lines = explained.lines().filter_map(|line| line.split_once(':'));
                lines
                    .find(|(known, _)| *known == key)
                    .map(|(_, text)| text.trim().to_owned())
            };
            assert_eq!(
                line("GROUP").as_deref(),
                Some("trellis.dev"),
                "{name}: {explained}"
            );
            assert_eq!(
                line("KIND"),
                Some(names.kind.clone()),
                "{name}: {explained}"
            );
        }
    }
    // No short name of another project is one of ours.
    for (group, kind, _, short) in &PEERS {
        for name in *short {
            let explained = control_plane.kubectl_ok(&["explain", name]).await.unwrap();
            assert!(
                !explained.contains("trellis.dev"),
                "{name} of {kind}.{group}: {explained}"
            );
        }
    }
    let category = ["api-resources", "--categories=trellis", "-o=name"];
    let found = control_plane.kubectl_ok(&category).await.unwrap();
    let mut found: Vec<&str> = found.lines().collect();
    found.sort_unstable();
    let all = trellis_api::crds::all().into_iter();
    let mut all: Vec<String> = all.filter_map(|crd| crd.metadata.name).collect();
    all.sort_unstable();
    assert_eq!(found, all);
}
