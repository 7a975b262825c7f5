//! Reads the files that users name.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use trellis_api::document;

/// Lists the files of a folder that hold objects, sorted by name.
/// Returns None if the path is not a folder.
///
/// # Errors
/// If the folder cannot be read, with the message.
pub fn list_folder(path: &Path) -> Result<Option<Vec<PathBuf>>, String> {
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
            "is a folder without .yaml, .yml and .json files: name one that has some".to_owned(),
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
    let most = u64::try_from(document::MAX_FILE)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    if path == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(path)?
            .take(most)
            .read_to_end(&mut bytes)?;
    }
    String::from_utf8(bytes)
        .map_err(|_| std::io::Error::other("it is no text in UTF-8: save it as UTF-8"))
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
