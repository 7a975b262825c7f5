//! `trellis explain`: why a job waits, with the numbers of now: what it lacks, what each node is to
//! it, who would make room, and the smallest change that would help; and what happened until now.

mod lacks;
mod places;
mod subject;
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

use crate::cluster::Unread;
use crate::events::{self, EventLine};
use crate::exit::Exit;
use crate::output::{self, Format, warn};
use crate::status::unseen;
use crate::target::{Place, Site, gang_name};
use crate::visible::{self, Visible};
use subject::Subject;

/// Of which job.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The job: NAME or tj/NAME; of pods that others have made podgroup/NAME or pod/NAME.
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
    /// What it is about.
    #[serde(flatten)]
    subject: Subject,
    /// Its row in `trellis queue`, of pods that others have made alone: a job's own status says
    /// the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_state: Option<JobState>,
    /// Whose the row and the explanation are: a pod's own, or those of the gang that it is in.
    #[serde(skip)]
    of: Option<GangName>,
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

impl Known {
    /// True of a pod of which the engine knows its gang alone, which then tells.
    fn is_gangs(&self) -> bool {
        self.of
            .as_ref()
            .is_some_and(|of| *of != self.subject.name())
    }

    /// True of a pod that is to have its place when its gang has.
    fn waits_with_gang(&self) -> bool {
        let row = self.job_state.as_ref();
        let row = row.map(|row| row.phase == Some(JobPhase::Queued));
        let waits = row.unwrap_or(self.explanation.is_some());
        self.is_gangs() && waits && self.subject.waits()
    }
}

/// Explains.
///
/// # Errors
/// If the cluster cannot be asked.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let name = gang_name(&options.job)?;
    let site = options.place.connect()?;
    let known = site.cluster.wait_for(look(&site, &name))?;
    let Some(known) = known else {
        let error = match &name {
            GangName::Job(name) => site.not_there(name),
            other => anyhow!("there is no {other} in namespace {:?}", site.namespace),
        };
        warn(&format!("error: {error:#}"));
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

/// None: there is no such object.
async fn look(site: &Site, name: &GangName) -> anyhow::Result<Option<Known>> {
    let Some(subject) = Subject::read(site, name).await? else {
        return Ok(None);
    };
    let mut notes = Vec::new();
    let row = match subject {
        Subject::Job(_) => None,
        _ => told::<JobState>(site, &subject.gangs(), &mut notes).await?,
    };
    // Of the same gang, or it would be another's that explains.
    let (of, job_state) = row.unzip();
    let gangs = of.clone().map_or_else(|| subject.gangs(), |of| vec![of]);
    let told = told::<Explanation>(site, &gangs, &mut notes).await?;
    let (explains, explanation) = told.unzip();
    // What is not served is said once.
    notes.dedup();
    let written = subject.job_status().and_then(|status| status.queue.clone());
    let queue = written.or_else(|| job_state.as_ref().map(|state| state.queue.clone()));
    let queue = match queue {
        Some(queue) => {
            let api = Api::<QueueState>::all(site.cluster.client().clone());
            let denied =
                |error: Unread| site.explain(error, "get queuestates.visibility.trellis.dev");
            visible::one(&api, &queue, site.cluster.patience())
                .await
                .map_err(denied)?
                .told()
        }
        None => None,
    };
    let events = events::read(site, subject.kind(), subject.metadata()).await;
    let events = events.unwrap_or_else(|error| {
        notes.push(unseen(site, error, "list events.events.k8s.io").to_string());
        Vec::new()
    });
    Ok(Some(Known {
        subject,
        of: of.or(explains),
        job_state,
        explanation,
        queue,
        events,
        notes,
    }))
}

/// What the engine knows of the first of these gangs that it knows. None: nothing, or it cannot be
/// said, which is noted.
async fn told<K>(
    site: &Site,
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
        let told = visible::one(&api, &gang.served(), site.cluster.patience()).await;
        match told.map_err(|error| site.explain(error, &right))? {
            Visible::Told(told) => return Ok(Some((gang.clone(), told))),
            Visible::Nothing => {}
            Visible::Unserved(why) => {
                notes.push(why.to_owned());
                break;
            }
            Visible::Denied(message) => {
                notes.push(format!(
                    "{message}: the ClusterRole trellis-view has the right"
                ));
                break;
            }
        }
    }
    Ok(None)
}
