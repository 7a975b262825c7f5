//! Which faults happened while which journals were open.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use trellis_api_server::ApiServer;

use crate::cluster;
use crate::script::Fault;

/// Number of faults of each kind while a journal was in each phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<(&'static str, String), u64>);

impl Coverage {
    /// Counts a fault that happens now.
    pub(crate) fn count(&mut self, fault: &Fault, server: &ApiServer) {
        for journal in server.list(&cluster::POD_GROUPS) {
            let phase = journal.value()["status"]["phase"]
                .as_str()
                .unwrap_or("none");
            *self.0.entry((fault.name(), phase.to_owned())).or_default() += 1;
        }
    }
}

impl AddAssign for Coverage {
    fn add_assign(&mut self, other: Self) {
        for (key, count) in other.0 {
            *self.0.entry(key).or_default() += count;
        }
    }
}

/// Renders a table with a line for each fault and a column for each phase.
impl fmt::Display for Coverage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut phases: Vec<&str> = self.0.keys().map(|(_, phase)| phase.as_str()).collect();
        phases.sort_unstable();
        phases.dedup();
        let mut faults: Vec<&str> = self.0.keys().map(|(fault, _)| *fault).collect();
        faults.dedup();
        write!(formatter, "{:<16}", "fault")?;
        for phase in &phases {
            write!(formatter, " {phase:>12}")?;
        }
        writeln!(formatter)?;
        for fault in faults {
            write!(formatter, "{fault:<16}")?;
            for phase in &phases {
                let counted = self.0.iter().find(|((f, p), _)| *f == fault && p == phase);
                write!(formatter, " {:>12}", counted.map_or(0, |(_, count)| *count))?;
            }
            writeln!(formatter)?;
        }
        Ok(())
    }
}
