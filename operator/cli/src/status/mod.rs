//! `trellis status`: one job in one screen, as `kubectl describe`, `kubectl get pods` and
//! `systemctl status` tell it in three.

mod read;
mod report;
#[cfg(test)]
mod tests;
mod view;
mod watch;

pub use read::{pods_of, unseen};
pub use report::Report;
pub use view::remedy;

use std::process::ExitCode;

use k8s_openapi::jiff::Timestamp;

use crate::exit::Exit;
use crate::output::{Format, object, print, warn, width};
use crate::target::{Place, Site, job_name};

/// Which job, and how it is shown.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The job: NAME or tj/NAME.
    #[arg(value_name = "JOB")]
    job: String,
    /// Show it again whenever it changes, until it has ended.
    #[arg(short, long)]
    watch: bool,
    /// For scripts (json, yaml: one object, docs/command-line.md), or with more columns (wide).
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    /// Where.
    #[command(flatten)]
    place: Place,
}

/// Shows the job. Exit status: 0 it is there, 1 it is not, 2 no cluster.
///
/// # Errors
/// If the name is none, or the cluster cannot be asked.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let name = job_name(&options.job)?;
    let site = options.place.connect()?;
    let exit = match options.watch {
        true => site
            .cluster
            .wait_for(watch::run(&site, &name, options.output))?,
        false => site.cluster.wait_for(once(&site, &name, options.output))?,
    };
    Ok(exit.into())
}

async fn once(site: &Site, name: &str, format: Option<Format>) -> anyhow::Result<Exit> {
    let denied = |error| read::unread(site, error);
    let Some(report) = read::report(site, name).await.map_err(denied)? else {
        warn(&format!("error: {:#}", site.not_there(name)));
        return Ok(Exit::Not);
    };
    print(&text(&report, format, width())?)?;
    Ok(Exit::Done)
}

fn text(report: &Report, format: Option<Format>, width: Option<usize>) -> anyhow::Result<String> {
    if let Some(text) = object(format, report)? {
        return Ok(text);
    }
    let is_wide = format == Some(Format::Wide);
    Ok(view::text(report, Timestamp::now(), is_wide, width))
}
