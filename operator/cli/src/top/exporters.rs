//! Finds the pods of the DCGM exporters.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use trellis_reads::{ApiFailure, ErrorHints, list};

use crate::target::TargetNamespace;

/// Labels of the exporter's own chart, and of the GPU operator.
const SELECTORS: [&str; 2] = [
    "app.kubernetes.io/name=dcgm-exporter",
    "app=nvidia-dcgm-exporter",
];
/// Message that explains why GPUs of simulated nodes are not measured.
pub(super) const SIMULATED: &str =
    "the nodes of these jobs are simulated, and simulated GPUs have no utilization";

/// Result of the search for exporters.
#[derive(Debug)]
pub enum ExporterSearch {
    /// The pods of the exporters.
    Exporters(Vec<Pod>),
    /// The search has found none.
    Missing(MissingExporter),
}

/// A search that has found no exporter.
#[derive(Debug)]
pub struct MissingExporter {
    /// The searched namespaces: for example, `any namespace`.
    search_scope: String,
    /// The searched labels.
    selectors: Vec<String>,
}

impl MissingExporter {
    /// A search of these namespaces by these labels.
    pub fn new(place: &str, selectors: &[&str]) -> Self {
        Self {
            search_scope: place.to_owned(),
            selectors: selectors
                .iter()
                .map(|&selector| selector.to_owned())
                .collect(),
        }
    }

    /// Returns the fact and the fix.
    /// `are_simulated`: the nodes of the jobs are simulated.
    pub fn explain(&self, are_simulated: bool) -> String {
        let Self {
            search_scope: place,
            selectors,
        } = self;
        if are_simulated {
            return format!("no DCGM exporter in {place}: {SIMULATED}");
        }
        format!(
            "no DCGM exporter in {place} ({}): install NVIDIA's GPU operator, or its chart dcgm-exporter; select the pods of another exporter with --exporter-selector",
            selectors.join(" or ")
        )
    }
}

/// Finds the exporters.
///
/// # Errors
/// If pods cannot be listed in the searched namespaces.
pub async fn find_exporters(
    site: &TargetNamespace,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> anyhow::Result<ExporterSearch> {
    let client = site.cluster.client().clone();
    let pods: Api<Pod> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let selectors = match &selector {
        Some(one) => std::slice::from_ref(one),
        None => &SELECTORS[..],
    };
    let mut known_uids = BTreeSet::new();
    let mut found = Vec::new();
    for selector in selectors {
        let labels = ListParams::default().labels(selector);
        let listed = list(&pods, &labels)
            .await
            .map_err(|error| search_error(error, namespace))?;
        let new = listed.into_iter().flatten();
        found.extend(new.filter(|pod| known_uids.insert(pod.metadata.uid.clone())));
    }
    if !found.is_empty() {
        return Ok(ExporterSearch::Exporters(found));
    }
    let place = match namespace {
        Some(namespace) => format!("namespace {namespace:?}"),
        None => "any namespace".to_owned(),
    };
    Ok(ExporterSearch::Missing(MissingExporter::new(
        &place, selectors,
    )))
}

fn search_error(error: ApiFailure, namespace: Option<&str>) -> anyhow::Error {
    let rights = match namespace {
        None => "to find the DCGM exporter, you need the right to list pods in all namespaces: or name its namespace with --exporter-namespace".to_owned(),
        Some(namespace) => format!("to read the DCGM exporter, you need the rights to list pods and to get pods/proxy in namespace {namespace:?}"),
    };
    error.explain(&ErrorHints {
        rights,
        without_cluster: None,
    })
}
