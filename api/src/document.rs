//! Reads Trellis objects from YAML files, and reports each problem with its line and a snippet. No
//! other module uses the YAML library.
//!
//! A document is read as Kubernetes' own tools read it: YAML becomes JSON, and JSON becomes the
//! object. As for the API server, `value: 1` is a number, and is refused where the field is text.

mod decode;
mod foreign_fields;
mod problem;
pub(crate) mod serde_messages;
mod stand_in;
mod unknown_fields;
mod yaml_tree;

pub use problem::{Problem, Problems};

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use problem::DocumentText;
use yaml_tree::{YamlPosition, YamlTree};

/// Largest file that is read, in bytes: enough for the pods of a cluster of some thousand nodes.
pub const MAX_FILE: usize = 64 << 20;

/// One object of a file: its kind and its content.
#[derive(Clone, Debug)]
pub struct Document {
    /// `apiVersion` as written.
    pub api_version: String,
    /// `kind` as written.
    pub kind: String,
    tree: Arc<YamlTree>,
    /// Path of the object in the document: empty, or `items[3]` in a list.
    item_path: String,
    source: DocumentText,
}

impl Document {
    /// Decodes the document strictly and checks every rule.
    ///
    /// # Errors
    /// All problems: file position, field, rule, fix and a snippet.
    pub fn decode_valid<T>(&self) -> Result<T, Problems>
    where
        T: DeserializeOwned + Serialize + garde::Validate<Context = ()>,
    {
        decode::decode_valid(self)
    }

    /// Decodes the document. Fields that `T` does not know are ignored.
    ///
    /// # Errors
    /// The first problem, with file position, field and a snippet.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Problems> {
        decode::decode_lenient(self)
    }

    /// Returns the object in a field, such as `spec.events[0].apply`. The object may omit its
    /// `apiVersion` if `version_of` knows the version of its kind.
    ///
    /// # Errors
    /// The field has no object, or the object's kind is unknown.
    pub fn embedded_object(
        &self,
        field: &str,
        version_of: impl Fn(&str) -> Option<&'static str>,
    ) -> Result<Self, Problem> {
        let word = |tree: &YamlTree, key: &str| {
            let text = tree.get(key).and_then(YamlTree::text);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let tree = self.tree.descend(field);
        let Some((tree, kind)) = tree.and_then(|tree| Some((tree, word(tree, "kind")?))) else {
            return Err(self.problem(field, "has no kind: say which kind of object it is"));
        };
        let known = || version_of(&kind).map(str::to_owned);
        let Some(api_version) = word(tree, "apiVersion").or_else(known) else {
            let message = format!("has no apiVersion, and {kind:?} is no kind that is known");
            return Err(self.problem(field, message));
        };
        let inside = match self.item_path.as_str() {
            "" => field.to_owned(),
            inside => format!("{inside}.{field}"),
        };
        Ok(Self {
            api_version,
            kind,
            tree: Arc::new(tree.clone()),
            item_path: inside,
            source: self.source.clone(),
        })
    }

    /// Returns a problem at a field of the document, such as `metadata.name`. If the field is
    /// absent, the problem is reported at the nearest field around it.
    #[must_use]
    pub fn problem(&self, field: &str, message: impl Into<String>) -> Problem {
        self.problem_at(self.tree.position_of(field), field, message.into())
    }

    fn problem_at(&self, at: YamlPosition, field: &str, message: String) -> Problem {
        let field = match (self.item_path.as_str(), field) {
            ("", field) => field.to_owned(),
            (inside, "") => inside.to_owned(),
            (inside, field) => format!("{inside}.{field}"),
        };
        self.source.problem(at, field, message)
    }
}

#[cfg(test)]
mod tests;

/// Splits a file into its objects. Empty documents are skipped; lists, as `kubectl get` writes
/// them, are split into their items.
///
/// # Errors
/// All problems that prevent an object from being read.
pub fn split(text: &str) -> Result<Vec<Document>, Problems> {
    let mut documents = Vec::new();
    let mut problems = Vec::new();
    for document in read(text) {
        match document {
            Ok(document) => documents.push(document),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(documents)
    } else {
        Err(Problems::from_vec(problems))
    }
}

/// Reads every object of a file that can be read, and returns a problem for each other one. Use
/// [`split`] if any problem must stop the caller.
#[must_use]
pub fn read(text: &str) -> Vec<Result<Document, Problem>> {
    if text.len() > MAX_FILE {
        let message = format!(
            "the file has {} bytes: at most {MAX_FILE} are read",
            text.len()
        );
        return vec![Err(Problem::for_file(message))];
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = Vec::new();
    let mut current = String::new();
    let mut first_line = 0;
    for (number, line) in text.lines().enumerate() {
        let start = line.strip_prefix("---");
        let start = start.filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if start.is_some() || line.trim_end() == "..." {
            read_document(&current, first_line, &mut found);
            current.clear();
            first_line = number;
            if let Some(rest) = start {
                // Content after the dashes keeps its column.
                current.push_str("   ");
                current.push_str(rest);
            }
        } else {
            current.push_str(line);
        }
        current.push('\n');
    }
    read_document(&current, first_line, &mut found);
    found
}

/// Reads one document. `first_line` is the index of its first line in the file, from 0.
fn read_document(text: &str, first_line: usize, found: &mut Vec<Result<Document, Problem>>) {
    let empty = |line: &str| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line.starts_with('%')
    };
    if text.lines().all(empty) {
        return;
    }
    let source = DocumentText::new(text, first_line);
    match YamlTree::parse(text) {
        Ok(tree) => collect_objects(tree, ("", ""), String::new(), &source, found),
        Err((at, message)) => found.push(Err(source.problem(at, String::new(), message))),
    }
}

/// Collects an object, or each object of a list. Items of a typed list may omit their kind, which
/// then follows from the `kind` of the list.
fn collect_objects(
    tree: YamlTree,
    (list_version, list_kind): (&str, &str),
    inside: String,
    source: &DocumentText,
    found: &mut Vec<Result<Document, Problem>>,
) {
    let word = |key: &str, of_list: &str| match tree.get(key).and_then(YamlTree::text) {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => of_list.to_owned(),
    };
    let api_version = word("apiVersion", list_version);
    let kind = word("kind", list_kind);
    if api_version.is_empty() || kind.is_empty() {
        let message = "has no apiVersion and kind: every Kubernetes object begins with them";
        found.push(Err(source.problem(
            tree.position,
            inside,
            message.to_owned(),
        )));
        return;
    }
    let item_kind = kind.strip_suffix("List").map(str::to_owned);
    match (item_kind, tree) {
        (Some(item_kind), tree) if inside.is_empty() && tree.has_items() => {
            let of_items = if item_kind.is_empty() {
                ("", "")
            } else {
                (api_version.as_str(), item_kind.as_str())
            };
            for (index, item) in tree.into_items().into_iter().enumerate() {
                collect_objects(item, of_items, format!("items[{index}]"), source, found);
            }
        }
        (_, tree) => found.push(Ok(Document {
            api_version,
            kind,
            tree: Arc::new(tree),
            item_path: inside,
            source: source.clone(),
        })),
    }
}

/// Returns the known word that is closest to a written one, if it is close enough for "did you
/// mean".
#[must_use]
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    serde_messages::nearest_word(name, known)
}

/// Formats an object as YAML.
///
/// # Errors
/// YAML cannot represent the object.
pub fn to_yaml(object: &impl Serialize) -> Result<String, serde_saphyr::ser_error::Error> {
    serde_saphyr::to_string(object)
}
