//! Writes the files that are generated from the operator's tables into a folder: the chart's CRDs
//! and roles, and the reference pages of the documentation. `.ci/generated` runs it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use trellis_api::{crds, reason, reference};
use trellis_operator::rbac;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [folder] = arguments.as_slice() else {
        bail!("usage: generate FOLDER");
    };
    let folder = PathBuf::from(folder);
    for crd in crds::all() {
        let name = format!("{}.yaml", crd.spec.names.plural);
        write(&folder.join("crds"), &name, &crds::yaml(&crd)?)?;
    }
    for (name, yaml) in [
        ("rbac.yaml", rbac::operator()),
        ("rbac-secrets.yaml", rbac::secrets()),
        ("rbac-visibility.yaml", rbac::visibility()),
        ("rbac-endpoint.yaml", rbac::endpoint()),
        ("rbac-webhook.yaml", rbac::webhook()),
        ("roles.yaml", rbac::people()),
        ("roles-everybody.yaml", rbac::everybody()),
        ("roles-metrics.yaml", rbac::metrics()),
    ] {
        write(&folder.join("rbac"), name, &yaml)?;
    }
    for (name, page) in [
        ("api.md", reference::markdown()),
        ("reasons.md", reason::markdown()),
        ("metrics.md", trellis_dispatch::markdown()),
    ] {
        write(&folder.join("docs"), name, &page)?;
    }
    Ok(())
}

fn write(folder: &Path, name: &str, content: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {folder:?}"))?;
    let file = folder.join(name);
    std::fs::write(&file, content).with_context(|| format!("cannot write {file:?}"))
}
