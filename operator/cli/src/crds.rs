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
        for (_, yaml) in crds::to_files()? {
            all.push_str("---\n");
            all.push_str(&yaml);
        }
        return output::print(&all);
    };
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the folder {folder:?}"))?;
    for (name, yaml) in crds::to_files()? {
        let file = folder.join(name);
        std::fs::write(&file, yaml).with_context(|| format!("cannot write {file:?}"))?;
    }
    Ok(())
}
