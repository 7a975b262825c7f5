//! Compares the answers of a real API server with those of the simulated one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

/// Fields that are not compared, and why.
const DROPPED: &[(&str, &str)] = &[
    (
        "managedFields",
        "the simulated server does not track fields",
    ),
    ("message", "words are for people"),
    ("remainingItemCount", "a real server estimates it"),
];

/// Makes answers comparable: uids and revisions get names by order of appearance, times become
/// alike, and fields that differ by design are dropped.
#[derive(Debug)]
pub struct Normalizer {
    namespace: String,
    /// Prefixes of names that the servers generate.
    prefixes: Vec<String>,
    uids: BTreeMap<String, usize>,
    revisions: BTreeMap<String, usize>,
}

impl Normalizer {
    /// Creates a normalizer for the answers to requests about a namespace.
    #[must_use]
    pub fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            prefixes: Vec::new(),
            uids: BTreeMap::new(),
            revisions: BTreeMap::new(),
        }
    }

    /// Learns the prefix of a name that the servers will generate.
    pub fn notice_request(&mut self, body: &Value) {
        let prefix = body
            .pointer("/metadata/generateName")
            .and_then(Value::as_str);
        self.prefixes.extend(prefix.map(str::to_owned));
    }

    /// Returns an answer in the form that is compared.
    #[must_use]
    pub fn normalize(&mut self, mut value: Value) -> Value {
        self.visit("", &mut value);
        value
    }

    fn visit(&mut self, name: &str, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, value| {
                    !value.is_null() && !DROPPED.iter().any(|(dropped, _)| dropped == name)
                });
                // The order of fields means nothing. The names of revisions follow this one.
                let mut names: Vec<String> = fields.keys().cloned().collect();
                names.sort();
                for name in names {
                    self.visit(&name, &mut fields[&name]);
                }
            }
            Value::Array(items) => {
                if name == "causes" {
                    items.sort_by_key(|cause| cause["field"].to_string());
                }
                for item in items {
                    self.visit(name, item);
                }
            }
            Value::String(text) => self.rename(name, text),
            _ => {}
        }
    }

    fn rename(&mut self, name: &str, text: &mut String) {
        if name == "resourceVersion" && text != "0" {
            let count = self.revisions.len() + 1;
            let number = self.revisions.entry(text.clone()).or_insert(count);
            *text = format!("<revision {number}>");
        } else if is_uid(text) {
            let count = self.uids.len() + 1;
            let number = self.uids.entry(text.clone()).or_insert(count);
            *text = format!("<uid {number}>");
        } else if text.parse::<jiff::Timestamp>().is_ok() {
            "<time>".clone_into(text);
        } else if let Some(prefix) = self.generated_prefix(text) {
            *text = format!("{prefix}<generated>");
        } else if name == "continue" && !text.is_empty() {
            "<token>".clone_into(text);
        } else if matches!(name, "clusterIP" | "clusterIPs") && text != "None" {
            "<address>".clone_into(text);
        } else {
            *text = text.replace(&self.namespace, "NS");
        }
    }
}

/// Length of what a server adds to a `generateName`.
const SUFFIX_LENGTH: usize = 5;

impl Normalizer {
    fn generated_prefix(&self, text: &str) -> Option<&String> {
        let is_prefix = |prefix: &&String| {
            text.len() == prefix.len() + SUFFIX_LENGTH && text.starts_with(prefix.as_str())
        };
        self.prefixes.iter().find(is_prefix)
    }
}

fn is_uid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// A field that differs between two answers.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldDifference {
    /// The field, as a JSON pointer.
    pub path: String,
    /// The value of the real server. Null: it has none.
    pub real: Value,
    /// The value of the simulated server. Null: it has none.
    pub simulated: Value,
}

impl fmt::Display for FieldDifference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            real,
            simulated,
        } = self;
        write!(formatter, "  {path}: real {real}, simulated {simulated}")
    }
}

/// Lists the fields that differ between two answers.
#[must_use]
pub fn list_differences(real: &Value, simulated: &Value) -> Vec<FieldDifference> {
    let mut differences = Vec::new();
    add_differences("", real, simulated, &mut differences);
    differences
}

fn add_differences(
    path: &str,
    real: &Value,
    simulated: &Value,
    differences: &mut Vec<FieldDifference>,
) {
    match (real, simulated) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for name in names {
                let (one, other) = (&real[name], &simulated[name]);
                let name = name.replace('~', "~0").replace('/', "~1");
                add_differences(&format!("{path}/{name}"), one, other, differences);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                add_differences(&format!("{path}/{index}"), one, other, differences);
            }
        }
        _ if real != simulated => differences.push(FieldDifference {
            path: path.to_owned(),
            real: real.clone(),
            simulated: simulated.clone(),
        }),
        _ => {}
    }
}
