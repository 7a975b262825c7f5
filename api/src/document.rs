//! YAML files in, our kinds out, with the line and a snippet for everything
//! that is wrong. The only module that knows the YAML library.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Largest file that is read, in bytes: more than etcd would take of one object.
pub const MAX_FILE: usize = 4 << 20;

/// Why a file is refused.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// Larger than [`MAX_FILE`].
    #[error("the file has {0} bytes: at most 4194304 are read")]
    TooLarge(usize),
    /// Not YAML, a field of a wrong type, an unknown field, or a rule that does not hold.
    #[error("{0}")]
    Yaml(String),
    /// A document without `apiVersion` or `kind`.
    #[error("document {0} has no apiVersion and kind: it is no Kubernetes object")]
    NoKind(usize),
}

/// One document of a file: its kind, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// `apiVersion` as written.
    pub api_version: String,
    /// `kind` as written.
    pub kind: String,
    /// The text, padded with empty lines so that line numbers are those of the file.
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeMeta {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
}

impl Document {
    /// Decodes the document strictly and checks every rule.
    ///
    /// # Errors
    /// With line, column and a snippet for what is wrong.
    pub fn valid<T>(&self) -> Result<T, DocumentError>
    where
        T: DeserializeOwned + garde::Validate<Context = ()>,
    {
        serde_saphyr::from_str_valid(&self.text).map_err(|e| DocumentError::Yaml(e.to_string()))
    }

    /// Decodes the document.
    ///
    /// # Errors
    /// With line, column and a snippet for what is wrong.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, DocumentError> {
        serde_saphyr::from_str(&self.text).map_err(|e| DocumentError::Yaml(e.to_string()))
    }
}

/// Splits a file into its documents. Empty ones are left out.
///
/// # Errors
/// If the file is too large, is not YAML, or holds something that is no Kubernetes object.
pub fn split(text: &str) -> Result<Vec<Document>, DocumentError> {
    if text.len() > MAX_FILE {
        return Err(DocumentError::TooLarge(text.len()));
    }
    let mut documents = Vec::new();
    let mut current = String::new();
    for line in text.lines() {
        if line == "---" || line.starts_with("--- ") {
            let lines = current.lines().count();
            push(&mut documents, &current)?;
            current = "\n".repeat(lines.saturating_add(1));
        } else {
            current.push_str(line);
            current.push('\n');
        }
    }
    push(&mut documents, &current)?;
    Ok(documents)
}

fn push(documents: &mut Vec<Document>, text: &str) -> Result<(), DocumentError> {
    let empty = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    if text.lines().all(empty) {
        return Ok(());
    }
    let meta: TypeMeta =
        serde_saphyr::from_str(text).map_err(|e| DocumentError::Yaml(e.to_string()))?;
    if meta.api_version.is_empty() || meta.kind.is_empty() {
        return Err(DocumentError::NoKind(documents.len().saturating_add(1)));
    }
    documents.push(Document {
        api_version: meta.api_version,
        kind: meta.kind,
        text: text.to_owned(),
    });
    Ok(())
}
