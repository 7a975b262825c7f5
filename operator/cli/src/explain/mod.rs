//! `trellis explain`: why a job waits, with the numbers of now: what it lacks, what each node is to
//! it, who would make room, and the smallest change that would help; and what happened until now.

mod lacks;
mod places;
#[cfg(test)]
mod tests;
mod view;

use std::process::ExitCode;

use k8s_openapi::jiff::Timestamp;
use kube::Api;
use serde::Serialize;
use trellis_api::TrainingJob;
use trellis_api::visibility::{Explanation, QueueState};

use crate::cluster::{Unread, named};
use crate::events::{self, EventLine};
use crate::exit::Exit;
use crate::output::{self, Format, warn};
use crate::status::unseen;
use crate::target::{Place, Site, job_name};
use crate::visible::{self, Visible};

/// Of which job.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The job: NAME or tj/NAME.
    #[arg(value_name = "JOB")]
    job: String,
    /// For scripts (json, yaml), or with all nodes that are named (wide).
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    /// Where.
    #[command(flatten)]
    place: Place,
}

/// All that is known of why it waits.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Known {
    /// The job.
    job: TrainingJob,
    /// What the engine says. None: it is not its turn to.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<Explanation>,
    /// Its queue. None: who asks may not see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<QueueState>,
    /// What happened to it, the newest last.
    events: Vec<EventLine>,
    /// What is not told, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// Explains.
///
/// # Errors
/// If the cluster cannot be asked.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let name = job_name(&options.job)?;
    let site = options.place.connect()?;
    let known = site.cluster.wait_for(look(&site, &name))?;
    let Some(known) = known else {
        warn(&format!("error: {:#}", site.not_there(&name)));
        return Ok(Exit::Not.into());
    };
    let text = match output::object(options.output, &known)? {
        Some(text) => text,
        None => {
            let wide = options.output == Some(Format::Wide);
            let width = output::width().unwrap_or(100);
            view::text(&known, Timestamp::now(), wide, width)
        }
    };
    output::print(&text)?;
    Ok(Exit::Done.into())
}

/// None: there is no such job.
async fn look(site: &Site, name: &str) -> anyhow::Result<Option<Known>> {
    let client = || site.cluster.client().clone();
    let denied = |error: Unread| site.explain(error, "get trainingjobs.trellis.dev");
    let Some(job) = named(&site.jobs(), name).await.map_err(denied)? else {
        return Ok(None);
    };
    let mut notes = Vec::new();
    let api = Api::<Explanation>::namespaced(client(), &site.namespace);
    let explanation = match visible::one(&api, name).await.map_err(denied)? {
        Visible::Told(explanation) => Some(explanation),
        Visible::Nothing => None,
        Visible::Unserved(why) => {
            notes.push(why.to_owned());
            None
        }
        Visible::Denied(message) => {
            notes.push(format!(
                "{message}: the ClusterRole trellis-view has the right"
            ));
            None
        }
    };
    let status = job.status.as_ref();
    let queue = status.and_then(|status| status.queue.clone());
    let queue = match queue {
        Some(queue) => {
            let api = Api::<QueueState>::all(client());
            visible::one(&api, &queue).await.map_err(denied)?.told()
        }
        None => None,
    };
    let events = events::read(site, &job).await.unwrap_or_else(|error| {
        notes.push(unseen(site, error, "list events.events.k8s.io").to_string());
        Vec::new()
    });
    Ok(Some(Known {
        job,
        explanation,
        queue,
        events,
        notes,
    }))
}
