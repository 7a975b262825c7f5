//! The API server accepts the rendered objects for all values.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use trellis_e2e::admission::dry_run::dry_run;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::helm::{Helm, chart_folder};
use trellis_e2e::operator;
use trellis_e2e::site::namespace::TestNamespace;

use crate::fixtures::{all_enabled_values, object_key};
use crate::install::external_crds;

const NAMESPACE: &str = "trellis-system";

static CLUSTER: OnceCell<ControlPlane> = OnceCell::const_new();

/// Starts a control plane with all kinds and with the namespaces that values name.
async fn shared_cluster() -> Result<&'static ControlPlane> {
    let start = async || {
        let mut options = operator::control_plane_options()?;
        options.manifests.extend(external_crds::external_crds()?);
        for namespace in [
            NAMESPACE,
            operator::PLACEHOLDER_NAMESPACE,
            "team-a",
            "team-b",
        ] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": namespace}});
            options.manifests.push(namespace.to_string());
        }
        ControlPlane::start(options).await
    };
    CLUSTER.get_or_try_init(start).await
}

async fn check_accepted(client: &Client, object: &Value) -> Result<()> {
    dry_run(client, &serde_json::from_value(object.clone())?, None).await
}

/// Returns values with one inverted boolean each. The schema fixes the booleans of the security
/// contexts.
fn toggled_values() -> Result<Vec<Value>> {
    let defaults = std::fs::read_to_string(chart_folder().join("values.yaml"))?;
    let mut defaults: Value = serde_saphyr::from_str(&defaults)?;
    for (context, fixed) in [
        ("podSecurityContext", "runAsNonRoot"),
        ("securityContext", "allowPrivilegeEscalation"),
    ] {
        let context = defaults[context].as_object_mut().context(fixed)?;
        context.remove(fixed).context(fixed)?;
    }
    let mut all = Vec::new();
    collect_toggles(&defaults, &mut Vec::new(), &mut all);
    // The page is refused without its URL.
    for values in &mut all {
        if let Some(page) = values.get_mut("dashboard") {
            page["publicUrl"] = json!("https://trellis.example.org");
        }
    }
    ensure!(all.len() > 10, "only {all:?}");
    Ok(all)
}

fn collect_toggles<'a>(value: &'a Value, at: &mut Vec<&'a str>, all: &mut Vec<Value>) {
    match value {
        Value::Bool(is) => {
            let turned = at.iter().rev();
            all.push(turned.fold(json!(!is), |inner, key| json!({*key: inner})));
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                at.push(key);
                collect_toggles(value, at, all);
                at.pop();
            }
        }
        _ => {}
    }
}

/// Returns the certificate of an authority in the format of a value.
fn authority_certificate() -> Value {
    let generated = rcgen::generate_simple_self_signed(["authority".to_owned()]).unwrap();
    json!(ByteString(generated.cert.pem().into_bytes()))
}

/// Returns values that leave user and groups to the cluster, as in docs/install.md.
fn openshift_values() -> Value {
    json!({"podSecurityContext": {"runAsUser": null, "runAsGroup": null, "fsGroup": null}})
}

/// Returns values that are no booleans.
fn other_sample_values() -> Vec<Value> {
    let digest = format!("sha256:{}", "0".repeat(64));
    let selector = json!({"namespaceSelector": {"matchLabels": {"team": "platform"}}});
    vec![
        json!({}),
        all_enabled_values(),
        json!({"image": {"digest": digest}, "imagePullSecrets": [{"name": "pull"}], "replicaCount": 1,
            "serviceAccount": {"annotations": {"iam.example.com/role": "trellis"}}}),
        json!({"certificates": {"source": "certManager", "certManager": {
            "issuerRef": {"kind": "ClusterIssuer", "name": "internal"}}}}),
        // An issuer of a different API group than cert-manager's own.
        json!({"certificates": {"source": "certManager", "certManager": {
            "issuerRef": {"group": "issuers.example.com", "kind": "ExampleIssuer", "name": "internal"}}}}),
        json!({"endpoint": {"tlsSecret": "endpoint"}, "visibility": {"caBundle": authority_certificate()}, "webhook": {"enabled": false},
            "certificates": {"source": "certManager"}, "metrics": {"serviceMonitor": {"enabled": true}}}),
        json!({"operator": {"logFormat": "human", "leaseSeconds": 30, "bindAddress": "[::]",
            "extraArgs": ["--unhealthy-taints=example.com/broken"],
            "extraEnv": [{"name": "RUST_LOG", "value": "debug"}]}}),
        json!({"networkPolicy": {"endpointFrom": [selector], "webhookFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
            "apiServersFrom": [{"ipBlock": {"cidr": "10.0.0.0/24"}}], "apiServer": [{"ipBlock": {"cidr": "192.0.2.1/32"}}], "apiServerPorts": [6443],
            "extraEgress": [{"ports": [{"port": 4317}], "to": [selector]}]}}),
        json!({"podDisruptionBudget": {"maxUnavailable": "50%"}, "priorityClassName": "system-cluster-critical",
            "nodeSelector": {"pool": "system"}, "tolerations": [{"key": "pool", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]}}},
            "topologySpreadConstraints": [{"topologyKey": "rack", "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}],
            "podAnnotations": {"a": "b"}, "podLabels": {"c": "d"}, "commonLabels": {"team": "platform"}}),
        json!({"admission": {"requesterStamp": "webhook"}}),
        // Values from a parent chart, with this chart as a subchart.
        json!({"global": {"whatever": 1}, "enabled": true}),
        openshift_values(),
    ]
}

pub(crate) async fn test_toggled_values(helm: Helm) -> Result<()> {
    let client = shared_cluster().await?.client();
    // Objects that were rendered with earlier values are not sent again.
    let mut accepted = BTreeSet::new();
    let mut wrong = Vec::new();
    for values in toggled_values()?.into_iter().chain(other_sample_values()) {
        for object in helm.render_for_cluster(NAMESPACE, &values)? {
            if !accepted.insert(object.to_string()) {
                continue;
            }
            if let Err(error) = check_accepted(&client, &object).await {
                wrong.push(format!("{values}: {}: {error:#}", object_key(&object)));
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(accepted.len() > 80, "only {} objects", accepted.len());
    Ok(())
}

pub(crate) async fn test_restricted_namespace(helm: Helm) -> Result<()> {
    let control_plane = shared_cluster().await?;
    let labels = [("pod-security.kubernetes.io/enforce", "restricted")];
    let namespace = TestNamespace::create_with_labels(control_plane, "pss", &labels).await?;
    let pods = namespace.api::<Pod>();
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    for values in [json!({}), all_enabled_values(), openshift_values()] {
        let objects = helm.render_for_cluster(namespace.name(), &values)?;
        let deployments = objects.iter().filter(|o| o["kind"] == "Deployment");
        let deployments: Vec<_> = deployments.collect();
        ensure!(!deployments.is_empty(), "no Deployment");
        for deployment in deployments {
            let mut pod = deployment["spec"]["template"].clone();
            pod["metadata"]["name"] = json!("operator");
            // The ServiceAccount of the release does not exist in this namespace.
            pod["spec"]["serviceAccountName"] = json!("default");
            pods.create(&params, &serde_json::from_value(pod.clone())?)
                .await?;
            // This namespace refuses a pod without these settings.
            pod["spec"]["containers"][0]["securityContext"] = json!({});
            let refused = pods.create(&params, &serde_json::from_value(pod)?).await;
            ensure!(refused.is_err(), "the namespace accepts every pod");
        }
    }
    Ok(())
}
