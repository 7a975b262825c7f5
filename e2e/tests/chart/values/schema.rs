//! Unknown values of the chart.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use trellis_e2e::helm::{Helm, chart_folder};

use crate::fixtures::{OTHER_NAMESPACE, check_refused};

pub(crate) fn test_unknown_values(helm: &Helm) -> Result<()> {
    let schema = std::fs::read_to_string(chart_folder().join("values.schema.json"))?;
    let schema: Value = serde_json::from_str(&schema)?;
    let mut places = Vec::new();
    collect_sections(&schema, &mut Vec::new(), &mut places);
    ensure!(places.len() > 15, "only {places:?}");
    for place in places {
        let path = format!("/{}", place.join("/"));
        let within = json!({"unknown": true});
        let values = place
            .iter()
            .rev()
            .fold(within, |inner, key| json!({*key: inner}));
        let Err(error) = helm.render_objects(OTHER_NAMESPACE, &values) else {
            anyhow::bail!("{path}/unknown is accepted");
        };
        let error_text = format!("{error:#}");
        let at = format!("at '{}'", path.trim_end_matches('/'));
        ensure!(
            error_text.contains(&at) && error_text.contains("'unknown'"),
            "{error_text}"
        );
    }
    Ok(())
}

/// The schema refuses the old name of a value, with its path.
pub(crate) fn test_former_names(helm: &Helm) -> Result<()> {
    let old = [
        (
            json!({"replicas": 3}),
            "at '': additional properties 'replicas' not allowed",
        ),
        (
            json!({"crds": {"install": false}}),
            "at '/crds': additional properties 'install' not allowed",
        ),
        (
            json!({"runAs": 1000}),
            "at '': additional properties 'runAs' not allowed",
        ),
    ];
    for (values, error_text) in old {
        check_refused(helm, &values, error_text)?;
    }
    Ok(())
}

/// The operator needs neither root nor privileges.
pub(crate) fn test_security_contexts(helm: &Helm) -> Result<()> {
    let all = [
        (
            json!({"podSecurityContext": {"runAsUser": 0}}),
            "at '/podSecurityContext/runAsUser'",
        ),
        (
            json!({"podSecurityContext": {"runAsNonRoot": false}}),
            "at '/podSecurityContext/runAsNonRoot'",
        ),
        (
            json!({"securityContext": {"allowPrivilegeEscalation": true}}),
            "at '/securityContext/allowPrivilegeEscalation'",
        ),
        (
            json!({"securityContext": {"privileged": true}}),
            "additional properties 'privileged' not allowed",
        ),
    ];
    for (values, error_text) in all {
        check_refused(helm, &values, error_text)?;
    }
    Ok(())
}

/// Returns the paths of values with fields of this chart, without those that are a part of a
/// Kubernetes object.
fn collect_sections<'a>(schema: &'a Value, at: &mut Vec<&'a str>, places: &mut Vec<Vec<&'a str>>) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    places.push(at.clone());
    for (key, schema) in properties {
        at.push(key);
        collect_sections(schema, at, places);
        at.pop();
    }
}
