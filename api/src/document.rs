//! YAML files in, our kinds out, with the line and a snippet for everything
//! that is wrong. The only module that knows the YAML library.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::validate::camel_case;

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
        serde_saphyr::from_str_valid(&self.text)
            .map_err(|e| DocumentError::Yaml(as_written(&e.to_string())))
    }

    /// Decodes the document.
    ///
    /// # Errors
    /// With line, column and a snippet for what is wrong.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, DocumentError> {
        serde_saphyr::from_str(&self.text).map_err(|e| DocumentError::Yaml(e.to_string()))
    }
}

/// The message with the paths in it as YAML has them: `spec.taskGroups[0].replicas`.
fn as_written(message: &str) -> String {
    message
        .split('`')
        .enumerate()
        .map(|(i, part)| {
            // Every second part stands in backquotes.
            let quoted = i.checked_rem(2) == Some(1);
            if quoted && (part.starts_with("spec.") || part.starts_with("metadata.")) {
                camel_case(part.trim_end_matches('.'))
            } else {
                part.to_owned()
            }
        })
        .collect::<Vec<_>>()
        .join("`")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrainingJob;

    const JOB: &str = "apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata: {name: a}
spec:
  taskGroups:
  - {name: w, replicas: 1, image: x, resources: {cpu: 1, memory: 1Gi}}
";

    fn error(text: &str) -> String {
        let documents = match split(text) {
            Ok(documents) => documents,
            Err(error) => return error.to_string(),
        };
        let failed = documents
            .iter()
            .find_map(|d| d.valid::<TrainingJob>().err());
        failed.map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_violation_names_path_rule_line_and_snippet() {
        let error = error(&JOB.replace("replicas: 1", "replicas: 0"));
        for part in [
            "spec.taskGroups[0].replicas`",
            "must be 1 to 4096",
            ":6:",
            "^",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn lines_are_those_of_the_file() {
        let second = JOB.replace("replicas: 1", "replicas: 0");
        let error = error(&format!("{JOB}---\n{second}"));
        assert!(error.contains(":13:"), "{error}");
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert_eq!(error(JOB), "");
        assert!(error(&JOB.replace("replicas", "replica")).contains("replica"));
        assert!(error("a: 1\n").contains("no apiVersion"));
        assert!(!error("spec:\n\tx: 1\n").is_empty());
        assert!(!error("{").is_empty());
        assert!(split("# nothing\n---\n").unwrap().is_empty());
        assert!(split(&"x".repeat(MAX_FILE + 1)).is_err());
    }
}
