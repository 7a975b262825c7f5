//! `trellis queue`: all that waits and all that runs, in one table, as Slurm's squeue, sprio and
//! sshare tell it in three.

mod labels;
mod print;
mod rows;
mod summary;
#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use trellis_api::visibility::{JobState, QueueState};

use serde::Serialize;

use crate::cluster::Unread;
use crate::look::{Look, Unseen, rounds};
use crate::output::{self, Format, Tone, paint};
use crate::target::{Place, Site};
use crate::visible::{self, Visible};
use print::Print;
use rows::Which;
pub(crate) use summary::nominal;

/// What of the queues.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Only this queue.
    #[arg(value_name = "QUEUE")]
    queue: Option<String>,
    /// Only jobs of mine: those whose trellis.dev/requested-by names me.
    #[arg(long)]
    mine: bool,
    /// Only jobs with these labels, as kubectl has it: KEY=VALUE,... Pods of others are left out.
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Only jobs that wait.
    #[arg(long, conflicts_with = "running")]
    waiting: bool,
    /// Only jobs that hold a place.
    #[arg(long)]
    running: bool,
    /// Show it again every few seconds.
    #[arg(short, long)]
    watch: bool,
    /// How often, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// For scripts (json, yaml: docs/command-line.md; name: as other commands take them), or with
    /// more columns (wide).
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Print>,
    /// All namespaces, or an error for whoever may not see all.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Where. Without a namespace, all of them, or that of the context for whoever may not see all.
    #[command(flatten)]
    place: Place,
}

/// What is seen at one moment.
#[derive(Debug, Default)]
struct Seen {
    jobs: Vec<JobState>,
    /// None: who asks may not see them.
    queues: Option<Vec<QueueState>>,
    notes: Vec<String>,
}

/// The same for scripts.
#[derive(Serialize)]
struct Told<'a> {
    jobs: Vec<&'a JobState>,
    /// Null: who asks may not see them.
    queues: Option<Vec<&'a QueueState>>,
    notes: &'a [String],
}

/// Shows the queues.
///
/// # Errors
/// If the cluster cannot be asked.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let site = options.place.connect()?;
    site.cluster.wait_for(async {
        let me = match options.mine {
            true => Some(whoami(&site).await?),
            false => None,
        };
        let look = async || {
            let seen = look(&site, options).await?;
            shown(&seen, options, me.as_deref())
        };
        let every = options.watch.then(|| Duration::from_secs(options.interval));
        let format = options.output.and_then(Print::format);
        Ok(rounds(format, every, look).await?.into())
    })
}

async fn look(site: &Site, options: &Options) -> Result<Seen, Unseen> {
    let client = || site.cluster.client().clone();
    let patience = site.cluster.patience();
    let denied = |error: Unread| {
        let is_denied = error.is_denied();
        let error = site.explain(error, "list jobstates.visibility.trellis.dev");
        Unseen::new(is_denied, error)
    };
    let mut seen = Seen::default();
    let everywhere = options.place.namespace.is_none();
    let mut jobs = match everywhere {
        true => visible::all(&Api::<JobState>::all(client()), patience)
            .await
            .map_err(denied)?,
        false => Visible::Denied(String::new()),
    };
    let mut told_of = everywhere.then(|| Api::all(client()));
    if let Visible::Denied(_) = jobs
        && !options.all_namespaces
    {
        told_of = None;
        let api = Api::<JobState>::namespaced(client(), &site.namespace);
        jobs = visible::all(&api, patience).await.map_err(denied)?;
        if everywhere {
            seen.notes.push(format!(
                "jobs of namespace {:?} alone: to see all takes the right to list jobstates.visibility.trellis.dev in all namespaces",
                site.namespace
            ));
        }
    }
    match jobs {
        Visible::Told(jobs) => seen.jobs = jobs,
        Visible::Denied(message) => {
            let place = match options.all_namespaces {
                true => "all namespaces; without -A it is the one of the context".to_owned(),
                false => format!("namespace {:?}", site.namespace),
            };
            return Err(Unseen::denied(format!(
                "{message}: ask for the ClusterRole trellis-view, or view, in {place}"
            )));
        }
        Visible::Nothing => {}
        Visible::Unserved(why) => {
            return Err(Unseen::now(format!(
                "{why}; `kubectl get tj -A` shows phases and reasons without it"
            )));
        }
    }
    if let Some(selector) = &options.selector {
        let api = told_of.unwrap_or_else(|| site.jobs());
        let error = |error: Unread| {
            let is_denied = error.is_denied();
            let error = site.explain(error, "list trainingjobs.trellis.dev");
            Unseen::new(is_denied, error.context(format!("--selector {selector:?}")))
        };
        let labelled = labels::list(&api, selector).await.map_err(error)?;
        labels::keep(&mut seen.jobs, &labelled);
    }
    let queues = visible::all(&Api::<QueueState>::all(client()), patience)
        .await
        .map_err(denied)?;
    seen.queues = queues.told();
    Ok(seen)
}

fn shown(seen: &Seen, options: &Options, me: Option<&str>) -> Result<Look, Unseen> {
    let which = Which {
        queue: options.queue.as_deref(),
        user: me,
        waiting: !options.running,
        running: !options.waiting,
    };
    if let Some(name) = which.unknown(&seen.jobs, seen.queues.as_deref()) {
        return Err(Unseen::not_there(format!(
            "there is no queue {name:?}: `trellis queue` lists all"
        )));
    }
    let jobs = which.of(&seen.jobs);
    let queues = seen.queues.as_ref();
    let queues: Option<Vec<_>> =
        queues.map(|queues| queues.iter().filter(|queue| which.is_of(queue)).collect());
    if options.output == Some(Print::Name) {
        return Ok(Look {
            text: print::names(&jobs),
            notes: seen.notes.clone(),
        });
    }
    let told = Told {
        jobs,
        queues,
        notes: &seen.notes,
    };
    let format = options.output.and_then(Print::format);
    if let Some(text) = output::object(format, &told)? {
        return Ok(Look {
            text,
            notes: seen.notes.clone(),
        });
    }
    Ok(people(&told, format == Some(Format::Wide)).into())
}

fn people(told: &Told<'_>, wide: bool) -> String {
    let width = output::width().filter(|_| !wide);
    let mut text = String::new();
    for note in told.notes {
        text.push_str(&paint(&format!("# {note}\n"), Tone::Dim));
    }
    let queues = told.queues.iter().flatten().copied();
    text.push_str(&summary::text(queues, wide));
    text.push_str(&rows::text(&told.jobs, Timestamp::now(), wide, width));
    text
}

/// The name by which the API server knows us.
async fn whoami(site: &Site) -> anyhow::Result<String> {
    let api = Api::<SelfSubjectReview>::all(site.cluster.client().clone());
    let asked = api
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    let asked = asked.map_err(|error| Unread::new::<SelfSubjectReview>("create", error));
    let asked = asked
        .map_err(|error| site.explain(error, "create selfsubjectreviews.authentication.k8s.io"))?;
    let user = asked.status.and_then(|status| status.user_info?.username);
    Ok(user.unwrap_or_default())
}
