//! Reads the files for the policy tools.
//! Folders are read with all their subfolders.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use trellis_api::QuotaPolicy;
use trellis_api::document::Problem;

use crate::files::objects::{display_name, parse_objects, read_text, unreadable_problem};
use crate::files::source_object::SourceObject;

/// Greatest depth of folders. A deeper folder contains itself.
const MAX_DEPTH: usize = 64;

/// Names of kustomization files, which contain no objects.
const KUSTOMIZATION_FILES: [&str; 2] = ["kustomization.yaml", "kustomization.yml"];

/// An object of a file, and the text of the file.
#[derive(Clone)]
pub(super) struct ParsedObject {
    pub(super) source: SourceObject,
    pub(super) text: Arc<str>,
}

/// The content of the files.
#[derive(Default)]
pub(super) struct ParsedFiles {
    /// Every object, in the order of the files.
    pub(super) objects: Vec<ParsedObject>,
    /// All problems.
    pub(super) problems: Vec<Problem>,
}

impl ParsedFiles {
    /// Reads all files, even if some have problems.
    /// QuotaPolicies are checked and then ignored, because these tools do not decide on quotas.
    pub(super) fn read(paths: &[PathBuf]) -> Self {
        let mut files = Self::default();
        for path in find_files(paths, &["yaml", "yml", "json"], &mut files.problems) {
            let file = display_name(&path);
            match read_text(&path) {
                Ok(text) => files.add_text(&text, &file),
                Err(error) => files.problems.push(unreadable_problem(&path, &error)),
            }
        }
        files
    }

    fn add_text(&mut self, text: &str, file: &str) {
        let shared: Arc<str> = text.into();
        for found in parse_objects(text, file) {
            let source = match found {
                Ok(source) => source,
                Err(problem) => {
                    self.problems.push(problem);
                    continue;
                }
            };
            if source.is_kind("QuotaPolicy") {
                if let Err(problems) = source.document.decode_valid::<QuotaPolicy>() {
                    self.problems.extend(source.to_problems(problems));
                }
                continue;
            }
            let text = shared.clone();
            self.objects.push(ParsedObject { source, text });
        }
    }
}

/// Returns the given files, and the files in the given folders.
/// Files of folders have one of these extensions and are sorted by name. Names with a leading dot,
/// links to folders, and kustomizations are left out.
pub(super) fn find_files(
    paths: &[PathBuf],
    ends: &[&str],
    problems: &mut Vec<Problem>,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in paths {
        if !path.is_dir() {
            found.push(path.clone());
            continue;
        }
        let before = found.len();
        let problems_before = problems.len();
        find_below(path, ends, MAX_DEPTH, &mut found, problems);
        if found.len() == before && problems.len() == problems_before {
            let ends: Vec<_> = ends.iter().map(|end| format!(".{end}")).collect();
            let message = format!(
                "is a folder without {} files: name a folder with such files",
                ends.join(", ")
            );
            problems.push(Problem::for_file(message).with_file(display_name(path)));
        }
    }
    found
}

fn find_below(
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
        Err(error) => return problems.push(unreadable_problem(folder, &error)),
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => paths.push(entry.path()),
            Err(error) => problems.push(unreadable_problem(folder, &error)),
        }
    }
    paths.sort_unstable();
    for path in paths {
        let left_out = path.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.starts_with('.') || KUSTOMIZATION_FILES.contains(&name.as_ref())
        });
        if left_out {
            continue;
        }
        let end = path.extension().and_then(|e| e.to_str());
        if path.is_dir() {
            if !path.is_symlink() {
                find_below(&path, ends, deeper, found, problems);
            }
        } else if end.is_some_and(|end| ends.contains(&end)) {
            found.push(path);
        }
    }
}
