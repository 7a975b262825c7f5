//! `trellis crds`: the CustomResourceDefinitions of Trellis.

use std::path::PathBuf;

use anyhow::Context as _;
use trellis_api::crds;

use crate::output;

/// Options of `trellis crds`.
#[derive(clap::Args, Debug)]
pub(super) struct CrdsOptions {
    /// Write each definition into its own file in this folder, not to standard output.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(options: &CrdsOptions) -> anyhow::Result<()> {
    let Some(folder) = &options.out else {
        let mut all = String::new();
        for crd in crds::all() {
            all.push_str("---\n");
            all.push_str(&crds::to_yaml(&crd)?);
        }
        output::print(&all)?;
        return Ok(());
    };
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {folder:?}"))?;
    for crd in crds::all() {
        let file = folder.join(format!("{}.yaml", crd.spec.names.plural));
        std::fs::write(&file, crds::to_yaml(&crd)?)
            .with_context(|| format!("cannot write {file:?}"))?;
    }
    Ok(())
}
