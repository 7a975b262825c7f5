//! Results of a simulation.

use serde::Serialize;

use super::repacking::RepackingSummary;

/// Results of a simulation. Fields that its protocol lacks are null.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulationSummary {
    /// Submitted jobs.
    pub jobs: usize,
    /// Jobs that were placed.
    pub placed: usize,
    /// Jobs that completed their work.
    pub finished: usize,
    /// Mean time from submission to the first start.
    pub mean_wait_seconds: Option<f64>,
    /// Median time from submission to the first start.
    pub p50_wait_seconds: Option<f64>,
    /// 99th percentile of the time from submission to the first start.
    pub p99_wait_seconds: Option<f64>,
    /// Mean time from submission to end.
    pub mean_completion_seconds: Option<f64>,
    /// GPUs that the jobs requested, in percent of all GPUs.
    pub arrived_gpu_percent: Option<f64>,
    /// GPUs in use, in percent of all GPUs: the mean over time, or the value at the end if no job
    /// ends.
    pub allocated_gpu_percent: f64,
    /// Free GPUs on partly used nodes: the mean over time.
    pub stranded_gpus: Option<f64>,
    /// Number of preemptions.
    pub preemptions: usize,
    /// The longest time that a job was head of its queue, in seconds.
    pub longest_head_wait_seconds: Option<f64>,
    /// Results by the number of requested GPUs.
    pub by_size: Vec<SizeRow>,
    /// Entirely free racks, and gangs that need one. Only generated workloads have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domains: Option<DomainSummary>,
    /// Hours and orders of nodes. Only scenarios with flavors that may get new nodes, and generated
    /// workloads have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeSummary>,
    /// Results with one large node in place of equal nodes. Only traces with durations, and generated
    /// workloads without an autoscaler have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repacked: Option<RepackingSummary>,
    /// Simulated time at the end.
    pub end_seconds: Option<f64>,
    /// True if every expectation held.
    pub expects_held: Option<bool>,
    /// Results of the expectations, by time.
    pub expects: Vec<ExpectationResult>,
    /// Real time of the run, which the caller measures.
    pub wall_seconds: Option<f64>,
}

/// Results for the jobs of one size class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeRow {
    /// The size class in GPUs: `9..16`.
    pub gpus: String,
    /// Number of submitted jobs.
    pub jobs: usize,
    /// Mean time from submission to the first start.
    pub mean_wait_seconds: Option<f64>,
    /// Mean time from submission to end, as a multiple of the runtime. Runtimes below 10 s count as
    /// 10 s.
    pub mean_bounded_slowdown: Option<f64>,
}

/// Entirely free domains of a level, and gangs that fill a domain and must be in one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DomainSummary {
    /// The level, such as `rack`.
    pub level: String,
    /// Number of domains.
    pub domains: usize,
    /// Mean number of domains that are entirely free, over time.
    pub mean_free: f64,
    /// Percentage of the time without an entirely free domain.
    pub none_free_percent: f64,
    /// Number of started gangs that fill a domain.
    pub gangs: usize,
    /// Mean time of these gangs from submission to the first start.
    pub mean_wait_seconds: Option<f64>,
    /// Median of that time.
    pub p50_wait_seconds: Option<f64>,
    /// 99th percentile of that time.
    pub p99_wait_seconds: Option<f64>,
}

/// Hours and orders of nodes, from the first job to the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeSummary {
    /// Hours that nodes existed, added up.
    pub hours: f64,
    /// Hours that nodes existed without a pod, added up.
    pub idle_hours: f64,
    /// The most nodes at one time.
    pub most: u32,
    /// Orders of new nodes, each for one gang.
    pub orders: usize,
    /// Orders whose nodes did not come in time.
    pub failed_orders: usize,
    /// Nodes that the autoscaler bought.
    pub bought: usize,
    /// Nodes that arrived. The other ones were cancelled, or are still coming.
    pub arrived: usize,
}

/// Result of an expectation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExpectationResult {
    /// Time, in seconds.
    pub t: f64,
    /// True if the expectation held.
    pub held: bool,
    /// The difference; empty if the expectation held.
    pub reason: String,
}

