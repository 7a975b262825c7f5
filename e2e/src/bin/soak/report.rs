//! The report of the soak, and its verdict.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;

use crate::probe::Placement;
use crate::rest::RestMeasurement;
use crate::statistics::{percentile, slope};

/// Greatest growth of the leader's memory at rest, in MiB an hour.
pub(crate) const MAX_SLOPE: f64 = 16.0;
/// The memory of a young process grows until its caches are full: a slope over less time than this
/// many hours says nothing.
const MIN_SLOPE_HOURS: f64 = 0.5;
/// Number of open files by which one process may grow: connections of watches and requests.
const MAX_FILE_GROWTH: usize = 16;

/// All that was counted and measured.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) minutes: f64,
    pub(crate) seed: u64,
    pub(crate) rounds: usize,
    pub(crate) submitted: usize,
    pub(crate) ended: usize,
    pub(crate) faults: BTreeMap<&'static str, usize>,
    /// Number of processes of the operator.
    pub(crate) processes: usize,
    pub(crate) broken_rules: Vec<String>,
    pub(crate) errors: Vec<String>,
    pub(crate) unfinished: Vec<String>,
    pub(crate) placements: Vec<Placement>,
    pub(crate) rests: Vec<RestMeasurement>,
}

impl Report {
    /// Returns the measurements of the process that has the most.
    fn longest_series(&self) -> Vec<&RestMeasurement> {
        let mut series: BTreeMap<u32, Vec<&RestMeasurement>> = BTreeMap::new();
        for rest in &self.rests {
            series.entry(rest.leader.process).or_default().push(rest);
        }
        series
            .into_values()
            .max_by_key(Vec::len)
            .unwrap_or_default()
    }

    /// Returns the growth of the memory of one leader in MiB an hour, and the hours in which it was
    /// measured. None: no process led long enough.
    fn memory_slope(&self) -> Option<(f64, f64)> {
        let series = self.longest_series();
        let hours = series.last()?.hours - series.first()?.hours;
        let points: Vec<_> = series
            .iter()
            .map(|rest| (rest.hours, rest.leader.memory))
            .collect();
        let slope = slope(&points)?;
        (hours >= MIN_SLOPE_HOURS).then_some((slope, hours))
    }

    /// Records that something has not gone in time.
    pub(crate) fn note_leftover(&mut self, deleted: Result<()>) {
        self.unfinished
            .extend(deleted.err().map(|error| format!("{error:#}")));
    }

    /// Describes all that is wrong. Empty: the soak has passed.
    pub(crate) fn problems(&self) -> Vec<String> {
        let lists = [&self.broken_rules, &self.errors, &self.unfinished];
        let mut problems: Vec<String> = lists.into_iter().flatten().cloned().collect();
        if let Some((slope, hours)) = self.memory_slope()
            && slope > MAX_SLOPE
        {
            problems.push(format!(
                "memory: the leader grows by {slope:.1} MiB an hour, measured over {hours:.1} hours; at most {MAX_SLOPE} is normal"
            ));
        }
        let series = self.longest_series();
        if let [first, .., last] = series.as_slice()
            && last.leader.open_files > first.leader.open_files + MAX_FILE_GROWTH
        {
            problems.push(format!(
                "open files: {} at first, {} at last in process {}",
                first.leader.open_files, last.leader.open_files, last.leader.process
            ));
        }
        problems
    }

    fn latencies(&self, is_disturbed: bool) -> String {
        let of_kind = |placement: &&Placement| placement.is_disturbed == is_disturbed;
        let seconds: Vec<f64> = self
            .placements
            .iter()
            .filter(of_kind)
            .map(|placement| placement.seconds)
            .collect();
        match (percentile(&seconds, 0.5), percentile(&seconds, 0.99)) {
            (Some(median), Some(p99)) => {
                format!("{median:.2} s, {p99:.2} s ({} gangs)", seconds.len())
            }
            _ => "none".to_owned(),
        }
    }

    /// Returns the state in one line.
    pub(crate) fn line(&self) -> String {
        let faults: usize = self.faults.values().sum();
        format!(
            "{:.0} min: {} jobs submitted, {} ended, {faults} faults, {} broken rules, {} unfinished, {} ERROR lines, {} processes; to placed p50, p99: {}; with faults: {}",
            self.minutes,
            self.submitted,
            self.ended,
            self.broken_rules.len(),
            self.unfinished.len(),
            self.errors.len(),
            self.processes,
            self.latencies(false),
            self.latencies(true),
        )
    }

