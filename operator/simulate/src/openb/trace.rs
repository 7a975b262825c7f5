//! Nodes and pods from their tables.

use crate::csv_table::{CsvRow, CsvTable, TableError};

/// Largest number of GPUs of a node. Pods arrive until they have requested all GPUs, so a larger
/// number would take too long.
const MAX_GPUS: i64 = 1024;

/// Thousandths of a whole GPU.
pub(super) const WHOLE_GPU: i64 = 1_000;

/// The nodes and pods of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenbTrace {
    pub(super) nodes: Vec<OpenbNode>,
    /// The pods, sorted by name.
    pub(super) pods: Vec<OpenbPod>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenbNode {
    pub(super) name: String,
    pub(super) cpu_milli: i64,
    pub(super) memory_mib: i64,
    pub(super) gpus: i64,
    pub(super) model: String,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OpenbPod {
    pub(super) name: String,
    pub(super) cpu_milli: i64,
    pub(super) memory_mib: i64,
    pub(super) gpus: i64,
    /// Thousandths of each GPU. Below 1000, the pod requests a part of one GPU.
    pub(super) gpu_milli: i64,
    /// The accepted GPU models. Empty: every model.
    pub(super) models: Vec<String>,
}

impl OpenbPod {
    /// Returns the requested GPUs in thousandths.
    pub(super) fn gpu_demand(&self) -> i64 {
        self.gpus.saturating_mul(self.gpu_milli)
    }
}

impl OpenbTrace {
    /// Returns true if the header has the columns of a pod list of this format.
    #[must_use]
    pub fn matches_header(table: &CsvTable) -> bool {
        table.has_column("num_gpu")
    }

    /// Reads nodes with `sn,cpu_milli,memory_mib,gpu,model`, and pods with
    /// `name,cpu_milli,memory_mib,num_gpu,gpu_milli` and, optionally, `gpu_spec`: GPU models,
    /// separated by `|`. Other columns are ignored.
    ///
    /// # Errors
    ///
    /// A column is missing, or a value is invalid.
    pub fn read(nodes: &CsvTable, pods: &CsvTable) -> Result<Self, TableError> {
        nodes.require_columns(&["sn", "cpu_milli", "memory_mib", "gpu", "model"])?;
        pods.require_columns(&["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"])?;
        let nodes: Result<Vec<OpenbNode>, _> = nodes.rows().map(|row| parse_node(&row)).collect();
        let pods: Result<Vec<OpenbPod>, _> = pods.rows().map(|row| parse_pod(&row)).collect();
        let (nodes, mut pods) = (nodes?, pods?);
        if nodes.is_empty() {
            return Err(TableError::Empty("node"));
        }
        if pods.is_empty() {
            return Err(TableError::Empty("job"));
        }
        pods.sort();
        Ok(Self { nodes, pods })
    }

    /// Returns the GPUs of all nodes in thousandths.
    pub(super) fn capacity(&self) -> i64 {
        let gpus = self.nodes.iter().map(|n| n.gpus);
        gpus.fold(0, i64::saturating_add).saturating_mul(WHOLE_GPU)
    }
}

fn parse_node(row: &CsvRow<'_>) -> Result<OpenbNode, TableError> {
    let gpus = row.number("gpu")?;
    if gpus > MAX_GPUS {
        return Err(TableError::TooLarge {
            row: row.number,
            column: "gpu",
            value: gpus,
            most: MAX_GPUS,
        });
    }
    Ok(OpenbNode {
        name: row.text("sn").to_owned(),
        cpu_milli: row.number("cpu_milli")?,
        memory_mib: row.number("memory_mib")?,
        gpus,
        model: row.text("model").to_owned(),
    })
}

fn parse_pod(row: &CsvRow<'_>) -> Result<OpenbPod, TableError> {
    let gpus = row.number("num_gpu")?;
    // For pods without GPUs, the files differ in this column.
    let gpu_milli = if gpus == 0 {
        0
    } else {
        row.number("gpu_milli")?
    };
    let sensible = match gpus {
        0 => true,
        1 => (1..=WHOLE_GPU).contains(&gpu_milli),
        _ => gpu_milli == WHOLE_GPU,
    };
    if !sensible {
        return Err(TableError::OutOfRange {
            row: row.number,
            column: "gpu_milli",
            value: gpu_milli,
        });
    }
    let models = row.text("gpu_spec").split('|').filter(|m| !m.is_empty());
    let mut models: Vec<String> = models.map(str::to_owned).collect();
    models.sort();
    models.dedup();
    Ok(OpenbPod {
        name: row.text("name").to_owned(),
        cpu_milli: row.number("cpu_milli")?,
        memory_mib: row.number("memory_mib")?,
        gpus,
        gpu_milli,
        models: if gpus == 0 { Vec::new() } else { models },
    })
}
