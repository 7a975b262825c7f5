//! The files that the tools for policies read: files, and folders with all below.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use trellis_api::QuotaPolicy;
use trellis_api::document::{self, Problem};

use crate::plan::input;
use crate::source::Source;

/// A folder that is deeper than this holds itself.
const DEEPEST: usize = 64;

/// What stands beside objects in many a folder and is none.
const KUSTOMIZE: [&str; 2] = ["kustomization.yaml", "kustomization.yml"];

/// An object of a file, and the file's text.
#[derive(Clone)]
pub(super) struct Piece {
    pub(super) source: Source,
    pub(super) text: Arc<str>,
}

/// What files hold.
#[derive(Default)]
pub(super) struct Files {
    /// Every object, in the order of the files.
    pub(super) pieces: Vec<Piece>,
    /// Everything that is wrong.
    pub(super) problems: Vec<Problem>,
}

impl Files {
    /// Reads all files, whatever is wrong with some. Limits of how much a job may have
    /// are none of the questions here: they are checked, and left out.
    pub(super) fn read(paths: &[PathBuf]) -> Self {
        let mut files = Self::default();
        for path in find(paths, &["yaml", "yml", "json"], &mut files.problems) {
            let file = input::shown(&path);
            match input::text(&path) {
                Ok(text) => files.file(&text, &file),
                Err(error) => files.problems.push(unreadable(&path, &error)),
            }
        }
        files
    }

    fn file(&mut self, text: &str, file: &str) {
        let shared: Arc<str> = text.into();
        for found in document::read(text) {
            let document = match found {
                Ok(document) => document,
                Err(problem) => {
                    self.problems.push(problem.in_file(file));
                    continue;
                }
            };
            let source = Source {
                document,
                file: file.to_owned(),
            };
            if source.is("QuotaPolicy") {
                if let Err(problems) = source.document.valid::<QuotaPolicy>() {
                    self.problems.extend(source.all(problems));
                }
                continue;
            }
            let text = shared.clone();
            self.pieces.push(Piece { source, text });
        }
    }
}

/// What is wrong with a file that cannot be read.
pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
    let problem = Problem::of_file(format!("cannot be read: {error}"));
    problem.in_file(input::shown(path))
}

/// The files that are named, and of folders all below whose name ends so, by name.
/// What begins with a dot is left out, links to folders and kustomizations too.
pub(super) fn find(paths: &[PathBuf], ends: &[&str], problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in paths {
        if !path.is_dir() {
            found.push(path.clone());
            continue;
        }
        let before = found.len();
        let told = problems.len();
        below(path, ends, DEEPEST, &mut found, problems);
        if found.len() == before && problems.len() == told {
            let ends: Vec<_> = ends.iter().map(|end| format!(".{end}")).collect();
            let message = format!(
                "is a folder without {} files: name one that has some",
                ends.join(", ")
            );
            problems.push(Problem::of_file(message).in_file(input::shown(path)));
        }
    }
    found
}

fn below(
    folder: &Path,
    ends: &[&str],
    deeper: usize,
    found: &mut Vec<PathBuf>,
    problems: &mut Vec<Problem>,
) {
    let Some(deeper) = deeper.checked_sub(1) else {
        return;
    };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return problems.push(unreadable(folder, &error)),
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => paths.push(entry.path()),
            Err(error) => problems.push(unreadable(folder, &error)),
        }
    }
    paths.sort_unstable();
    for path in paths {
        let left_out = path.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.starts_with('.') || KUSTOMIZE.contains(&name.as_ref())
        });
        if left_out {
            continue;
        }
        let end = path.extension().and_then(|e| e.to_str());
        if path.is_dir() {
            if !path.is_symlink() {
                below(&path, ends, deeper, found, problems);
            }
        } else if end.is_some_and(|end| ends.contains(&end)) {
            found.push(path);
        }
    }
}
