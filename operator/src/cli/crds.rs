//! `trellis crds`: what is generated from the code.

use std::path::PathBuf;

use anyhow::Context;
use trellis_api::{crds, reason, reference};

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
    /// Print the operator's roles.
    #[arg(long)]
    rbac: bool,
}

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    if options.reference {
        return super::print(&reference::markdown());
    }
    if options.reasons {
        return super::print(&reason::markdown());
    }
    if options.rbac {
        return super::print(&crate::rbac::yaml());
    }
    let mut all = String::new();
    for crd in crds::all() {
        let yaml = crds::yaml(&crd)?;
        match &options.out {
            Some(folder) => {
                std::fs::create_dir_all(folder)
                    .with_context(|| format!("cannot make the folder {folder:?}"))?;
                let file = folder.join(format!("{}.yaml", crd.spec.names.plural));
                std::fs::write(&file, yaml).with_context(|| format!("cannot write {file:?}"))?;
            }
            None => {
                all.push_str("---\n");
                all.push_str(&yaml);
            }
        }
    }
    super::print(&all)
}
