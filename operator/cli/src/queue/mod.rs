//! `trellis queue`: shows all pending and running jobs in one table.
//! The table combines the content of Slurm's squeue, sprio and sshare.

mod job_table;
mod label_selection;
mod queue_format;
mod queue_summary;
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

use crate::cluster::ApiFailure;
use crate::command_view::{CommandView, ViewError, show_view};
use crate::output::{self, OutputFormat, Tone, paint};
use crate::target::{NamespaceOptions, TargetNamespace};
use crate::visibility_client::{self, VisibilityAnswer};
use job_table::JobFilter;
use queue_format::QueueOutputFormat;
pub(crate) use queue_summary::format_nominal;

/// Options of `trellis queue`.
#[derive(clap::Args, Clone, Debug)]
pub struct QueueOptions {
    /// Show only this queue.
    #[arg(value_name = "QUEUE")]
    queue: Option<String>,
    /// Show only your own jobs.
    /// Their annotation trellis.dev/requested-by has your user name.
    #[arg(long)]
    mine: bool,
    /// Show only jobs with these labels, as in kubectl: KEY=VALUE,...
    /// External pods are left out.
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Show only pending jobs.
    #[arg(long, conflicts_with = "running")]
    waiting: bool,
    /// Show only jobs that hold nodes.
    #[arg(long)]
    running: bool,
    /// Refresh the output every few seconds.
    #[arg(short, long)]
    watch: bool,
    /// Time between two refreshes, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// Output for scripts (json, yaml, name) or with more columns (wide).
    /// The fields of json and yaml are in docs/command-line.md; name is input for other commands.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<QueueOutputFormat>,
    /// Show all namespaces. Fails if you may not see all of them.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Namespace and cluster.
    /// Default: all namespaces, or the namespace of the context if the user may not see all of
    /// them.
    #[command(flatten)]
    target: NamespaceOptions,
}

/// The state of the queues at one moment.
#[derive(Debug, Default)]
struct QueueView {
    jobs: Vec<JobState>,
    /// None: the user may not see the queues.
    queues: Option<Vec<QueueState>>,
    notes: Vec<String>,
}

/// The output for scripts.
#[derive(Serialize)]
struct QueueOutput<'a> {
    jobs: Vec<&'a JobState>,
    /// Null: the user may not see the queues.
    queues: Option<Vec<&'a QueueState>>,
    notes: &'a [String],
}

/// Shows the queues.
///
/// # Errors
/// If the cluster cannot be reached.
pub fn run(options: &QueueOptions) -> anyhow::Result<ExitCode> {
    let site = options.target.connect()?;
    site.cluster.block_on(async {
        let me = match options.mine {
            true => Some(current_user(&site).await?),
            false => None,
        };
        let look = async || {
            let queue_view = read_queues(&site, options).await?;
            build_view(&queue_view, options, me.as_deref())
        };
        let every = options.watch.then(|| Duration::from_secs(options.interval));
        let format = options.output.and_then(QueueOutputFormat::as_output_format);
        Ok(show_view(format, every, look).await?.into())
    })
}

