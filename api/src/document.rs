//! YAML files in, our kinds out, with the line and a snippet for everything
//! that is wrong. The only module that knows the YAML library.
//!
//! A document is read as Kubernetes' own tools read it: YAML becomes JSON, and
//! JSON becomes the object. So `value: 1` is a number here as it is for the API
//! server, and is refused where a text is wanted.

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

/// Largest file that is read, in bytes: the pods of a cluster of some thousand nodes.
pub const MAX_FILE: usize = 64 << 20;

/// One object of a file: its kind, and what it says.
#[derive(Clone, Debug)]
pub struct Document {
    /// `apiVersion` as written.
    pub api_version: String,
    /// `kind` as written.
    pub kind: String,
    tree: Arc<YamlTree>,
    /// Where in the document the object stands: empty, or `items[3]` of a list.
    item_path: String,
    source: DocumentText,
}

impl Document {
    /// Decodes the document strictly and checks every rule.
    ///
    /// # Errors
    /// With everything that is wrong: file position, field, rule, fix and a snippet.
    pub fn decode_valid<T>(&self) -> Result<T, Problems>
    where
        T: DeserializeOwned + Serialize + garde::Validate<Context = ()>,
    {
        decode::decode_valid(self)
    }

    /// Decodes the document. Fields that `T` does not know are not looked at.
    ///
    /// # Errors
    /// With file position, field, and a snippet for what is wrong.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Problems> {
        decode::decode_lenient(self)
    }

    /// The object that a field holds, such as `spec.events[0].apply`. It may leave
    /// out its `apiVersion` where `version_of` knows that of its kind.
    ///
    /// # Errors
    /// If there is none, or nobody knows what it is.
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

    /// Something that is wrong with the document, at a field of it such as
    /// `metadata.name`; where that is absent, at the nearest field around it.
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

/// Splits a file into its objects. Empty documents are left out; lists, such as
/// `kubectl get` writes them, are opened up.
///
/// # Errors
/// With all that keeps any of it from being read.
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

/// Reads every object of a file that can be read, and says what keeps the others
/// from it: [`split`] for who goes on where something is wrong.
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
                // What stands behind the dashes keeps its column.
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

/// Reads one document. `first_line` of the file is its first, counted from 0.
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

/// Takes an object, or each of a list. Items of a list of one kind need not say
/// which: `kind` is then the list's.
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

/// The one of the known words that is nearest to what is written, if it is near:
/// for "did you mean".
#[must_use]
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    serde_messages::nearest_word(name, known)
}

/// An object as YAML.
///
/// # Errors
/// If it is none that YAML can say.
pub fn to_yaml(object: &impl Serialize) -> Result<String, serde_saphyr::ser_error::Error> {
    serde_saphyr::to_string(object)
}
