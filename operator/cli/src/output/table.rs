//! Tables in the format of kubectl.
//! The head is in capitals, and three spaces separate the columns. The last column is cut at the
//! width of the terminal.

use trellis_reads::text::sanitize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::style::{Tone, paint};

const GAP: usize = 3;

/// A cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell with this text in this tone. The text becomes one line.
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: sanitize(text),
            tone,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    head: Vec<Cell>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Creates a table with these columns.
    pub fn new<'a>(columns: impl IntoIterator<Item = &'a str>) -> Self {
        let head = columns.into_iter().map(|name| Cell::new(name, Tone::Head));
        Self {
            head: head.collect(),
            rows: Vec::new(),
        }
    }

    /// Creates a table without a head.
    #[must_use]
    pub fn headless() -> Self {
        Self::default()
    }

    /// Adds a row.
    pub fn push_row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Returns true if the table has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Renders the table; `indent` spaces start each line.
    /// `width`: columns of the terminal; None: nothing is cut.
    #[must_use]
    pub fn render(&self, indent: usize, width: Option<usize>) -> String {
        let head = Some(&self.head).filter(|head| !head.is_empty());
        let rows = || head.into_iter().chain(&self.rows);
        let mut widths: Vec<usize> = Vec::new();
        for row in rows() {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(display_width(&cell.text));
            }
        }
        let mut out = String::new();
        for row in rows() {
            render_line(row, &widths, indent, width, &mut out);
        }
        out
    }
}

fn render_line(
    row: &[Cell],
    widths: &[usize],
    indent: usize,
    width: Option<usize>,
    out: &mut String,
) {
    let used = row.iter().rposition(|cell| !cell.text.is_empty());
    let used = used.map_or(0, |last| last.saturating_add(1));
    out.push_str(&" ".repeat(indent));
    let mut at = indent;
    for (number, (cell, column)) in row.iter().zip(widths).take(used).enumerate() {
        if number.saturating_add(1) == used {
            let remaining = width.map(|width| width.saturating_sub(at));
            out.push_str(&paint(&truncate(&cell.text, remaining), cell.tone));
        } else {
            out.push_str(&paint(&cell.text, cell.tone));
            let rest = column
                .saturating_sub(display_width(&cell.text))
                .saturating_add(GAP);
            out.push_str(&" ".repeat(rest));
            at = at.saturating_add(column.saturating_add(GAP));
        }
    }
    out.push('\n');
}

/// Number of terminal columns of the text.
fn display_width(text: &str) -> usize {
    // For ASCII the length is the width, because cells have no control characters.
    match text.is_ascii() {
        true => text.len(),
        false => text.width(),
    }
}

/// Cuts the text to the available columns.
/// If there are too few, the text is not cut and the terminal wraps the line.
fn truncate(text: &str, room: Option<usize>) -> String {
    const LEAST: usize = 20;
    match room.filter(|room| *room >= LEAST && display_width(text) > *room) {
        None => text.to_owned(),
        Some(room) => {
            let mut remaining = room.saturating_sub(1);
            let fits = |c: &char| match remaining.checked_sub(c.width().unwrap_or(0)) {
                Some(rest) => {
                    remaining = rest;
                    true
                }
                None => false,
            };
            let prefix: Vec<char> = text.chars().take_while(fits).collect();
            prefix.into_iter().chain(['…']).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["NAME", "GPUS", "REASON"]);
        table.push_row(["llm".into(), "64".into(), Cell::new("Running", Tone::Good)]);
        table.push_row([
            "a-long-name".into(),
            "8".into(),
            "needs 8 more GPUs than there are".into(),
        ]);
        table.push_row(["x".into(), "".into(), "".into()]);
        table
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn columns_are_aligned() {
        assert_eq!(
            plain(&table().render(0, None)),
            "NAME          GPUS   REASON\n\
             llm           64     Running\n\
             a-long-name   8      needs 8 more GPUs than there are\n\
             x\n"
        );
    }

    #[test]
    fn cell_is_one_line() {
        let mut table = Table::new(["NAME", "NOTE"]);
        table.push_row(["a\nb".into(), "\x1b[2Jx\u{202e}\ny".into()]);
        assert_eq!(plain(&table.render(0, None)), "NAME   NOTE\na b    x y\n");
        assert!(!table.render(0, None).contains("\x1b[2J"));
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut table = Table::new(["NAME", "NOTE"]);
        table.push_row(["名前".into(), "x".into()]);
        table.push_row(["abcde".into(), "訓練が始まるのを待っている".into()]);
        let text = plain(&table.render(0, Some(28)));
        assert_eq!(
            text,
            "NAME    NOTE\n名前    x\nabcde   訓練が始まるのを待…\n"
        );
        assert!(text.lines().all(|line| display_width(line) <= 28));
    }

    #[test]
    fn last_column_is_cut_at_the_terminal_width() {
        let text = plain(&table().render(2, Some(46)));
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert_eq!(longest, Some(46));
        assert!(text.contains("needs 8 more GPUs than…\n"), "{text}");
        // A cut text of a few letters would be useless.
        let narrow = plain(&table().render(0, Some(30)));
        assert!(narrow.contains("than there are"), "{narrow}");
    }
}
