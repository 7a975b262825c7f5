//! Recorded jobs with their users, pools and durations: the Helios traces (Hu et al., SC '21), and
//! other tables with the same columns.

use std::collections::BTreeSet;
use std::time::Duration;

use trellis_api::job::Restart;
use trellis_scheduler::{
    Gang, GangId, GroupName, Queue, QueueName, QueueOrder, Resources, TaskGroup, Time,
};

use super::csv_table::{CsvRow, CsvTable, TableError};
use super::pools::{GPU, Pool};
use super::runner::{ScriptChange, ScriptJob, SimulationScript};

const COLUMNS: [&str; 7] = [
    "job_id",
    "user",
    "tenant",
    "submit_time",
    "num_chips",
    "num_nodes",
    "duration_s",
];

/// Recorded jobs.
#[derive(Clone, Debug)]
pub struct HeliosTrace {
    jobs: Vec<ScriptJob>,
}

/// Error of a recording.
#[derive(Debug, thiserror::Error)]
pub enum HeliosError {
    /// The table lacks a column or holds an unreadable value.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A job names a pool that does not exist.
    #[error("row {row}, column \"tenant\": there is no pool {pool:?}: add it to --nodes")]
    NoPool {
        /// The row, from 1, not counting the header.
        row: usize,
        /// The pool.
        pool: String,
    },
    /// The GPUs cannot be shared equally by the nodes.
    #[error(
        "row {row}, column \"num_nodes\": {gpus} GPUs cannot be shared equally by {nodes} nodes"
    )]
    Uneven {
        /// The row, from 1, not counting the header.
        row: usize,
        /// Number of GPUs that the job requests.
        gpus: i64,
        /// Number of nodes that the job requests.
        nodes: i64,
    },
}

impl HeliosTrace {
    /// Returns true if the header has the columns of this format.
    #[must_use]
    pub fn matches_header(table: &CsvTable) -> bool {
        table.has_column("num_chips")
    }

    /// Reads jobs with `job_id,user,tenant,submit_time,num_chips,num_nodes,duration_s` and,
    /// optionally, `walltime_limit_s`, the user's estimate of the duration. `tenant` is the pool;
    /// `submit_time` is in microseconds. A job is a gang of `num_nodes` pods that share its GPUs
    /// equally. Other columns are ignored.
    ///
    /// # Errors
    /// A column is missing, a value is invalid, or a pool does not exist.
    pub fn read(table: &CsvTable, pools: &[Pool]) -> Result<Self, HeliosError> {
        table.require_columns(&COLUMNS)?;
        let names: BTreeSet<&str> = pools.iter().map(|p| p.name.as_str()).collect();
        let jobs = table.rows().map(|row| parse_job(&row, &names));
        Ok(Self {
            jobs: jobs.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the pools, a queue for each pool, and the jobs in the order of their arrival.
    #[must_use]
    pub fn into_script(self, pools: &[Pool], order: QueueOrder) -> SimulationScript {
        let mut script = SimulationScript::new();
        let start = Time::default();
        for pool in pools {
            for node in pool.to_nodes() {
                script.add(start, ScriptChange::Node(node));
            }
            let queue = Queue {
                order,
                ..Queue::new(QueueName::new(pool.name.as_str()))
            };
            script.add(start, ScriptChange::Queue(queue));
        }
        for job in self.jobs {
            script.add(job.gang.submitted, ScriptChange::Job(Box::new(job)));
        }
        script
    }
}

fn parse_job(row: &CsvRow<'_>, pools: &BTreeSet<&str>) -> Result<ScriptJob, HeliosError> {
    let pool = row.text("tenant");
    if !pools.contains(pool) {
        return Err(HeliosError::NoPool {
            row: row.number,
            pool: pool.to_owned(),
        });
    }
    let (gpus, nodes) = (row.number("num_chips")?, row.number("num_nodes")?);
    let uneven = HeliosError::Uneven {
        row: row.number,
        gpus,
        nodes,
    };
    let even = gpus.checked_rem(nodes) == Some(0);
    let (Some(each), Ok(count)) = (
        gpus.checked_div(nodes).filter(|_| even),
        u32::try_from(nodes),
    ) else {
        return Err(uneven);
    };
    let seconds = |column| -> Result<Duration, TableError> {
        let seconds = row.decimal(column)?;
        Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    };
    let micros = row.number("submit_time")?;
    let id = row.text("job_id");
    let request = Resources::new().with(GPU, each);
    let group = TaskGroup {
        constraints: Pool::constraints(pool),
        ..TaskGroup::new(
            GroupName::new("worker"),
            count,
            request,
            format!("{id}-worker"),
        )
    };
    let declared = if row.text("walltime_limit_s").is_empty() {
        None
    } else {
        Some(seconds("walltime_limit_s")?)
    };
    let gang = Gang {
        submitted: Time::from_millis(micros.checked_div(1_000).unwrap_or(0)),
        runtime: declared,
        ..Gang::new(
            GangId::new(format!("{pool}/{id}")),
            QueueName::new(pool),
            vec![group],
        )
    };
    Ok(ScriptJob {
        gang,
        runtime: Some(seconds("duration_s")?),
        limit: None,
        gpu_hour_limits: Vec::new(),
        surplus: Vec::new(),
        restart: Restart::default(),
        prediction_key: format!("{pool}/{}", row.text("user")),
    })
}
