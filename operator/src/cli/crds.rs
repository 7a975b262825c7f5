//! `trellis crds`: what is generated from the code.

use std::path::{Path, PathBuf};

use anyhow::Context;
use trellis_api::{crds, reason, reference};

use crate::rbac;

/// What to print.
#[derive(clap::Args, Debug)]
#[group(multiple = false)]
pub(super) struct Options {
    /// Write each CRD into a file of this folder instead.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the API reference.
    #[arg(long)]
    reference: bool,
    /// Print the list of reasons.
    #[arg(long)]
    reasons: bool,
    /// Print the list of metrics.
    #[arg(long)]
    metrics: bool,
    /// Write the roles of the operator and of people into files of this folder.
    #[arg(long, value_name = "DIR")]
    rbac: Option<PathBuf>,
}

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    if options.reference {
        return super::print(&reference::markdown());
    }
    if options.reasons {
        return super::print(&reason::markdown());
    }
    if options.metrics {
        return super::print(&trellis_dispatch::markdown());
    }
    if let Some(folder) = &options.rbac {
        let files = [
            ("rbac", rbac::operator()),
            ("rbac-secrets", rbac::secrets()),
            ("rbac-visibility", rbac::visibility()),
            ("rbac-endpoint", rbac::endpoint()),
            ("rbac-webhook", rbac::webhook()),
            ("roles", rbac::people()),
            ("roles-everybody", rbac::everybody()),
            ("roles-metrics", rbac::metrics()),
        ];
        for (name, yaml) in files {
            write(folder, name, &yaml)?;
        }
        return Ok(());
    }
    let mut all = String::new();
    for crd in crds::all() {
        let yaml = crds::yaml(&crd)?;
        match &options.out {
            Some(folder) => {
                write(folder, &crd.spec.names.plural, &yaml)?;
            }
            None => {
                all.push_str("---\n");
                all.push_str(&yaml);
            }
        }
    }
    super::print(&all)
}

fn write(folder: &Path, name: &str, yaml: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {folder:?}"))?;
    let file = folder.join(format!("{name}.yaml"));
    std::fs::write(&file, yaml).with_context(|| format!("cannot write {file:?}"))
}
