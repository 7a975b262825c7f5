//! The chart's CRDs, as the chart renders them for the chosen version of Kubernetes.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::binaries::KubernetesVersion;

/// The beginning of the rule of amounts that must not be negative.
const NOT_NEGATIVE_RULE: &str = "type(self) == int ? self >= 0 : ";
/// The syntax of an amount that is not negative.
const AMOUNT_PATTERN: &str =
    r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$";

/// Returns each CRD of the chart as YAML.
///
/// # Errors
/// If the files of the chart cannot be read.
pub fn chart_crds(version: KubernetesVersion) -> Result<Vec<String>> {
    let all = trellis_api::crds::all();
    let names = all.iter().map(|crd| &crd.spec.names.plural);
    let files = names.map(|plural| {
        let text = super::read_chart_file(&format!("crds/{plural}.yaml"))?;
        if version != KubernetesVersion::V1_33 {
            return Ok(text);
        }
        let mut crd: Value = serde_saphyr::from_str(&text).context("read a CRD")?;
        let is_job = plural == "trainingjobs";
        relax_amount_rules(&mut crd, is_job);
        Ok(crd.to_string())
    });
    files.collect()
}

/// Replaces the rules that the API server of 1.33 refuses, because it assumes that an amount is
/// megabytes long. The helper `trellis.crdFor133` of the chart does the same with the text.
fn relax_amount_rules(value: &mut Value, is_job: bool) {
    match value {
        Value::Array(values) => values
            .iter_mut()
            .for_each(|value| relax_amount_rules(value, is_job)),
        Value::Object(fields) => {
            let rules = fields.get_mut("x-kubernetes-validations");
            let mut rules = rules.and_then(Value::as_array_mut).into_iter().flatten();
            let mut is_not_negative = false;
            for rule in &mut rules {
                let text = rule["rule"].as_str().unwrap_or_default();
                if text.starts_with(NOT_NEGATIVE_RULE) {
                    is_not_negative = true;
                } else if is_job && text.contains("uantity(") {
                    rule["rule"] = json!("true");
                }
            }
            if is_not_negative {
                fields.remove("x-kubernetes-validations");
                fields.insert("minimum".to_owned(), json!(0));
                fields.insert("pattern".to_owned(), json!(AMOUNT_PATTERN));
            }
            fields
                .values_mut()
                .for_each(|value| relax_amount_rules(value, is_job));
        }
        _ => {}
    }
}
