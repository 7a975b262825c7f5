//! The changes that options of the command line make.

use std::num::NonZeroU32;
use std::str::FromStr;

use anyhow::{Context as _, anyhow, bail};
use trellis_api::Quantity;
use trellis_api::queue::StopPolicy;
use trellis_api::visibility::{
    AddedJob, AddedNodes, AddedTaskGroup, ChangedJob, ChangedQueue, ChangedQuota, ForecastChange,
    JobRef, NamedNode,
};
use trellis_simulate::scenario::TimeSpan;

/// Resource of the GPUs of an added job.
const GPU: &str = "nvidia.com/gpu";

/// Changes of the cluster. They are made in the order of this list, and nothing in the cluster
/// changes.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Changes")]
pub(super) struct ChangeOptions {
    /// Add empty nodes with the resources and labels of this node, such as gpu-0=4.
    #[arg(long, value_name = "NODE=COUNT")]
    add_nodes: Vec<String>,
    /// Make this cordoned, not ready or unhealthy node usable.
    #[arg(long, value_name = "NODE")]
    restore: Vec<String>,
    /// Cordon this node: its pods stay.
    #[arg(long, value_name = "NODE")]
    cordon: Vec<String>,
    /// Remove this node: its jobs lose their place and wait again.
    #[arg(long, value_name = "NODE")]
    remove_node: Vec<String>,
    /// Set a nominal quota, such as research:nvidia.com/gpu=64.
    /// With several flavors, name one: research:nvidia.com/gpu@h100=64.
    #[arg(long, value_name = "QUEUE:RESOURCE[@FLAVOR]=AMOUNT")]
    quota: Vec<String>,
    /// Set the priority of a queue among its siblings.
    #[arg(long, value_name = "QUEUE=PRIORITY")]
    queue_priority: Vec<String>,
    /// Stop a queue with Hold or HoldAndDrain, or open it with None. Default: Hold.
    #[arg(long, value_name = "QUEUE[=POLICY]")]
    stop_queue: Vec<String>,
    /// Remove this job.
    #[arg(long, value_name = "[NAMESPACE/]JOB")]
    remove_job: Vec<String>,
    /// Set the priority of a job.
    #[arg(long, value_name = "[NAMESPACE/]JOB=PRIORITY")]
    priority: Vec<String>,
    /// Set how long the run of a job takes in total, such as team-a/llm=90m.
    #[arg(long, value_name = "[NAMESPACE/]JOB=TIME")]
    runtime: Vec<String>,
    /// Move a waiting job to another queue.
    #[arg(long = "move", value_name = "[NAMESPACE/]JOB=QUEUE")]
    move_job: Vec<String>,
    /// Submit a job now, such as research=8x8 for 8 pods with 8 GPUs each.
    #[arg(long, value_name = "QUEUE=PODSxGPUS")]
    add_job: Vec<String>,
}

impl ChangeOptions {
    /// Returns the changes. `namespace` is for jobs that are written without one, and `first_number`
    /// is in the name of the first added job.
    pub(super) fn to_changes(
        &self,
        namespace: Option<&str>,
        first_number: usize,
    ) -> anyhow::Result<Vec<ForecastChange>> {
        let node = |name: &String| NamedNode { name: name.clone() };
        let mut changes = Vec::new();
        for text in &self.add_nodes {
            let (like, count) = parse_pair("--add-nodes", text)?;
            changes.push(ForecastChange::AddNodes(AddedNodes {
                like: like.to_owned(),
                count,
                labels: Default::default(),
            }));
        }
        changes.extend(
            self.restore
                .iter()
                .map(node)
                .map(ForecastChange::RestoreNode),
        );
        changes.extend(self.cordon.iter().map(node).map(ForecastChange::CordonNode));
        changes.extend(
            self.remove_node
                .iter()
                .map(node)
                .map(ForecastChange::RemoveNode),
        );
        for text in &self.quota {
            changes.push(ForecastChange::ChangeQueue(parse_quota(text)?));
        }
        for text in &self.queue_priority {
            let (name, priority) = parse_pair("--queue-priority", text)?;
            changes.push(ForecastChange::ChangeQueue(ChangedQueue {
                name: name.to_owned(),
                priority: Some(priority),
                ..ChangedQueue::default()
            }));
        }
        for text in &self.stop_queue {
            changes.push(ForecastChange::ChangeQueue(parse_stop(text)?));
        }
        for name in &self.remove_job {
            changes.push(ForecastChange::RemoveJob(parse_job(
                "--remove-job",
                name,
                namespace,
            )?));
        }
        for text in &self.priority {
            let (job, priority) = split_pair("--priority", text)?;
            let priority = Some(parse_value("--priority", text, priority)?);
            let change = changed_job("--priority", job, namespace)?;
            changes.push(ForecastChange::ChangeJob(ChangedJob { priority, ..change }));
        }
        for text in &self.runtime {
            let (job, time) = split_pair("--runtime", text)?;
            let time: TimeSpan = parse_value("--runtime", text, time)?;
            let runtime_seconds = Some(i64::try_from(time.0.as_secs()).unwrap_or(i64::MAX));
            let change = changed_job("--runtime", job, namespace)?;
            changes.push(ForecastChange::ChangeJob(ChangedJob {
                runtime_seconds,
                ..change
            }));
        }
        for text in &self.move_job {
            let (job, queue) = split_pair("--move", text)?;
            let queue = Some(queue.to_owned());
            let change = changed_job("--move", job, namespace)?;
            changes.push(ForecastChange::ChangeJob(ChangedJob { queue, ..change }));
        }
        for (text, number) in self.add_job.iter().zip(first_number..) {
            let job = parse_added_job(text, number, namespace)?;
            changes.push(ForecastChange::AddJob(job));
        }
        Ok(changes)
    }
}

