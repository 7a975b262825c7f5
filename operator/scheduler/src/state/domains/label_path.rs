//! The labels that put a node into the domains of a topology.

use std::sync::Arc;

/// The value of a label. Nodes that lack it come after those that have it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LabelValue {
    Value(Arc<str>),
    /// The label is missing, or the label of a coarser level is.
    Missing,
}

/// A node's labels of all levels, coarse to fine.
pub(super) type LabelPath = Arc<[LabelValue]>;

/// Returns the number of levels, from the coarsest on, in which two paths agree.
pub(super) fn common_depth(a: &LabelPath, b: &LabelPath) -> usize {
    if Arc::ptr_eq(a, b) {
        return a.len();
    }
    a.iter().zip(b.iter()).take_while(|(a, b)| a == b).count()
}

/// Returns the label values down to a level, coarse to fine: `block-1/rack-3`.
pub(super) fn name_to_depth(path: &LabelPath, depth: usize) -> String {
    let labels = path.get(..=depth).unwrap_or(&[]);
    let values: Vec<&str> = labels
        .iter()
        .map(|label| match label {
            LabelValue::Value(value) => &**value,
            LabelValue::Missing => "",
        })
        .collect();
    values.join("/")
}
