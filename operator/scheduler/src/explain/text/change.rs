//! The sentence about the change that would let a gang run.

use std::fmt;

use super::{CountText, amount_text};
use crate::explain::{NodeRelease, QuotaRaise, UnblockingChange};
use crate::ids::ResourceName;

/// Maximum number of nodes or limits that a sentence names.
const MAX_NAMED: usize = 3;

impl fmt::Display for UnblockingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raise(raises) => write_list(f, raises),
            Self::Allow(more) => write_list(f, more),
            Self::Free(nodes) => {
                let alike = nodes.windows(2).all(|two| match two {
                    [a, b] => a.amounts == b.amounts,
                    _ => true,
                });
                match nodes.as_slice() {
                    [first, _, ..] if alike => {
                        write!(f, "{} more free on each of ", AmountList(&first.amounts))?;
                        let names = nodes.iter().take(MAX_NAMED);
                        for (i, on) in names.enumerate() {
                            let start = if i == 0 { "" } else { ", " };
                            write!(f, "{start}{:?}", on.node.as_str())?;
                        }
                    }
                    _ => {
                        for (i, NodeRelease { node, amounts }) in
                            nodes.iter().take(MAX_NAMED).enumerate()
                        {
                            let start = if i == 0 { "" } else { ", " };
                            let more = if i == 0 { " more free" } else { "" };
                            let amounts = AmountList(amounts);
                            write!(f, "{start}{amounts}{more} on {:?}", node.as_str())?;
                        }
                    }
                }
                write_rest(f, nodes.len(), "node")
            }
        }
    }
}

/// Writes the limits to raise.
fn write_list(f: &mut fmt::Formatter<'_>, limits: &[impl fmt::Display]) -> fmt::Result {
    for (i, limit) in limits.iter().take(MAX_NAMED).enumerate() {
        let start = if i == 0 { "" } else { ", " };
        write!(f, "{start}{limit}")?;
    }
    write_rest(f, limits.len(), "limit")
}

/// Writes the number of items that the sentence does not name.
fn write_rest(f: &mut fmt::Formatter<'_>, all: usize, what: &'static str) -> fmt::Result {
    match u32::try_from(all.saturating_sub(MAX_NAMED)) {
        Ok(0) | Err(_) => Ok(()),
        Ok(more) => write!(f, " and {} more", CountText(more, what)),
    }
}

impl fmt::Display for QuotaRaise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} more {}",
            amount_text(&self.resource, self.by),
            self.resource
        )?;
        if let Some(flavor) = &self.flavor {
            write!(f, " of flavor {:?}", flavor.as_str())?;
        }
        let limit = if self.borrowing_limit {
            "the borrowing limit"
        } else {
            "the quota"
        };
        write!(f, " in {limit} of queue {:?}", self.queue.as_str())
    }
}

/// `8 nvidia.com/gpu and 4 cpu`.
struct AmountList<'a>(&'a [(ResourceName, i128)]);

impl fmt::Display for AmountList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (resource, base_units)) in self.0.iter().enumerate() {
            let and = if i == 0 { "" } else { " and " };
            write!(f, "{and}{} {resource}", amount_text(resource, *base_units))?;
        }
        Ok(())
    }
}
