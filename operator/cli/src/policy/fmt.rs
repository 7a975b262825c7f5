//! `trellis policy fmt`: formats the text of policies in the standard style.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::Value;
use trellis_api::document::{self, Problem};
use trellis_policies::cedar;

use super::input_files::{self, ParsedObject};
use super::policy_objects::PolicySource;
use super::yaml_block::YamlBlock;
use crate::files::objects::{display_name, read_text, unreadable_problem};
use crate::files::source_object::SourceObject;
use crate::output;

/// Options of `trellis policy fmt`.
#[derive(clap::Args, Debug)]
pub(super) struct FmtOptions {
    /// Files, or folders with all their subfolders.
    /// In YAML files the command formats `spec.cedar` of policies; it formats .cedar files as a
    /// whole.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Write nothing, but print the names of files that are not formatted.
    #[arg(long)]
    check: bool,
}

/// Formats the files, and prints the names of changed files.
pub(super) fn run(options: &FmtOptions) -> anyhow::Result<ExitCode> {
    let mut problems = Vec::new();
    if options.paths.iter().any(|path| path == Path::new("-")) {
        let message = "standard input cannot be written to: name files";
        return Ok(output::print_problems(&[Problem::for_file(message)]));
    }
    let found = input_files::find_files(&options.paths, &["cedar", "yaml", "yml"], &mut problems);
    let mut changed = BTreeMap::new();
    for path in found {
        match format_file(&path) {
            Ok(Some(text)) => {
                changed.insert(path, text);
            }
            Ok(None) => {}
            Err(wrong) => problems.extend(wrong),
        }
    }
    // Any problem stops the command before the first write.
    if !problems.is_empty() {
        return Ok(output::print_problems(&problems));
    }
    let names: String = changed
        .keys()
        .map(|path| format!("{}\n", display_name(path)))
        .collect();
    output::print(&names)?;
    if options.check {
        return Ok(super::to_exit_code(changed.is_empty()));
    }
    for (path, text) in &changed {
        if let Err(error) = std::fs::write(path, text) {
            let problem = Problem::for_file(format!("cannot be written: {error}"));
            problems.push(problem.with_file(display_name(path)));
        }
    }
    if problems.is_empty() {
        Ok(ExitCode::SUCCESS)
    } else {
        Ok(output::print_problems(&problems))
    }
}

/// Returns the formatted file. None: the file is formatted already.
fn format_file(path: &Path) -> Result<Option<String>, Vec<Problem>> {
    let text = read_text(path).map_err(|error| vec![unreadable_problem(path, &error)])?;
    let file = display_name(path);
    let is_cedar = path.extension().is_some_and(|end| end == "cedar");
    let formatted = if is_cedar {
        cedar::format(&text).map_err(|problems| locate_problems(&problems, &file))?
    } else {
        format_yaml(&text, &file)?
    };
    Ok((formatted != text).then_some(formatted))
}

/// Returns the problems of a .cedar file.
fn locate_problems(problems: &[cedar::PolicyProblem], file: &str) -> Vec<Problem> {
    let locate = |reported: &cedar::PolicyProblem| {
        let problem =
            Problem::for_file(format!("{}: {}", reported.message, reported.fix)).with_file(file);
        match &reported.position {
            None => problem,
            Some(place) => Problem {
                line: place.line,
                column: place.column,
                snippet: place.snippet(place.line),
                ..problem
            },
        }
    };
    problems.iter().map(locate).collect()
}

/// Returns the YAML file with the text of its policies formatted.
fn format_yaml(text: &str, file: &str) -> Result<String, Vec<Problem>> {
    let mut blocks = Vec::new();
    let mut problems = Vec::new();
    let shared: Arc<str> = text.into();
    for found in document::read(text) {
        let document = match found {
            Ok(document) => document,
            Err(problem) => {
                problems.push(problem.with_file(file));
                continue;
            }
        };
        let source = SourceObject {
            document,
            file: file.to_owned(),
        };
        let piece = ParsedObject {
            source,
            text: shared.clone(),
        };
        match PolicySource::from_object(&piece) {
            None => {}
            Some(Err(wrong)) => problems.extend(wrong),
            Some(Ok(written)) => match format_block(&written) {
                Ok(found) => blocks.extend(found),
                Err(wrong) => problems.extend(wrong),
            },
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    // Replace from the end, so that earlier line numbers stay valid.
    blocks.sort_by_key(|(block, _): &(YamlBlock, String)| std::cmp::Reverse(block.lines.start));
    let mut formatted = text.to_owned();
    for (block, text) in &blocks {
        formatted = block.replace(&formatted, text);
    }
    if parse_values(&formatted) == parse_values(text) {
        Ok(formatted)
    } else {
        let message = "cannot be formatted without changing other text, such as anchors or tabs: write the policies without them";
        Err(vec![Problem::for_file(message).with_file(file)])
    }
}

/// Returns the position and the formatted text of an object.
/// None: it is formatted already.
fn format_block(written: &PolicySource) -> Result<Option<(YamlBlock, String)>, Vec<Problem>> {
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
    let source = &written.source.source;
    let at = source.problem("spec.cedar", "");
    match YamlBlock::find(&written.source.text, at.line, text) {
        Some(block) => Ok(Some((block, formatted))),
        None => {
            let message = "is not formatted, and is not a block of its own lines: write `cedar: |`, and the policies indented below it";
            Err(vec![source.problem("spec.cedar", message)])
        }
    }
}

/// Returns all values of a file, with formatted policies.
fn parse_values(text: &str) -> Vec<Option<Value>> {
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
