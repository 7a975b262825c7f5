//! Reads the files that users name.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use trellis_api::document::{self, Problem};

use super::source_object::SourceObject;

/// Reads the objects of a file, or of the files of a folder.
/// A folder, file or document that cannot be read is a problem that names the file.
pub fn read_objects(path: &Path) -> Vec<Result<SourceObject, Problem>> {
    match list_folder(path) {
        Ok(None) => read_file_objects(path),
        Ok(Some(files)) => files
            .iter()
            .flat_map(|file| read_file_objects(file))
            .collect(),
        Err(message) => vec![Err(Problem::for_file(message).with_file(display_name(path)))],
    }
}

/// Reads the objects of one file, as [`read_objects`] does.
pub fn read_file_objects(path: &Path) -> Vec<Result<SourceObject, Problem>> {
    match read_text(path) {
        Ok(text) => parse_objects(&text, &display_name(path)),
        Err(error) => vec![Err(unreadable_problem(path, &error))],
    }
}

/// Parses the text of a file. A document that cannot be parsed is a problem that names the file.
pub fn parse_objects(text: &str, file: &str) -> Vec<Result<SourceObject, Problem>> {
    let parse = |found: Result<_, Problem>| match found {
        Ok(document) => Ok(SourceObject {
            document,
            file: file.to_owned(),
        }),
        Err(problem) => Err(problem.with_file(file)),
    };
    document::read(text).into_iter().map(parse).collect()
}

/// The problem of an unreadable file.
pub fn unreadable_problem(path: &Path, error: &std::io::Error) -> Problem {
    Problem::for_file(format!("cannot be read: {error}")).with_file(display_name(path))
}

/// Lists the files of a folder that hold objects, sorted by name.
/// Returns None if the path is not a folder.
///
/// # Errors
/// If the folder cannot be read, with the message.
fn list_folder(path: &Path) -> Result<Option<Vec<PathBuf>>, String> {
    if !path.is_dir() {
        return Ok(None);
    }
    let unread = |error: std::io::Error| format!("cannot be read: {error}");
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(unread)? {
        let file = entry.map_err(unread)?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(
            "is a folder without .yaml, .yml and .json files: name a folder with such files"
                .to_owned(),
        );
    }
    Ok(Some(files))
}

/// Reads the text of a file; `-` is standard input.
///
/// # Errors
/// If the file cannot be read, or is not UTF-8. A file above [`document::MAX_FILE`] is cut behind
/// this limit, and the parser of the text then reports it as too large.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    // Reading one byte above the limit lets the parser detect a larger file.
    let limit = u64::try_from(document::MAX_FILE)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    if path == Path::new("-") {
        std::io::stdin()
            .lock()
            .take(limit)
            .read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(path)?
            .take(limit)
            .read_to_end(&mut bytes)?;
    }
    String::from_utf8(bytes)
        .map_err(|_| std::io::Error::other("it is not UTF-8 text: save it as UTF-8"))
}

/// The name of a file in messages.
#[must_use]
pub fn display_name(path: &Path) -> String {
    if path == Path::new("-") {
        "<stdin>".to_owned()
    } else {
        path.display().to_string()
    }
}
