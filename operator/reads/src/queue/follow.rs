//! The queues, kept current by watches.

use kube::Api;
use trellis_api::visibility::{JobState, QueueState};

use super::{JobScope, QueueReads};
use crate::live::{LiveList, LiveObjects, ScopedList, list_in_scope};
use crate::visibility::VisibilityAnswer;
use crate::{ApiFailure, ReadError, Reader};

/// The right to the jobs.
const JOBS_RIGHT: &str = "list jobstates.visibility.trellis.dev";

/// The jobs and the queues, kept current.
#[derive(Debug)]
pub struct QueueFollower {
    reader: Reader,
    scope: JobScope,
    jobs: LiveList<JobState>,
    /// None: the user may not see the queues.
    queues: Option<LiveList<QueueState>>,
    notes: Vec<String>,
    /// True: the jobs are those of all namespaces.
    is_complete: bool,
}

impl QueueFollower {
    /// Reads the jobs and the queues.
    ///
    /// # Errors
    /// If the jobs cannot be read. Queues that the user may not see are no error.
    pub async fn start(reader: &Reader, scope: JobScope) -> Result<Self, ReadError> {
        let ScopedList {
            list,
            answer,
            is_complete,
        } = list_in_scope(reader, scope, JOBS_RIGHT).await?;
        let mut notes = Vec::new();
        if !is_complete && scope == JobScope::AllOrOwn {
            notes.push(format!(
                "only jobs of namespace {:?}: to see all jobs, you need the right to list jobstates.visibility.trellis.dev in all namespaces",
                reader.namespace
            ));
        }
        check(reader, scope, answer)?;
        let all = Api::<QueueState>::all(reader.client.clone());
        let mut queues = LiveList::new(all, reader.scheduler_timeout);
        let seen = queues.renew().await;
        let seen = seen.map_err(|error| explain_list(reader, error))?;
        Ok(Self {
            reader: reader.clone(),
            scope,
            jobs: list,
            queues: is_visible(&seen).then_some(queues),
            notes,
            is_complete,
        })
    }

    /// Waits until jobs or queues are known to be current again. A caller may drop the future.
    ///
    /// # Errors
    /// If the jobs cannot be read.
    pub async fn renew(&mut self) -> Result<(), ReadError> {
        // An event of the queues must not drop the list of the jobs.
        if self.jobs.lists_now() {
            let jobs = renew_jobs(&self.reader, &mut self.jobs).await?;
            return check(&self.reader, self.scope, jobs);
        }
        let queues = async {
            match &mut self.queues {
                Some(queues) => queues.renew().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            jobs = renew_jobs(&self.reader, &mut self.jobs) => {
                check(&self.reader, self.scope, jobs?)
            }
            seen = queues => {
                let seen = seen.map_err(|error| explain_list(&self.reader, error))?;
                if !is_visible(&seen) {
                    self.queues = None;
                }
                Ok(())
            }
        }
    }

    /// Returns true if the next renewal lists the jobs, which takes a while.
    #[must_use]
    pub fn lists_now(&self) -> bool {
        self.jobs.lists_now()
    }

    /// The jobs of the last look.
    #[must_use]
    pub const fn jobs(&self) -> &LiveObjects<JobState> {
        self.jobs.objects()
    }

    /// The queues of the last look. None: the user may not see them.
    #[must_use]
    pub fn queues(&self) -> Option<&LiveObjects<QueueState>> {
        let queues = self.queues.as_ref()?;
        queues.has_listed().then(|| queues.objects())
    }

    /// Facts that are missing, with the reasons.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns true if the jobs are those of all namespaces.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// A copy of the last look.
    #[must_use]
    pub fn reads(&self) -> QueueReads {
        let queues = self.queues();
        QueueReads {
            jobs: self.jobs().values().map(|job| (**job).clone()).collect(),
            queues: queues.map(|queues| queues.values().map(|queue| (**queue).clone()).collect()),
            notes: self.notes.clone(),
        }
    }
}

/// Returns true if the user may see the queues. While the scheduler does not answer, the last queues
/// stay.
fn is_visible(answer: &VisibilityAnswer<()>) -> bool {
    !matches!(
        answer,
        VisibilityAnswer::Denied(_) | VisibilityAnswer::NotFound
    )
}

async fn renew_jobs(
    reader: &Reader,
    jobs: &mut LiveList<JobState>,
) -> Result<VisibilityAnswer<()>, ReadError> {
    let answer = jobs.renew().await;
    answer.map_err(|error| explain_list(reader, error))
}

fn explain_list(reader: &Reader, error: ApiFailure) -> ReadError {
    reader.read_error(error, JOBS_RIGHT)
}

/// Fails if the jobs could not be read.
fn check(reader: &Reader, scope: JobScope, answer: VisibilityAnswer<()>) -> Result<(), ReadError> {
    if let VisibilityAnswer::Unavailable(reason) = answer {
        return Err(ReadError::unavailable(format!(
            "{reason}; `kubectl get tj -A` shows phases and reasons without it"
        )));
    }
    let place = match scope {
        JobScope::All => {
            "all namespaces; without -A, the command reads the namespace of the context".to_owned()
        }
        JobScope::AllOrOwn | JobScope::Own => format!("namespace {:?}", reader.namespace),
    };
    let right = format!("ask for the ClusterRole trellis-view, or view, in {place}");
    answer.into_result(&right).map(drop)
}
