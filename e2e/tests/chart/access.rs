//! Access to the operator's ports, and the authorities that its clients trust.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use trellis_e2e::helm::Helm;

use crate::fixtures::{OTHER_NAMESPACE, check_refused};

fn first_of_kind(helm: &Helm, values: &Value, kind: &str) -> Result<Value> {
    let objects = helm.render_objects(OTHER_NAMESPACE, values)?;
    let mut found = objects.into_iter().filter(|object| object["kind"] == kind);
    found.next().with_context(|| format!("no {kind}"))
}

/// The rule for the endpoint's port names the allowed sources, if values set any.
pub(crate) fn test_network_policy_sources(helm: &Helm) -> Result<()> {
    let pod_source = json!([{"podSelector": {"matchLabels": {"app": "prometheus"}}}]);
    let address_source = json!([{"ipBlock": {"cidr": "10.0.0.0/24"}}]);
    let policy = |values: &Value| first_of_kind(helm, values, "NetworkPolicy");
    let of_endpoint = |policy: Value| -> Vec<Value> {
        let rules = policy["spec"]["ingress"].as_array().cloned();
        let rules = rules.unwrap_or_default().into_iter();
        let rules = rules.filter(|rule| rule["ports"][0]["port"] == 8443);
        rules.map(|rule| rule["from"].clone()).collect()
    };
    let open = of_endpoint(policy(&json!({}))?);
    ensure!(open == [Value::Null], "{open:?}");
    let both =
        json!({"networkPolicy": {"endpointFrom": pod_source, "apiServersFrom": address_source}});
    let both = of_endpoint(policy(&both)?);
    ensure!(both == [pod_source.clone(), address_source], "{both:?}");
    let alone = json!({"networkPolicy": {"endpointFrom": pod_source}});
    check_refused(helm, &alone, "networkPolicy.apiServersFrom must be set")?;
    let direct =
        json!({"networkPolicy": {"endpointFrom": pod_source}, "visibility": {"enabled": false}});
    let direct = of_endpoint(policy(&direct)?);
    ensure!(direct == [pod_source], "{direct:?}");
    Ok(())
}

/// The CA bundle that the API server trusts for the API group.
pub(crate) fn test_ca_bundle(helm: &Helm) -> Result<()> {
    let group = |values: &Value| first_of_kind(helm, values, "APIService");
    let values_with_secret = json!({"endpoint": {"tlsSecret": "given"}});
    let bundle = group(&values_with_secret)?["spec"]["caBundle"].clone();
    ensure!(
        bundle.is_null(),
        "the bundle contains the machine's authorities: {bundle}"
    );
    let values_with_bundle =
        json!({"endpoint": {"tlsSecret": "given"}, "visibility": {"caBundle": "Y2VydA=="}});
    ensure!(group(&values_with_bundle)?["spec"]["caBundle"] == "Y2VydA==");
    let alone = json!({"visibility": {"caBundle": "Y2VydA=="}});
    check_refused(helm, &alone, "visibility.caBundle must be empty")
}

/// Prometheus verifies each certificate whose authority is known.
pub(crate) fn test_prometheus_verification(helm: &Helm) -> Result<()> {
    let endpoints = |mut values: Value| -> Result<Vec<String>> {
        values["metrics"] = json!({"serviceMonitor": {"enabled": true}});
        let monitor = first_of_kind(helm, &values, "ServiceMonitor")?;
        let endpoints = monitor["spec"]["endpoints"].as_array().cloned();
        let settings = endpoints.context("none")?.into_iter().map(|endpoint| {
            let tls = &endpoint["tlsConfig"];
            let is_checked = tls["insecureSkipVerify"].is_null() && tls["serverName"].is_string();
            let secret = tls["ca"]["secret"]["name"].as_str().unwrap_or_default();
            match is_checked {
                true => secret.to_owned(),
                false => "unchecked".to_owned(),
            }
        });
        Ok(settings.collect())
    };
    for (values, expected) in [
        (json!({}), ["trellis-endpoint", "trellis-webhook"]),
        (
            json!({"certificates": {"source": "certManager"}}),
            ["trellis-endpoint-tls", "trellis-webhook-tls"],
        ),
        (
            json!({"visibility": {"enabled": false}}),
            ["unchecked", "trellis-webhook"],
        ),
        (
            json!({"endpoint": {"tlsSecret": "given"}}),
            ["unchecked", "trellis-webhook"],
        ),
    ] {
        let settings = endpoints(values.clone())?;
        ensure!(settings == expected, "{values}: {settings:?}");
    }
    Ok(())
}
