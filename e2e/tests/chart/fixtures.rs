//! Shared setup of these tests: Helm, values that enable every part, and one runtime.

use std::sync::LazyLock;

use anyhow::{Result, ensure};
use libtest_mimic::{Completion, Failed, Trial};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use trellis_e2e::helm::Helm;

pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// The namespace in tests without a cluster. It differs from the namespace in the plain files.
pub(crate) const OTHER_NAMESPACE: &str = "elsewhere";

/// A test that needs no cluster.
pub(crate) fn trial(
    name: &'static str,
    test: impl FnOnce(&Helm) -> Result<()> + Send + 'static,
) -> Trial {
    Trial::test(name, move || {
        let tested = Helm::find_or_build().and_then(|helm| test(&helm));
        tested.map_err(|error| Failed::from(format!("{error:#}")))
    })
}

/// A test on a control plane.
pub(crate) fn cluster_trial(
    name: &'static str,
    test: impl AsyncFnOnce(Helm) -> Result<()> + Send + 'static,
) -> Trial {
    ignorable_trial(name, || None, test)
}

/// A test of Helm 3 on a control plane. It is ignored where Helm 3 is not built.
pub(crate) fn helm_3_trial(
    name: &'static str,
    test: impl AsyncFnOnce(Helm) -> Result<()> + Send + 'static,
) -> Trial {
    ignorable_trial(name, Helm::helm_3_unavailable_reason, test)
}

/// A test on a control plane. It is ignored if `unavailable` returns a reason.
pub(crate) fn ignorable_trial(
    name: &'static str,
    unavailable: impl FnOnce() -> Option<String> + Send + 'static,
    test: impl AsyncFnOnce(Helm) -> Result<()> + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name, move || {
        if let Some(reason) = unavailable() {
            return Ok(Completion::ignored_with(reason));
        }
        let tested = Helm::find_or_build().and_then(|helm| RUNTIME.block_on(test(helm)));
        let tested = tested.map(|()| Completion::Completed);
        tested.map_err(|error| Failed::from(format!("{error:#}")))
    })
}

/// Returns values that enable every part of the chart.
pub(crate) fn all_enabled_values() -> Value {
    json!({
        "operator": {"lookForSecretsIn": ["team-a", "team-b"]},
        "certificates": {"source": "certManager"},
        "admission": {"networkPolicies": true, "confineOperator": true},
        "userRoles": {"everybodyReadsQueues": true},
        "metrics": {
            "readers": [{"namespace": "monitoring", "name": "prometheus"}],
            "serviceMonitor": {"enabled": true},
            "prometheusRule": {"enabled": true},
            "dashboard": {"enabled": true},
        },
        "provisioning": {"enabled": true},
        "verify": {"enabled": true},
        "dashboard": {"enabled": true, "publicUrl": "https://trellis.example.org"},
    })
}

/// Checks that the chart refuses these values with this message.
pub(crate) fn check_refused(helm: &Helm, values: &Value, names: &str) -> Result<()> {
    let Err(error) = helm.render_objects(OTHER_NAMESPACE, values) else {
        anyhow::bail!("{values} is taken");
    };
    let error_text = format!("{error:#}");
    ensure!(error_text.contains(names), "{error_text}");
    Ok(())
}

/// Returns `Kind namespace/name` of an object.
pub(crate) fn object_key(object: &Value) -> String {
    let text_at = |path: &str| object.pointer(path).and_then(Value::as_str);
    let namespace = text_at("/metadata/namespace").unwrap_or_default();
    let name = text_at("/metadata/name").unwrap_or_default();
    format!(
        "{} {namespace}/{name}",
        text_at("/kind").unwrap_or_default()
    )
}