fn parse_quota(text: &str) -> anyhow::Result<ChangedQueue> {
    let (path, amount) = split_pair("--quota", text)?;
    let (queue, resource) = path.split_once(':').ok_or_else(|| {
        anyhow!("--quota: {text:?} names no resource: write QUEUE:RESOURCE=AMOUNT")
    })?;
    let (resource, flavor) = match resource.rsplit_once('@') {
        Some((resource, flavor)) => (resource, Some(flavor.to_owned())),
        None => (resource, None),
    };
    let amount = Quantity::new(amount);
    amount
        .amount()
        .map_err(|error| anyhow!("--quota: {text:?}: {error}"))?;
    Ok(ChangedQueue {
        name: queue.to_owned(),
        quotas: vec![ChangedQuota {
            resource: resource.to_owned(),
            flavor,
            nominal: Some(amount),
            borrowing_limit: None,
            lending_limit: None,
        }],
        ..ChangedQueue::default()
    })
}

fn parse_stop(text: &str) -> anyhow::Result<ChangedQueue> {
    let (name, policy) = text.split_once('=').unwrap_or((text, "Hold"));
    let stop_policy = match policy {
        "None" => StopPolicy::None,
        "Hold" => StopPolicy::Hold,
        "HoldAndDrain" => StopPolicy::HoldAndDrain,
        _ => bail!("--stop-queue: {text:?}: the policy must be None, Hold or HoldAndDrain"),
    };
    Ok(ChangedQueue {
        name: name.to_owned(),
        stop_policy: Some(stop_policy),
        ..ChangedQueue::default()
    })
}

fn parse_added_job(text: &str, number: usize, namespace: Option<&str>) -> anyhow::Result<AddedJob> {
    let (queue, size) = split_pair("--add-job", text)?;
    let (pods, gpus) = size.split_once('x').ok_or_else(|| {
        anyhow!("--add-job: {text:?} has no size: write QUEUE=PODSxGPUS, such as research=8x8")
    })?;
    let gpus: NonZeroU32 = parse_value("--add-job", text, gpus)?;
    Ok(AddedJob {
        namespace: namespace.unwrap_or("default").to_owned(),
        name: format!("added-{number}"),
        queue: Some(queue.to_owned()),
        groups: vec![AddedTaskGroup {
            replicas: parse_value("--add-job", text, pods)?,
            requests: [(GPU.to_owned(), Quantity::from_units(gpus.get().into()))].into(),
        }],
        ..AddedJob::default()
    })
}

fn changed_job(option: &str, job: &str, namespace: Option<&str>) -> anyhow::Result<ChangedJob> {
    let JobRef { namespace, name } = parse_job(option, job, namespace)?;
    Ok(ChangedJob {
        namespace,
        name,
        priority: None,
        queue: None,
        runtime_seconds: None,
    })
}

fn parse_job(option: &str, text: &str, namespace: Option<&str>) -> anyhow::Result<JobRef> {
    let (namespace, name) = match (text.split_once('/'), namespace) {
        (Some(pair), _) => pair,
        (None, Some(namespace)) => (namespace, text),
        (None, None) => {
            bail!("{option}: {text:?} has no namespace: write NAMESPACE/JOB, or add -n")
        }
    };
    Ok(JobRef {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

fn parse_pair<'t, T>(option: &str, text: &'t str) -> anyhow::Result<(&'t str, T)>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    let (name, value) = split_pair(option, text)?;
    Ok((name, parse_value(option, text, value)?))
}

fn parse_value<T>(option: &str, text: &str, value: &str) -> anyhow::Result<T>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    let value = value.parse().map_err(|error| anyhow!("{error}"));
    value.with_context(|| format!("{option}: {text:?}"))
}

fn split_pair<'t>(option: &str, text: &'t str) -> anyhow::Result<(&'t str, &'t str)> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    pair.ok_or_else(|| anyhow!("{option}: {text:?} has no value: write NAME=VALUE"))
}