impl DomainSummary {
    /// Renders the table for users, which follows the size classes.
    fn render_table(&self) -> String {
        let Self { level, domains, .. } = self;
        let time = |seconds: Option<f64>| seconds.map_or("-".to_owned(), |s| format!("{s:.0} s"));
        let rows = [
            (
                format!("free {level}s of {domains}"),
                format!("{:.2}", self.mean_free),
            ),
            (
                format!("no free {level}"),
                format!("{:.2} %", self.none_free_percent),
            ),
            (format!("gangs of a {level}"), self.gangs.to_string()),
            ("their mean wait".to_owned(), time(self.mean_wait_seconds)),
            ("their p50 wait".to_owned(), time(self.p50_wait_seconds)),
            ("their p99 wait".to_owned(), time(self.p99_wait_seconds)),
        ];
        let rows = rows.map(|(name, value)| format!("{name:<18} {value:>12}\n"));
        format!("\n{}", rows.concat())
    }
}

impl NodeSummary {
    /// Renders the table for users, which follows the size classes.
    fn render_table(&self) -> String {
        let idle_percent = match self.hours {
            hours if hours > 0.0 => 100.0 * self.idle_hours / hours,
            _ => 0.0,
        };
        let rows = [
            ("node-hours", format!("{:.1}", self.hours)),
            ("idle node-hours", format!("{:.1}", self.idle_hours)),
            ("idle", format!("{idle_percent:.2} %")),
            ("most nodes", self.most.to_string()),
            ("orders", self.orders.to_string()),
            ("failed orders", self.failed_orders.to_string()),
            ("nodes bought", self.bought.to_string()),
            ("nodes arrived", self.arrived.to_string()),
        ];
        let rows = rows.map(|(name, value)| format!("{name:<18} {value:>12}\n"));
        format!("\n{}", rows.concat())
    }
}

impl SimulationSummary {
    /// Renders the results as a table for users, one number per line. Missing fields are left out.
    #[must_use]
    pub fn render_table(&self) -> String {
        let time = |seconds: Option<f64>| seconds.map(|s| format!("{s:.0} s"));
        let percent = |percent: f64| format!("{percent:.2} %");
        let rows = [
            ("jobs", Some(self.jobs.to_string())),
            ("placed", Some(self.placed.to_string())),
            (
                "finished",
                self.end_seconds.map(|_| self.finished.to_string()),
            ),
            ("mean wait", time(self.mean_wait_seconds)),
            ("p50 wait", time(self.p50_wait_seconds)),
            ("p99 wait", time(self.p99_wait_seconds)),
            ("longest at a head", time(self.longest_head_wait_seconds)),
            ("mean completion", time(self.mean_completion_seconds)),
            ("GPU arrived", self.arrived_gpu_percent.map(percent)),
            ("GPU allocated", Some(percent(self.allocated_gpu_percent))),
            (
                "GPUs stranded",
                self.stranded_gpus.map(|gpus| format!("{gpus:.2}")),
            ),
            ("preemptions", Some(self.preemptions.to_string())),
            ("end", time(self.end_seconds)),
            (
                "wall time",
                self.wall_seconds.map(|wall| format!("{wall:.2} s")),
            ),
        ];
        let rows = rows.into_iter().filter_map(|(name, value)| {
            let value = value?;
            Some(format!("{name:<18} {value:>12}\n"))
        });
        let mut text: String = rows.collect();
        if !self.by_size.is_empty() {
            text.push_str(&format!(
                "\n{:<10} {:>8} {:>12} {:>18}\n",
                "GPUs", "jobs", "mean wait", "bounded slowdown"
            ));
        }
        for row in &self.by_size {
            let wait = time(row.mean_wait_seconds).unwrap_or_else(|| "-".to_owned());
            let slowdown = row.mean_bounded_slowdown;
            let slowdown = slowdown.map_or("-".to_owned(), |s| format!("{s:.2}"));
            text.push_str(&format!(
                "{:<10} {:>8} {wait:>12} {slowdown:>18}\n",
                row.gpus, row.jobs
            ));
        }
        if let Some(domains) = &self.domains {
            text.push_str(&domains.render_table());
        }
        if let Some(nodes) = &self.nodes {
            text.push_str(&nodes.render_table());
        }
        if let Some(repacked) = &self.repacked {
            text.push_str(&repacked.render_table());
        }
        if !self.expects.is_empty() {
            text.push('\n');
        }
        for expect in &self.expects {
            let (t, reason) = (expect.t, &expect.reason);
            if expect.held {
                text.push_str(&format!("as expected at {t} s\n"));
            } else {
                text.push_str(&format!("not as expected at {t} s: {reason}\n"));
            }
        }
        text
    }
}