async fn read_queues(
    site: &TargetNamespace,
    options: &QueueOptions,
) -> Result<QueueView, ViewError> {
    let client = || site.cluster.client().clone();
    let patience = site.cluster.scheduler_timeout();
    let denied = |error: ApiFailure| {
        let is_denied = error.is_denied();
        let error = site.explain(error, "list jobstates.visibility.trellis.dev");
        ViewError::new(is_denied, error)
    };
    let mut queue_view = QueueView::default();
    let everywhere = options.target.namespace.is_none();
    let mut jobs = match everywhere {
        true => visibility_client::list_objects(&Api::<JobState>::all(client()), patience)
            .await
            .map_err(denied)?,
        false => VisibilityAnswer::Denied(String::new()),
    };
    let mut told_of = everywhere.then(|| Api::all(client()));
    if let VisibilityAnswer::Denied(_) = jobs
        && !options.all_namespaces
    {
        told_of = None;
        let api = Api::<JobState>::namespaced(client(), &site.namespace);
        jobs = visibility_client::list_objects(&api, patience)
            .await
            .map_err(denied)?;
        if everywhere {
            queue_view.notes.push(format!(
                "only jobs of namespace {:?}: to see all jobs, you need the right to list jobstates.visibility.trellis.dev in all namespaces",
                site.namespace
            ));
        }
    }
    match jobs {
        VisibilityAnswer::Available(jobs) => queue_view.jobs = jobs,
        VisibilityAnswer::Denied(message) => {
            let place = match options.all_namespaces {
                true => {
                    "all namespaces; without -A, the command reads the namespace of the context"
                        .to_owned()
                }
                false => format!("namespace {:?}", site.namespace),
            };
            return Err(ViewError::denied(format!(
                "{message}: ask for the ClusterRole trellis-view, or view, in {place}"
            )));
        }
        VisibilityAnswer::NotFound => {}
        VisibilityAnswer::Unavailable(reason) => {
            return Err(ViewError::unavailable(format!(
                "{reason}; `kubectl get tj -A` shows phases and reasons without it"
            )));
        }
    }
    if let Some(selector) = &options.selector {
        let api = told_of.unwrap_or_else(|| site.jobs());
        let error = |error: ApiFailure| {
            let is_denied = error.is_denied();
            let error = site.explain(error, "list trainingjobs.trellis.dev");
            ViewError::new(is_denied, error.context(format!("--selector {selector:?}")))
        };
        let labelled = label_selection::list_names(&api, selector)
            .await
            .map_err(error)?;
        label_selection::retain_named(&mut queue_view.jobs, &labelled);
    }
    let queues = visibility_client::list_objects(&Api::<QueueState>::all(client()), patience)
        .await
        .map_err(denied)?;
    queue_view.queues = queues.into_option();
    Ok(queue_view)
}

fn build_view(
    view: &QueueView,
    options: &QueueOptions,
    me: Option<&str>,
) -> Result<CommandView, ViewError> {
    let filter = JobFilter {
        queue: options.queue.as_deref(),
        user: me,
        waiting: !options.running,
        running: !options.waiting,
    };
    if let Some(name) = filter.unknown_queue(&view.jobs, view.queues.as_deref()) {
        return Err(ViewError::not_found(format!(
            "there is no queue {name:?}: `trellis queue` lists all"
        )));
    }
    let jobs = filter.select(&view.jobs);
    let queues = view.queues.as_ref();
    let queues: Option<Vec<_>> = queues.map(|queues| {
        queues
            .iter()
            .filter(|queue| filter.matches_queue(queue))
            .collect()
    });
    if options.output == Some(QueueOutputFormat::Name) {
        return Ok(CommandView {
            text: queue_format::render_names(&jobs),
            notes: view.notes.clone(),
        });
    }
    let output = QueueOutput {
        jobs,
        queues,
        notes: &view.notes,
    };
    let format = options.output.and_then(QueueOutputFormat::as_output_format);
    if let Some(text) = output::serialize_object(format, &output)? {
        return Ok(CommandView {
            text,
            notes: view.notes.clone(),
        });
    }
    Ok(render_tables(&output, format == Some(OutputFormat::Wide)).into())
}

fn render_tables(view: &QueueOutput<'_>, wide: bool) -> String {
    let width = output::width().filter(|_| !wide);
    let mut text = String::new();
    for note in view.notes {
        text.push_str(&paint(&format!("# {note}\n"), Tone::Dim));
    }
    let queues = view.queues.iter().flatten().copied();
    text.push_str(&queue_summary::render_summary(queues, wide));
    text.push_str(&job_table::render_table(
        &view.jobs,
        Timestamp::now(),
        wide,
        width,
    ));
    text
}

/// Returns the user's name as the API server knows it.
async fn current_user(site: &TargetNamespace) -> anyhow::Result<String> {
    let api = Api::<SelfSubjectReview>::all(site.cluster.client().clone());
    let review = api
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    let review = review.map_err(|error| ApiFailure::new::<SelfSubjectReview>("create", error));
    let review = review
        .map_err(|error| site.explain(error, "create selfsubjectreviews.authentication.k8s.io"))?;
    let user = review.status.and_then(|status| status.user_info?.username);
    Ok(user.unwrap_or_default())
}
