//! CSV tables with columns found by name, plain or compressed with gzip.

use std::collections::BTreeMap;
use std::io::Read;

/// A table in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvTable {
    columns: BTreeMap<String, usize>,
    rows: Vec<csv::StringRecord>,
}

/// Error of a table.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file cannot be unpacked.
    #[error("not a whole gzip file: {0}")]
    Gzip(#[from] std::io::Error),
    /// The file is not CSV.
    #[error(transparent)]
    Csv(#[from] csv::Error),
    /// The table has a header and no rows.
    #[error("contains no {0}: no row is below the header")]
    Empty(&'static str),
    /// The header lacks a column.
    #[error("no column {0:?} in the header")]
    NoColumn(&'static str),
    /// The value is no whole number.
    #[error("row {row}, column {column:?}: {value:?} is not a whole number of 0 or more")]
    NotANumber {
        /// The row, from 1, not counting the header.
        row: usize,
        /// The column.
        column: &'static str,
        /// The value in that cell.
        value: String,
    },
    /// The value is no decimal number.
    #[error("row {row}, column {column:?}: {value:?} is not a number of 0 or more")]
    NotADecimal {
        /// The row, from 1, not counting the header.
        row: usize,
        /// The column.
        column: &'static str,
        /// The value in that cell.
        value: String,
    },
    /// The number exceeds the limit of its column.
    #[error("row {row}, column {column:?}: {value} is too large: write at most {most}")]
    TooLarge {
        /// The row, from 1, not counting the header.
        row: usize,
        /// The column.
        column: &'static str,
        /// The value in that cell.
        value: i64,
        /// The limit.
        most: i64,
    },
    /// The number is outside the valid range.
    #[error("row {row}, column {column:?}: {value} is out of range")]
    OutOfRange {
        /// The row, from 1, not counting the header.
        row: usize,
        /// The column.
        column: &'static str,
        /// The value in that cell.
        value: i64,
    },
}

/// First bytes of a gzip file (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

impl CsvTable {
    /// Reads a file's bytes; lines that start with `#` are comments.
    ///
    /// # Errors
    ///
    /// [`TableError::Gzip`] and [`TableError::Csv`].
    pub fn read(bytes: &[u8]) -> Result<Self, TableError> {
        let mut unpacked = Vec::new();
        let bytes = if bytes.starts_with(&GZIP) {
            flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut unpacked)?;
            unpacked.as_slice()
        } else {
            bytes
        };
        let mut reader = csv::ReaderBuilder::new()
            .comment(Some(b'#'))
            .from_reader(bytes);
        let columns = (0..).zip(reader.headers()?);
        let columns = columns.map(|(at, name)| (name.to_owned(), at)).collect();
        let rows = reader.records().collect::<Result<_, _>>()?;
        Ok(Self { columns, rows })
    }

    /// Returns true if the header has this column.
    pub(super) fn has_column(&self, column: &str) -> bool {
        self.columns.contains_key(column)
    }

    /// The rows, numbered from 1.
    pub(super) fn rows(&self) -> impl Iterator<Item = CsvRow<'_>> {
        let rows = (1..).zip(&self.rows);
        rows.map(|(number, cells)| CsvRow {
            table: self,
            number,
            cells,
        })
    }

    /// Fails if the header lacks one of these columns.
    pub(super) fn require_columns(&self, columns: &[&'static str]) -> Result<(), TableError> {
        let is_missing = |name: &&&'static str| !self.columns.contains_key(**name);
        match columns.iter().find(is_missing) {
            Some(name) => Err(TableError::NoColumn(name)),
            None => Ok(()),
        }
    }
}

/// A row of a table.
pub(super) struct CsvRow<'a> {
    table: &'a CsvTable,
    pub(super) number: usize,
    cells: &'a csv::StringRecord,
}

impl<'a> CsvRow<'a> {
    /// The value in a column; empty if there is no such column.
    pub(super) fn text(&self, column: &str) -> &'a str {
        let at = self.table.columns.get(column);
        at.and_then(|at| self.cells.get(*at)).unwrap_or("")
    }

    /// A non-negative whole number.
    pub(super) fn number(&self, column: &'static str) -> Result<i64, TableError> {
        let value = self.text(column);
        let number = value.parse().ok().filter(|n| *n >= 0);
        number.ok_or_else(|| TableError::NotANumber {
            row: self.number,
            column,
            value: value.to_owned(),
        })
    }

    /// A non-negative number, which may have a fraction.
    pub(super) fn decimal(&self, column: &'static str) -> Result<f64, TableError> {
        let value = self.text(column);
        let number = value.parse().ok();
        let number = number.filter(|n: &f64| n.is_finite() && *n >= 0.0);
        number.ok_or_else(|| TableError::NotADecimal {
            row: self.number,
            column,
            value: value.to_owned(),
        })
    }
}
