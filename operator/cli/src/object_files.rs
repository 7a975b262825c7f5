//! Files that people name.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use trellis_api::document;

/// The files of a folder that hold objects, in the order of their names. None: it is no folder.
///
/// # Errors
/// What is wrong with it, in words.
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

/// The text of a file; `-` is standard input.
///
/// # Errors
/// If it cannot be read, or is no text. One that is too large is cut off behind
/// [`document::MAX_FILE`], and is told to be too large by whoever reads the text.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    // One more than is taken, so that a larger file is seen to be one.
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

/// The name of a file as messages bear it.
#[must_use]
pub fn display_name(path: &Path) -> String {
    if path == Path::new("-") {
        "<stdin>".to_owned()
    } else {
        path.display().to_string()
    }
}
