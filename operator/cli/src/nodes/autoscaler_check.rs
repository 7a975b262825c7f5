//! `trellis nodes --check`: shows whether the settings of autoscalers suit gangs. The operator
//! checks them, and writes the results to the flavors.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde::Serialize;
use trellis_api::ResourceFlavor;
use trellis_api::resource_flavor::ProvisioningMethod;
use trellis_reads::{ErrorHints, list};

use crate::cluster::ClusterClient;
use crate::exit::Exit;
use crate::output::{self, Cell, OutputFormat, Table, Tone, wrap_text};

/// Columns before each problem.
const INDENT: usize = 2;
/// Width of the output without a terminal, in columns.
const DEFAULT_WIDTH: usize = 100;

/// A flavor that gets new nodes. The fields of json and yaml.
#[derive(Serialize, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct CheckedFlavor {
    flavor: String,
    by: ProvisioningMethod,
    max_nodes: i64,
    /// None: the settings are not visible, or not checked yet.
    suitable: Option<bool>,
    /// The settings to change, or why `suitable` is absent.
    messages: Vec<String>,
}

/// Shows the flavors that get new nodes.
pub(super) fn run(cluster: &ClusterClient, format: Option<OutputFormat>) -> anyhow::Result<Exit> {
    let api: Api<ResourceFlavor> = Api::all(cluster.client().clone());
    let flavors = cluster.block_on(list(&api, &ListParams::default()));
    let flavors = flavors.map_err(|error| error.explain(&hints()))?;
    let flavors: Vec<_> = flavors.iter().flatten().filter_map(check).collect();
    let text = match output::serialize_object(format, &flavors)? {
        Some(text) => text,
        None => render(&flavors, output::width()),
    };
    output::print(&text)?;
    Ok(exit(&flavors))
}

fn hints() -> ErrorHints {
    ErrorHints {
        rights: "the chart grants every authenticated user list on resourceflavors.trellis.dev"
            .to_owned(),
        without_cluster: None,
    }
}

/// Returns the result for a flavor. None: the flavor has no `provisioning`.
fn check(flavor: &ResourceFlavor) -> Option<CheckedFlavor> {
    let provisioning = flavor.spec.provisioning.as_ref()?;
    let is_current =
        |condition: &&Condition| condition.observed_generation == flavor.metadata.generation;
    let suitable = flavor.is_autoscaler_suitable();
    let messages = match flavor.autoscaler_condition() {
        Some(condition) if is_current(&condition) => {
            condition.message.lines().map(str::to_owned).collect()
        }
        Some(_) => vec!["the operator has not checked the change yet".to_owned()],
        None => {
            let cause = "the operator has not checked the flavor yet; if this lasts, install the \
                         chart with provisioning.enabled: true";
            vec![cause.to_owned()]
        }
    };
    Some(CheckedFlavor {
        flavor: flavor.name_any(),
        by: provisioning.by,
        max_nodes: provisioning.max_nodes,
        suitable,
        messages,
    })
}

/// Returns the exit status: 1 if an autoscaler is misconfigured, otherwise 2 if one is unknown.
fn exit(flavors: &[CheckedFlavor]) -> Exit {
    let has = |suitable| flavors.iter().any(|flavor| flavor.suitable == suitable);
    match (has(Some(false)), has(None)) {
        (true, _) => Exit::Negative,
        (_, true) => Exit::Invalid,
        _ => Exit::Done,
    }
}

fn render(flavors: &[CheckedFlavor], width: Option<usize>) -> String {
    if flavors.is_empty() {
        return "no flavor has provisioning: no nodes are ordered\n".to_owned();
    }
    let mut table = Table::new(["FLAVOR", "BY", "MAX NODES", "AUTOSCALER"]);
    for flavor in flavors {
        let by = match flavor.by {
            ProvisioningMethod::Placeholders => "Placeholders",
            ProvisioningMethod::ProvisioningRequest => "ProvisioningRequest",
        };
        let (word, tone) = match flavor.suitable {
            Some(true) => ("Suitable", Tone::Good),
            Some(false) => ("Misconfigured", Tone::Bad),
            None => ("Unknown", Tone::Plain),
        };
        table.push_row([
            flavor.flavor.as_str().into(),
            by.into(),
            flavor.max_nodes.to_string().into(),
            Cell::new(word, tone),
        ]);
    }
    let mut text = table.render(0, width);
    for flavor in flavors.iter().filter(|flavor| !flavor.messages.is_empty()) {
        text.push_str(&format!("\n{}:\n", flavor.flavor));
        for message in &flavor.messages {
            let width = width.unwrap_or(DEFAULT_WIDTH);
            text.push_str(&wrap_text(message, INDENT, width, Tone::Plain));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn flavor(name: &str, status: &Value) -> ResourceFlavor {
        serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "ResourceFlavor",
            "metadata": {"name": name, "generation": 2},
            "spec": {"provisioning": {
                "by": "Placeholders", "maxNodes": 64, "node": {"allocatable": {"nvidia.com/gpu": "8"}},
            }},
            "status": status,
        }))
        .unwrap()
    }

    fn condition(status: &str, generation: i64, message: &str) -> Value {
        json!({"conditions": [{
            "type": "AutoscalerSuitable", "status": status, "observedGeneration": generation,
            "reason": "R", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]})
    }

    fn checked(flavors: &[ResourceFlavor]) -> Vec<CheckedFlavor> {
        flavors.iter().filter_map(check).collect()
    }

    #[test]
    fn flavors_have_a_row_and_their_messages() {
        let mut without_new_nodes = flavor("a-existing", &json!({}));
        without_new_nodes.spec.provisioning = None;
        let flavors = checked(&[
            without_new_nodes,
            flavor(
                "h100",
                &condition("False", 2, "the first problem\nthe second problem"),
            ),
            flavor("h200", &condition("True", 2, "")),
            flavor(
                "managed",
                &condition("Unknown", 2, "the flags are not visible"),
            ),
            flavor("changed", &condition("True", 1, "")),
            flavor("new", &json!({})),
        ]);
        let text = render(&flavors, Some(80));
        insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string());
    }

    #[test]
    fn exit_status_tells_the_worst_result() {
        let good = flavor("good", &condition("True", 2, ""));
        let bad = flavor("bad", &condition("False", 2, "a"));
        let unknown = flavor("unknown", &condition("Unknown", 2, "b"));
        for (flavors, expected) in [
            (vec![], Exit::Done),
            (vec![good.clone()], Exit::Done),
            (vec![good.clone(), unknown.clone()], Exit::Invalid),
            (vec![good, unknown, bad], Exit::Negative),
        ] {
            assert_eq!(exit(&checked(&flavors)), expected);
        }
    }

    #[test]
    fn check_reports_that_no_flavor_has_provisioning() {
        let text = render(&[], None);
        assert_eq!(text, "no flavor has provisioning: no nodes are ordered\n");
    }
}
