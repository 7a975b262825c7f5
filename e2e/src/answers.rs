//! Makes the answers of two servers comparable: uids and revisions get names by order of
//! appearance, times become alike, and fields that differ by design are dropped.

use std::collections::BTreeMap;

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

pub(crate) struct Normalizer {
    namespace: String,
    /// Prefixes of names that the servers generate.
    prefixes: Vec<String>,
    uids: BTreeMap<String, usize>,
    revisions: BTreeMap<String, usize>,
}

impl Normalizer {
    pub(crate) fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            prefixes: Vec::new(),
            uids: BTreeMap::new(),
            revisions: BTreeMap::new(),
        }
    }

    /// Learns the prefix of a name that the servers will generate.
    pub(crate) fn notice_request(&mut self, body: &Value) {
        let prefix = body
            .pointer("/metadata/generateName")
            .and_then(Value::as_str);
        self.prefixes.extend(prefix.map(str::to_owned));
    }

    pub(crate) fn normalize(&mut self, mut value: Value) -> Value {
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
