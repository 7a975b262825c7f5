//! The sentences about topology domains that have no place for a gang.

use std::fmt;

use super::{CountText, GroupPrefix, verb};
use crate::explain::{BestDomain, MissingLevel, WaitDetail};
use crate::topology::NODE_LEVEL;

impl WaitDetail {
    /// Writes the sentences about topology.
    pub(super) fn write_topology(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TopologyNotFound {
                group,
                missing,
                levels,
            } => {
                write!(f, "{}topology", GroupPrefix(group))?;
                match missing {
                    MissingLevel::Required(level) => {
                        write!(f, ".required: no Topology has a level {level:?}: ")?;
                    }
                    MissingLevel::Preferred(level) => {
                        write!(f, ".preferred: no Topology has a level {level:?}: ")?;
                    }
                    MissingLevel::NotFiner {
                        required,
                        preferred,
                    } => {
                        return write!(
                            f,
                            ".preferred: {preferred:?} is no finer level than {required:?} in \
                             the same Topology: name a finer one, or remove one of both"
                        );
                    }
                }
                if levels.is_empty() {
                    return f.write_str("create one that has it (there is none)");
                }
                write!(
                    f,
                    "name one of {}, or create a Topology that has it",
                    join_quoted(levels, ", ")
                )
            }
            Self::ExceedsTopology(domain) => {
                domain.write_sentence(f, "largest", " even when empty")
            }
            Self::TopologyFragmented { domain, certain } => {
                domain.write_sentence(f, "best", "")?;
                if *certain {
                    return Ok(());
                }
                f.write_str("; not every way was tried")
            }
            _ => Ok(()),
        }
    }
}

impl BestDomain {
    fn write_sentence(&self, f: &mut fmt::Formatter<'_>, best: &str, when: &str) -> fmt::Result {
        let Self {
            group,
            level,
            labels,
            pods,
            fitting_pods: holds,
            domains,
            unlabelled,
            ..
        } = self;
        write!(
            f,
            "{}{} must be ",
            GroupPrefix(group),
            CountText(*pods, "pod")
        )?;
        match level == NODE_LEVEL {
            true => f.write_str("on one node")?,
            false => write!(f, "in one domain of level {level:?}")?,
        }
        match &self.domain {
            None => {
                return write!(
                    f,
                    ", and no node has the label{} {}: label the nodes, or ask for another level",
                    if labels.len() == 1 { "" } else { "s" },
                    join_quoted(labels, " and ")
                );
            }
            Some(_) if holds >= pods => write!(
                f,
                ", and {} {} not hold all together as close as they must be{when}",
                CountText(*domains, "domain"),
                verb(*domains, "does", "do"),
            )?,
            Some(name) => write!(
                f,
                "; {name:?}, the {best} of {domains}, has room for {holds}{when}"
            )?,
        }
        if *unlabelled > 0 {
            write!(
                f,
                "; {} {} in none, for want of label {}",
                CountText(*unlabelled, "node"),
                verb(*unlabelled, "is", "are"),
                join_quoted(labels, " or ")
            )?;
        }
        Ok(())
    }
}

/// Joins quoted keys, as in `"block", "rack"`, with `between` between them.
fn join_quoted(keys: &[String], between: &str) -> String {
    let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
    keys.join(between)
}
