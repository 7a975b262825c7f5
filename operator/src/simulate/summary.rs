//! What a simulation comes to.

use serde::Serialize;

/// The end of a simulation. What its protocol does not have is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Jobs that came.
    pub jobs: usize,
    /// Jobs that were placed.
    pub placed: usize,
    /// From submission to start.
    pub mean_wait_seconds: Option<f64>,
    /// 99 of 100 waited no longer.
    pub p99_wait_seconds: Option<f64>,
    /// From submission to end.
    pub mean_completion_seconds: Option<f64>,
    /// Devices that came with the jobs, in percent of those that there are.
    pub arrived_gpu_percent: f64,
    /// Devices that are held at the end, in percent of those that there are.
    pub allocated_gpu_percent: f64,
    /// Jobs that had to give up their place.
    pub preemptions: usize,
    /// How long the engine took, in real time. Whoever runs the simulation has the clock.
    pub wall_seconds: f64,
}

impl Summary {
    /// For people: a line a number.
    #[must_use]
    pub fn table(&self) -> String {
        let time = |seconds: Option<f64>| seconds.map_or("-".to_owned(), |s| format!("{s:.0} s"));
        let rows = [
            ("jobs", self.jobs.to_string()),
            ("placed", self.placed.to_string()),
            ("mean wait", time(self.mean_wait_seconds)),
            ("p99 wait", time(self.p99_wait_seconds)),
            ("mean completion", time(self.mean_completion_seconds)),
            ("GPU arrived", format!("{:.2} %", self.arrived_gpu_percent)),
            (
                "GPU allocated",
                format!("{:.2} %", self.allocated_gpu_percent),
            ),
            ("preemptions", self.preemptions.to_string()),
            ("wall time", format!("{:.2} s", self.wall_seconds)),
        ];
        let lines = rows.map(|(name, value)| format!("{name:<16} {value:>12}\n"));
        lines.concat()
    }
}
