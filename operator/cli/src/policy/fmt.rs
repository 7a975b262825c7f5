//! `trellis policy fmt`: the text of policies as everybody writes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::Value;
use trellis_api::document::{self, Problem};
use trellis_policies::cedar;

use super::block::Block;
use super::files::{self, Piece};
use super::objects::Written;
use crate::output;
use crate::plan::input;
use crate::source::Source;

/// What to format.
#[derive(clap::Args, Debug)]
pub(super) struct Options {
    /// Files, or folders with all below: in YAML files `spec.cedar` of policies, files
    /// of the name .cedar as a whole.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Write nothing: name the files that are not formatted.
    #[arg(long)]
    check: bool,
}

/// Formats, and names the files that it changes.
pub(super) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut problems = Vec::new();
    if options.paths.iter().any(|path| path == Path::new("-")) {
        let message = "standard input cannot be written to: name files";
        return Ok(output::refuse(&[Problem::of_file(message)]));
    }
    let found = files::find(&options.paths, &["cedar", "yaml", "yml"], &mut problems);
    let mut changed = BTreeMap::new();
    for path in found {
        match one(&path) {
            Ok(Some(text)) => {
                changed.insert(path, text);
            }
            Ok(None) => {}
            Err(wrong) => problems.extend(wrong),
        }
    }
    // Nothing is written where something is wrong: all of it, or none.
    if !problems.is_empty() {
        return Ok(output::refuse(&problems));
    }
    let names: String = changed
        .keys()
        .map(|path| format!("{}\n", input::shown(path)))
        .collect();
    output::print(&names)?;
    if options.check {
        return Ok(super::answer(changed.is_empty()));
    }
    for (path, text) in &changed {
        if let Err(error) = std::fs::write(path, text) {
            let problem = Problem::of_file(format!("cannot be written: {error}"));
            problems.push(problem.in_file(input::shown(path)));
        }
    }
    if problems.is_empty() {
        Ok(ExitCode::SUCCESS)
    } else {
        Ok(output::refuse(&problems))
    }
}

/// The file as it should be. None: it is.
fn one(path: &Path) -> Result<Option<String>, Vec<Problem>> {
    let text = input::text(path).map_err(|error| vec![files::unreadable(path, &error)])?;
    let file = input::shown(path);
    let is_cedar = path.extension().is_some_and(|end| end == "cedar");
    let formatted = if is_cedar {
        cedar::format(&text).map_err(|problems| of_text(&problems, &file))?
    } else {
        yaml(&text, &file)?
    };
    Ok((formatted != text).then_some(formatted))
}

/// What is wrong with a file that is a text of policies.
fn of_text(problems: &[cedar::Problem], file: &str) -> Vec<Problem> {
    let one = |said: &cedar::Problem| {
        let problem = Problem::of_file(format!("{}: {}", said.message, said.fix)).in_file(file);
        match &said.place {
            None => problem,
            Some(place) => Problem {
                line: place.line,
                column: place.column,
                snippet: place.snippet(place.line),
                ..problem
            },
        }
    };
    problems.iter().map(one).collect()
}

/// A YAML file with the texts of its policies formatted.
fn yaml(text: &str, file: &str) -> Result<String, Vec<Problem>> {
    let mut blocks = Vec::new();
    let mut problems = Vec::new();
    let shared: Arc<str> = text.into();
    for found in document::read(text) {
        let document = match found {
            Ok(document) => document,
            Err(problem) => {
                problems.push(problem.in_file(file));
                continue;
            }
        };
        let source = Source {
            document,
            file: file.to_owned(),
        };
        let piece = Piece {
            source,
            text: shared.clone(),
        };
        match Written::of(&piece) {
            None => {}
            Some(Err(wrong)) => problems.extend(wrong),
            Some(Ok(written)) => match block(&written) {
                Ok(found) => blocks.extend(found),
                Err(wrong) => problems.extend(wrong),
            },
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    // From the end, so that the lines before stay where they are.
    blocks.sort_by_key(|(block, _): &(Block, String)| std::cmp::Reverse(block.lines.start));
    let mut formatted = text.to_owned();
    for (block, text) in &blocks {
        formatted = block.replace(&formatted, text);
    }
    if said(&formatted) == said(text) {
        Ok(formatted)
    } else {
        let message = "cannot be formatted without changing something else: anchors, or tabs? Write the policies without";
        Err(vec![Problem::of_file(message).in_file(file)])
    }
}

/// Where the text of an object stands, and what it should be. None: it is that.
fn block(written: &Written) -> Result<Option<(Block, String)>, Vec<Problem>> {
    let text = &written.object.cedar;
    let formatted = cedar::format(text).map_err(|problems| {
        problems
            .iter()
            .map(|p| written.problem(p))
            .collect::<Vec<_>>()
    })?;
    let bare = |text: &str| text.trim_end_matches('\n').to_owned();
    if bare(&formatted) == bare(text) {
        return Ok(None);
    }
    let source = &written.piece.source;
    let at = source.problem("spec.cedar", "");
    match Block::find(&written.piece.text, at.line, text) {
        Some(block) => Ok(Some((block, formatted))),
        None => {
            let message = "is not formatted, and does not stand in lines of its own: write `cedar: |`, and the policies below it, indented";
            Err(vec![source.problem("spec.cedar", message)])
        }
    }
}

/// All that a file says, the policies formatted.
fn said(text: &str) -> Vec<Option<Value>> {
    let value = |document: document::Document| {
        let mut value: Value = document.decode().ok()?;
        if let Some(cedar) = value.pointer_mut("/spec/cedar")
            && let Some(text) = cedar.as_str()
            && let Ok(formatted) = cedar::format(text)
        {
            *cedar = Value::String(formatted.trim_end_matches('\n').to_owned());
        }
        Some(value)
    };
    let read = document::read(text).into_iter();
    read.map(|found| value(found.ok()?)).collect()
}
