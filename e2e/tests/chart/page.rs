//! The web page as a Deployment of the chart.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use trellis_e2e::helm::Helm;

use crate::fixtures::{OTHER_NAMESPACE, check_refused, object_key};

/// The account of the page.
const ACCOUNT: &str = "trellis-dashboard";

fn page_values() -> Value {
    json!({"dashboard": {"enabled": true, "publicUrl": "https://trellis.example.org"}})
}

/// No role is bound to the account of the page, and its pods have no token.
pub(crate) fn test_no_rights(helm: &Helm) -> Result<()> {
    let objects = helm.render_objects(OTHER_NAMESPACE, &page_values())?;
    for object in &objects {
        let subjects = object["subjects"].as_array().into_iter().flatten();
        for subject in subjects {
            ensure!(subject["name"] != ACCOUNT, "{object}");
        }
    }
    let key = format!("Deployment {OTHER_NAMESPACE}/{ACCOUNT}");
    let deployment = objects.iter().find(|object| object_key(object) == key);
    let deployment = deployment.context("no Deployment of the page")?;
    let pod = &deployment["spec"]["template"]["spec"];
    ensure!(pod["automountServiceAccountToken"] == json!(false), "{pod}");
    ensure!(pod["serviceAccountName"] == ACCOUNT, "{pod}");
    let volumes = pod["volumes"].as_array().context("no volumes")?;
    for volume in volumes {
        ensure!(volume["configMap"].is_object(), "{volume}");
    }
    Ok(())
}

/// The page needs the URL that users open, and the API group whose data it shows.
pub(crate) fn test_required_values(helm: &Helm) -> Result<()> {
    let without_url = json!({"dashboard": {"enabled": true}});
    check_refused(helm, &without_url, "dashboard.publicUrl must be set")?;
    let mut values = page_values();
    values["visibility"] = json!({"enabled": false});
    check_refused(helm, &values, "needs visibility.enabled")?;
    let mut values = page_values();
    values["dashboard"]["publicUrl"] = json!("https://trellis.example.org/page");
    check_refused(helm, &values, "publicUrl")
}
