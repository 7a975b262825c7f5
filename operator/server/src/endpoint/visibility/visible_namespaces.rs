//! The rows of `visiblenamespaces`: the namespaces whose jobs the caller may list. The API server
//! decides on each of them, by SubjectAccessReview.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::ResourceExt as _;
use kube::api::{ObjectMeta, TypeMeta};
use serde_json::{Value, json};
use tokio::time::Instant;
use trellis_api::job::TrainingJobStatus;
use trellis_api::visibility::{JobState, ServedResource, VisibleNamespace};
use trellis_dispatch::context::Context;
use trellis_machine::clock;

use super::row_set::RowSet;
use super::table::{Column, TableRow};
use super::watch::UNKNOWN_VERSION;
use crate::callers::access::{RequiredRight, ResourceRight};
use crate::callers::fair_turns::FairTurns;
use crate::callers::ttl_cache::{self, TtlCache};
use crate::callers::{Caller, Failure};

/// Most namespaces to review. Namespaces with jobs come first.
const MAX_NAMESPACES: usize = 1_000;
/// How long the answer for a user is kept.
const ANSWER_TTL: Duration = Duration::from_secs(15);
/// Most answers that are computed at once, each for another user.
const MAX_COMPUTED: usize = 4;
/// Most reviews of one answer in flight.
const CONCURRENT_REVIEWS: usize = 2;

/// Rows of a user.
type Rows = Arc<RowSet<VisibleNamespace>>;

/// The namespaces of each user that asked a moment ago.
pub(in crate::endpoint) struct NamespaceReviews {
    answers: TtlCache<String, Rows>,
    turns: FairTurns<String>,
}

impl Default for NamespaceReviews {
    fn default() -> Self {
        Self {
            answers: TtlCache::new(ANSWER_TTL),
            turns: FairTurns::new(MAX_COMPUTED, 1),
        }
    }
}

impl NamespaceReviews {
    /// Returns the namespaces in which the caller may list jobs.
    pub(super) async fn rows(
        &self,
        context: &Context,
        caller: &Caller<'_>,
        user: &UserInfo,
    ) -> Result<Rows, Failure> {
        let key = ttl_cache::user_key(user);
        if let Some(rows) = key.as_ref().and_then(|key| self.answers.get(key)) {
            return Ok(rows);
        }
        let name = user.username.clone().unwrap_or_default();
        let turn = self.turns.acquire(name).await;
        let _turn = turn.map_err(|_| Failure::unavailable())?;
        // An earlier request of the user may have computed the answer meanwhile.
        if let Some(rows) = key.as_ref().and_then(|key| self.answers.get(key)) {
            return Ok(rows);
        }
        let asked_at = Instant::now();
        let (rows, is_costly) = review(count_jobs(context), caller, user).await?;
        let rows = Arc::new(RowSet::new(clock::now(), UNKNOWN_VERSION, rows));
        // A user with all rights needs two reviews, and has the largest answer.
        if let Some(key) = key.filter(|_| is_costly) {
            self.answers.insert(key, asked_at, rows.clone());
        }
        Ok(rows)
    }
}

/// Returns the number of jobs in each namespace that have not ended.
fn count_jobs(context: &Context) -> BTreeMap<String, i64> {
    let namespaces = context.cache.namespaces.all();
    let names = namespaces.iter().map(|namespace| (namespace.name_any(), 0));
    let mut counts: BTreeMap<String, i64> = names.collect();
    for job in context.cache.jobs.all() {
        let status = job.status.as_ref();
        let own = job.metadata.namespace.as_deref().unwrap_or_default();
        if let Some(count) = counts.get_mut(own)
            && !status.is_some_and(TrainingJobStatus::has_ended)
        {
            *count = count.saturating_add(1);
        }
    }
    counts
}

/// Reviews the rights of the user in these namespaces. A right in all namespaces needs one review.
/// Returns the rows, and true if each namespace was reviewed.
async fn review(
    namespaces: BTreeMap<String, i64>,
    caller: &Caller<'_>,
    user: &UserInfo,
) -> Result<(Vec<VisibleNamespace>, bool), Failure> {
    let lists_all = caller.has_right(user, list_right(None)).await?;
    let submit_right = RequiredRight::SubmitJobs(None);
    let submits_anywhere = caller.has_right(user, submit_right).await?;
    let mut namespaces: Vec<(String, i64)> = namespaces.into_iter().collect();
    let is_costly = !(lists_all && submits_anywhere);
    if is_costly {
        namespaces.sort_by_key(|(_, jobs)| *jobs == 0);
        namespaces.truncate(MAX_NAMESPACES);
    }
    let reviewed = namespaces.into_iter().map(async |(name, jobs)| {
        let namespace = Some(name.as_str());
        if !lists_all && !caller.has_right(user, list_right(namespace)).await? {
            return Ok(None);
        }
        let right = RequiredRight::SubmitJobs(namespace);
        let may_submit = submits_anywhere || caller.has_right(user, right).await?;
        Ok(Some(row(name, jobs, may_submit)))
    });
    let rows = futures::stream::iter(reviewed).buffer_unordered(CONCURRENT_REVIEWS);
    let rows = rows.try_filter_map(async |row| Ok::<_, Failure>(row));
    let mut rows: Vec<VisibleNamespace> = rows.try_collect().await?;
    rows.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    Ok((rows, is_costly))
}

fn list_right(namespace: Option<&str>) -> RequiredRight<'_> {
    RequiredRight::Resource(ResourceRight {
        resource: JobState::SERVED.plural,
        verb: "list",
        namespace,
        name: None,
    })
}

fn row(name: String, jobs: i64, may_submit: bool) -> VisibleNamespace {
    VisibleNamespace {
        types: TypeMeta::resource::<VisibleNamespace>(),
        metadata: ObjectMeta {
            name: Some(name),
            ..ObjectMeta::default()
        },
        jobs,
        may_submit,
    }
}

impl TableRow for VisibleNamespace {
    const SERVED: &'static ServedResource = &Self::SERVED;
    const ABSENT: &'static str = "it does not exist, or you may not list its jobs";
    const COLUMNS: &'static [Column] = &[
        Column::text("Name", "Name of the namespace."),
        Column::number("Jobs", "TrainingJobs that have not ended."),
        Column::text("Submit", "True if you may create TrainingJobs."),
    ];

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn cells(&self, _: Timestamp) -> Vec<Value> {
        vec![
            json!(self.metadata.name),
            json!(self.jobs),
            json!(self.may_submit.to_string()),
        ]
    }
}
