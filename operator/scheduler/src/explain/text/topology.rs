//! The sentences about topology domains that have no place for a gang.

use std::fmt;

use super::{CountText, GroupPrefix, verb};
use crate::explain::{BestDomain, MissingLevel, ScarceSlices, WaitDetail};
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
                    MissingLevel::Slices(level) => {
                        write!(f, ".slices: no Topology has a level {level:?}: ")?;
                    }
                    MissingLevel::SlicesElsewhere { level, outer } => {
                        return write!(
                            f,
                            ".slices: no Topology has both level {level:?} and the requested level \
                             {outer:?}: name levels of one Topology, or remove one of the two"
                        );
                    }
                    MissingLevel::SlicesNotFiner { coarser, finer } => {
                        return write!(
                            f,
                            ".slices: level {finer:?} must be finer than {coarser:?} and in the \
                             same Topology: name a finer level, or remove one of the two"
                        );
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
            Self::ExceedsSlices(slices) => slices.write_sentence(f, " even when empty"),
            Self::SlicesFragmented(slices) => slices.write_sentence(f, ""),
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
        write_unlabelled(f, *unlabelled, (level, labels))
    }
}

impl ScarceSlices {
    fn write_sentence(&self, f: &mut fmt::Formatter<'_>, when: &str) -> fmt::Result {
        let Self {
            group,
            level,
            labels,
            pods,
            slice_pods,
            fitting_slices,
            ..
        } = self;
        write!(
            f,
            "{}{} must be in slices of {slice_pods}, each in one domain of level {level:?}",
            GroupPrefix(group),
            CountText(*pods, "pod"),
        )?;
        if let Some((level, _)) = &self.within {
            write!(f, " and all in one domain of level {level:?}")?;
        }
        let Some(domain) = &self.domain else {
            return write!(
                f,
                ", and no node{} has the label{} {}: label the nodes, or use another level",
                Within(&self.within),
                if labels.len() == 1 { "" } else { "s" },
                join_quoted(labels, " and ")
            );
        };
        write!(
            f,
            ";{}{} {fitting_slices} of {} slices {} room{when}",
            Within(&self.within),
            if self.within.is_some() { "," } else { "" },
            self.slices(),
            verb(*fitting_slices, "has", "have"),
        )?;
        match self.fitting_pods {
            0 => f.write_str("; no domain has room for a pod of another slice")?,
            pods => write!(
                f,
                "; {domain:?} comes closest to another slice, with room for {pods} of its \
                 {slice_pods} pods"
            )?,
        }
        write_unlabelled(f, self.unlabelled, (level, labels))
    }
}

/// The domain in which all slices must be: ` in "a"`.
struct Within<'a>(&'a Option<(String, String)>);

impl fmt::Display for Within<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((_, domain)) => write!(f, " in {domain:?}"),
            None => Ok(()),
        }
    }
}

/// Writes how many nodes are in no domain.
fn write_unlabelled(
    f: &mut fmt::Formatter<'_>,
    nodes: u32,
    (level, labels): (&str, &[String]),
) -> fmt::Result {
    if nodes == 0 {
        return Ok(());
    }
    write!(
        f,
        "; {} {} in no domain of level {level:?}, because {} the label {}",
        CountText(nodes, "node"),
        verb(nodes, "is", "are"),
        verb(nodes, "it lacks", "they lack"),
        join_quoted(labels, " or ")
    )
}

/// Joins quoted keys, as in `"block", "rack"`, with `between` between them.
fn join_quoted(keys: &[String], between: &str) -> String {
    let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
    keys.join(between)
}