    /// Returns the table of the end, in Markdown.
    pub(crate) fn table(&self) -> String {
        let mut table = String::from("| | |\n|---|---|\n");
        let mut row = |name: &str, value: String| {
            // Writing to a String does not fail.
            let _ = writeln!(table, "| {name} | {value} |");
        };
        let faults = self
            .faults
            .iter()
            .map(|(name, count)| format!("{count} {name}"));
        let faults: Vec<_> = faults.collect();
        row(
            "duration",
            format!(
                "{:.0} minutes, {} rounds from seed {}",
                self.minutes, self.rounds, self.seed
            ),
        );
        row(
            "jobs submitted, ended",
            format!("{}, {}", self.submitted, self.ended),
        );
        row(
            "faults",
            format!(
                "{}: {}",
                self.faults.values().sum::<usize>(),
                faults.join(", ")
            ),
        );
        row("processes of the operator", self.processes.to_string());
        row("broken rules", self.broken_rules.len().to_string());
        row(
            "jobs or objects that do not end",
            self.unfinished.len().to_string(),
        );
        row("ERROR lines", self.errors.len().to_string());
        row(
            "from apply to placed without a fault, p50 and p99",
            self.latencies(false),
        );
        row(
            "the same during faults and 30 s after them",
            self.latencies(true),
        );
        row(
            "memory of the leader at rest, first, last, greatest",
            self.memory(),
        );
        let slope = self.memory_slope();
        row(
            "its growth in one process",
            match slope {
                Some((slope, hours)) => format!(
                    "{slope:.1} MiB an hour over {:.0} minutes (at most {MAX_SLOPE})",
                    hours * 60.0
                ),
                None => "not measured: no process led at rest for half an hour".to_owned(),
            },
        );
        let files = |rest: &&RestMeasurement| rest.leader.open_files;
        let series = self.longest_series();
        row(
            "open files of that process, first and last",
            format!(
                "{}, {}",
                series.first().map_or(0, files),
                series.last().map_or(0, files)
            ),
        );
        let writes: Vec<f64> = self
            .rests
            .iter()
            .map(|rest| rest.writes_per_minute)
            .collect();
        row(
            "writes a minute at rest, median and greatest",
            format!(
                "{:.0}, {:.0}",
                percentile(&writes, 0.5).unwrap_or_default(),
                percentile(&writes, 1.0).unwrap_or_default()
            ),
        );
        table
    }

    fn memory(&self) -> String {
        let memory: Vec<f64> = self.rests.iter().map(|rest| rest.leader.memory).collect();
        let greatest = percentile(&memory, 1.0).unwrap_or_default();
        let (first, last) = (memory.first().copied(), memory.last().copied());
        format!(
            "{:.0}, {:.0}, {greatest:.0} MiB",
            first.unwrap_or_default(),
            last.unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::LeaderState;

    fn rest(hours: f64, process: u32, memory: f64, open_files: usize) -> RestMeasurement {
        RestMeasurement {
            hours,
            leader: LeaderState {
                replica: "operator-0".to_owned(),
                process,
                memory,
                open_files,
            },
            writes_per_minute: 0.0,
        }
    }

    fn report(rests: Vec<RestMeasurement>) -> Report {
        Report {
            rests,
            ..Report::default()
        }
    }

    #[test]
    fn growth_is_measured_within_one_process() {
        let new_process_is_larger = report(vec![rest(0.0, 1, 100.0, 30), rest(1.0, 2, 200.0, 90)]);
        assert_eq!(new_process_is_larger.problems(), Vec::<String>::new());
        let grows = vec![
            rest(0.0, 1, 90.0, 30),
            rest(0.5, 2, 100.0, 30),
            rest(1.0, 2, 109.0, 30),
        ];
        let problems = report(grows).problems();
        assert!(
            problems[0].contains("grows by 18.0 MiB an hour"),
            "{problems:?}"
        );
    }

    #[test]
    fn growth_of_a_young_process_is_no_problem() {
        let young = report(vec![rest(0.1, 1, 100.0, 30), rest(0.2, 1, 120.0, 30)]);
        assert_eq!(young.problems(), Vec::<String>::new());
        assert!(young.table().contains("not measured"));
    }

    #[test]
    fn open_files_that_grow_are_a_problem() {
        let leak = report(vec![rest(0.0, 1, 100.0, 30), rest(0.1, 1, 100.0, 47)]);
        let problems = leak.problems();
        assert!(
            problems[0].starts_with("open files: 30 at first, 47"),
            "{problems:?}"
        );
    }

    #[test]
    fn line_separates_gangs_that_meet_a_fault() {
        let placement = |seconds, is_disturbed| Placement {
            seconds,
            is_disturbed,
        };
        let report = Report {
            placements: vec![placement(0.1, false), placement(20.0, true)],
            ..Report::default()
        };
        let line = report.line();
        assert!(
            line.contains("p99: 0.10 s, 0.10 s (1 gangs); with faults: 20.00 s"),
            "{line}"
        );
    }
}
