//! Writes the generated files below a folder.
//! They are the chart's CRDs and roles, and the reference pages of the documentation, all built
//! from the operator's tables. `.ci/generated` runs this program.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use trellis_api::status::reason;
use trellis_api::{crds, reference};
use trellis_operator::rbac;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [folder] = arguments.as_slice() else {
        bail!("usage: generate FOLDER");
    };
    let folder = PathBuf::from(folder);
    for (name, yaml) in crds::to_files()? {
        write_file(&folder.join("crds"), &name, &yaml)?;
    }
    for (name, yaml) in [
        ("rbac.yaml", rbac::render_operator_rbac()),
        ("rbac-provisioning.yaml", rbac::render_provisioning_rbac()),
        ("rbac-secrets.yaml", rbac::render_secrets_rbac()),
        ("rbac-visibility.yaml", rbac::render_visibility_rbac()),
        ("rbac-endpoint.yaml", rbac::render_endpoint_rbac()),
        ("rbac-webhook.yaml", rbac::render_webhook_rbac()),
        ("roles.yaml", rbac::render_user_roles()),
        ("roles-everybody.yaml", rbac::render_authenticated_role()),
        ("roles-metrics.yaml", rbac::render_metrics_role()),
    ] {
        write_file(&folder.join("rbac"), name, &yaml)?;
    }
    for (name, page) in [
        ("api.md", reference::markdown()),
        ("reasons.md", reason::markdown()),
        ("metrics.md", trellis_dispatch::markdown()),
    ] {
        write_file(&folder.join("docs"), name, &page)?;
    }
    Ok(())
}

fn write_file(folder: &Path, name: &str, content: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {folder:?}"))?;
    let file = folder.join(name);
    std::fs::write(&file, content).with_context(|| format!("cannot write {file:?}"))
}
