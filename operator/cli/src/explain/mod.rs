//! `trellis explain`: explains why a job waits, with current numbers.
//! It shows what the job lacks, whether each node fits, which jobs would be preempted, the smallest
//! change that would help, and the past events.

mod explained_object;
mod node_list;
mod shortage;
#[cfg(test)]
mod tests;
mod view;

use std::fmt::Debug;
use std::process::ExitCode;

use anyhow::anyhow;
use k8s_openapi::jiff::Timestamp;
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use trellis_api::job::JobPhase;
use trellis_api::visibility::{Explanation, GangName, JobState, QueueState};

use crate::cluster::ApiFailure;
use crate::events::{self, EventLine};
use crate::exit::Exit;
use crate::output::{self, OutputFormat, warn};
use crate::status::object_read_error;
use crate::target::{NamespaceOptions, TargetNamespace, parse_gang_name};
use crate::visibility_client::{self, VisibilityAnswer};
use explained_object::ExplainedObject;

/// Options of `trellis explain`.
#[derive(clap::Args, Clone, Debug)]
pub struct ExplainOptions {
    /// The job: NAME or tj/NAME. For external pods: podgroup/NAME or pod/NAME.
    #[arg(value_name = "JOB")]
    job: String,
    /// Output for scripts (json, yaml), or with the names of all nodes (wide).
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
    /// Namespace and cluster.
    #[command(flatten)]
    target: NamespaceOptions,
}

/// All facts about why the object waits.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplainFacts {
    /// The object to explain.
    #[serde(flatten)]
    subject: ExplainedObject,
    /// The row of `trellis queue`.
    /// Only for external pods: a job's own status has the same facts.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_state: Option<JobState>,
    /// The gang of the row and the explanation.
    /// It is the gang of the pod alone, or the gang that the pod belongs to.
    #[serde(skip)]
    gang_name: Option<GangName>,
    /// The explanation of the engine.
    /// None: the engine has none for this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<Explanation>,
    /// The state of its queue. None: the user may not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<QueueState>,
    /// The events of the object, the newest last.
    events: Vec<EventLine>,
    /// Facts that are missing from the output, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl ExplainFacts {
    /// Returns true for a pod that the engine knows only as part of its gang.
    /// The explanation of the gang applies then.
    fn is_explained_by_gang(&self) -> bool {
        self.gang_name
            .as_ref()
            .is_some_and(|gang| *gang != self.subject.gang_name())
    }

    /// Returns true for a pod that gets its node when its gang is placed.
    fn waits_with_gang(&self) -> bool {
        let row = self.job_state.as_ref();
        let row = row.map(|row| row.phase == Some(JobPhase::Queued));
        let is_waiting = row.unwrap_or(self.explanation.is_some());
        self.is_explained_by_gang() && is_waiting && self.subject.is_pending()
    }
}

/// Explains the object.
///
/// # Errors
/// If the cluster cannot be reached.
pub fn run(options: &ExplainOptions) -> anyhow::Result<ExitCode> {
    let name = parse_gang_name(&options.job)?;
    let site = options.target.connect()?;
    let known = site.cluster.block_on(read_facts(&site, &name))?;
    let Some(known) = known else {
        let error = match &name {
            GangName::Job(name) => site.not_found_error(name),
            other => anyhow!("there is no {other} in namespace {:?}", site.namespace),
        };
        warn(&format!("error: {error:#}"));
        return Ok(Exit::Negative.into());
    };
    let text = match output::serialize_object(options.output, &known)? {
        Some(text) => text,
        None => {
            let wide = options.output == Some(OutputFormat::Wide);
            let width = output::width().unwrap_or(100);
            view::render(&known, Timestamp::now(), wide, width)
        }
    };
    output::print(&text)?;
    Ok(Exit::Done.into())
}

/// Reads all facts. Returns None if the object does not exist.
async fn read_facts(
    site: &TargetNamespace,
    name: &GangName,
) -> anyhow::Result<Option<ExplainFacts>> {
    let Some(subject) = ExplainedObject::get(site, name).await? else {
        return Ok(None);
    };
    let mut notes = Vec::new();
    let row = match subject {
        ExplainedObject::Job(_) => None,
        _ => get_first_known::<JobState>(site, &subject.gang_names(), &mut notes).await?,
    };
    // The explanation must come from the same gang as the row.
    let (row_gang, job_state) = row.unzip();
    let gangs = row_gang
        .clone()
        .map_or_else(|| subject.gang_names(), |gang| vec![gang]);
    let found = get_first_known::<Explanation>(site, &gangs, &mut notes).await?;
    let (explained_gang, explanation) = found.unzip();
    // Both reads may report the same missing service.
    notes.dedup();
    let written = subject.job_status().and_then(|status| status.queue.clone());
    let queue = written.or_else(|| job_state.as_ref().map(|state| state.queue.clone()));
    let queue = match queue {
        Some(queue) => {
            let api = Api::<QueueState>::all(site.cluster.client().clone());
            let denied =
                |error: ApiFailure| site.explain(error, "get queuestates.visibility.trellis.dev");
            visibility_client::get_object(&api, &queue, site.cluster.scheduler_timeout())
                .await
                .map_err(denied)?
                .into_option()
        }
        None => None,
    };
    let events = events::list_events(site, subject.kind(), subject.metadata()).await;
    let events = events.unwrap_or_else(|error| {
        notes.push(object_read_error(site, error, "list events.events.k8s.io").to_string());
        Vec::new()
    });
    Ok(Some(ExplainFacts {
        subject,
        gang_name: row_gang.or(explained_gang),
        job_state,
        explanation,
        queue,
        events,
        notes,
    }))
}

/// Returns the object of the first gang in the list that the engine knows.
/// Returns None if the engine knows none of them, or the read fails. A failed read adds a note.
async fn get_first_known<K>(
    site: &TargetNamespace,
    gangs: &[GangName],
    notes: &mut Vec<String>,
) -> anyhow::Result<Option<(GangName, K)>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + DeserializeOwned + Debug,
{
    let api = Api::<K>::namespaced(site.cluster.client().clone(), &site.namespace);
    let right = format!("get {}.{}", K::plural(&()), K::group(&()));
    for gang in gangs {
        let answer = visibility_client::get_object(
            &api,
            &gang.object_name(),
            site.cluster.scheduler_timeout(),
        )
        .await;
        match answer.map_err(|error| site.explain(error, &right))? {
            VisibilityAnswer::Available(answer) => return Ok(Some((gang.clone(), answer))),
            VisibilityAnswer::NotFound => {}
            VisibilityAnswer::Unavailable(reason) => {
                notes.push(reason.to_owned());
                break;
            }
            VisibilityAnswer::Denied(message) => {
                notes.push(format!(
                    "{message}: the ClusterRole trellis-view has the right"
                ));
                break;
            }
        }
    }
    Ok(None)
}
